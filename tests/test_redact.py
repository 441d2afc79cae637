"""What may reach the disk: every text of either source goes through the tags before anything else is done to it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bottlepipe.envelopes import PRIVATE_KIND, own_words
from bottlepipe.frames import NUMBERED, OBSERVATIONS, SUMMARIES, frame
from bottlepipe.redact import (
    public,
    public_line,
    redact_messages,
    redact_observations,
    redact_record,
    redact_summaries,
)
from bottlepipe.tags import strip_tags

HIDDEN = "<private>SECRET</private>"
OBSERVATION_FIELDS = ("type", "title", "subtitle", "narrative", "text")
SUMMARY_FIELDS = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def messages(*blocks: tuple[int, str, str]) -> pl.DataFrame:
    """Numbered MESSAGES from (message, speaker, text) blocks; every user message begins a turn."""
    rows, turn, last = [], 0, -1
    for seq, (message, speaker, text) in enumerate(blocks):
        turn += speaker == "user" and message != last
        last = message
        rows.append(("s", seq, speaker, "text", text, 1000 * seq, -1, f"m{message}", 0, message, turn))
    return frame(rows, NUMBERED)


def observations(*rows: dict[str, Any]) -> pl.DataFrame:
    """OBSERVATIONS with a `turn`."""
    base = {**dict.fromkeys(OBSERVATIONS), "session_id": "s", "is_guess": False, "turn": None}
    schema = {**OBSERVATIONS, "turn": pl.Int64}
    return pl.DataFrame(
        [{**base, "observation_id": number, **row} for number, row in enumerate(rows, 1)], schema=schema
    )


def summaries(**fields: str) -> pl.DataFrame:
    base = {**dict.fromkeys(SUMMARIES), "session_id": "s", "summary_id": 1, "turn": 1}
    return pl.DataFrame([{**base, **fields}], schema={**SUMMARIES, "turn": pl.Int64})


def texts(rows: pl.DataFrame) -> list[str]:
    return rows.get_column("public_text").to_list()


def test_private_spans_leave_prompts_and_answers() -> None:
    """What stands around a span stays byte for byte, and what was removed is counted."""
    left_out: Counter[str] = Counter()
    rows = redact_messages(
        messages((0, "user", f" a {HIDDEN} b\n"), (1, "assistant", "c<system-reminder>x</system-reminder>d")), left_out
    )

    assert [" a  b\n", "cd"] == texts(rows)
    assert {"private spans": 1, "injected texts": 1} == left_out


def test_code_is_text_in_answers_only() -> None:
    """An answer may speak of a tag in code; in a prompt hiding too much is the safer mistake."""
    rows = redact_messages(messages((0, "user", "`<private>` a"), (1, "assistant", "`<private>` a")), Counter())

    assert ["`", "`<private>` a"] == texts(rows)


@pytest.mark.parametrize("speaker", ["user", "assistant"])
def test_a_span_across_the_blocks_of_one_message_is_hidden(speaker: str) -> None:
    """The blocks are joined before the strip."""
    rows = redact_messages(messages((0, speaker, "a<private>SECRET"), (0, speaker, "SECRET</private>b")), Counter())

    assert ["ab"] == texts(rows)


def test_a_span_never_reaches_into_the_next_message() -> None:
    """An unclosed span hides the rest of its message, and a stray end hides nothing."""
    rows = redact_messages(
        messages((0, "user", "a<private>SECRET"), (1, "assistant", "b"), (2, "user", "c</private>d")), Counter()
    )

    assert ["a", "b", "cd"] == texts(rows)


def test_a_wholly_private_prompt_leaves_its_mark_and_its_count() -> None:
    """The turn stays visible as one that is not shown."""
    left_out: Counter[str] = Counter()
    rows = redact_messages(messages((0, "user", f" {HIDDEN}\n"), (1, "user", "[private]")), left_out)

    assert ["[private]", "[private]"] == texts(rows)
    assert 1 == left_out["private spans"]
    assert [PRIVATE_KIND, "text"] == rows.get_column("kind").to_list(), "a prompt that only says so is not private"


def test_what_upstream_left_of_a_nested_span_is_hidden() -> None:
    """claude-mem closes a nested span too early and stores its tail; in words as they were typed a stray tag hides nothing."""
    rows = messages((0, "user", "SECRET</private> shown"), (1, "user", "said</private> aloud"))
    stored = rows.with_columns(kind=pl.when(pl.col("message") == 0).then(pl.lit("stored")).otherwise("kind"))

    assert [" shown", "said aloud"] == texts(redact_messages(stored, Counter()))


def test_a_wholly_private_answer_leaves_nothing() -> None:
    """Neither does a prompt that was nothing but the host's words; both are counted."""
    left_out: Counter[str] = Counter()
    rows = redact_messages(
        messages((0, "user", "a"), (1, "assistant", HIDDEN), (2, "user", "<system-reminder>x</system-reminder>")),
        left_out,
    )

    assert ["a"] == texts(rows)
    assert {"private spans": 1, "injected texts": 1} == left_out


def test_a_notice_is_one_line() -> None:
    """A notice has no place for a second line, whatever an error message holds."""
    rows = redact_messages(messages((0, "notice", f"API error:\n\n**User** (10:00)\u2028{HIDDEN}x")), Counter())

    assert ["API error: **User** (10:00) x"] == texts(rows)


@pytest.mark.parametrize("speaker", ["user", "assistant"])
def test_nul_becomes_a_replacement_character(speaker: str) -> None:
    """Everything else passes, other control and astral characters too."""
    rows = redact_messages(messages((0, speaker, "a\x00b\x1b\U0001f3a3\u2028")), Counter())

    assert ["a\ufffdb\x1b\U0001f3a3\u2028"] == texts(rows)


@pytest.mark.parametrize("field", OBSERVATION_FIELDS)
def test_no_field_of_an_observation_shows_a_private_span(field: str) -> None:
    """The strip comes before fallbacks and cuts: a span in the first words does not become the title."""
    left_out: Counter[str] = Counter()
    rows = observations({field: f"<PRIVATE>SECRET. {'SECRET ' * 400}</PRIVATE>kept. More"})

    (line,) = texts(redact_observations(rows, left_out))

    assert "kept" == line[:4]
    assert "SECRET" not in line
    assert 1 == left_out["private spans"]


def test_an_observation_of_nothing_but_private_text_shows_its_type() -> None:
    """A wholly private title falls back like a missing one."""
    fields = dict.fromkeys(("title", "subtitle", "narrative", "text"), HIDDEN)

    assert ["change"] == texts(redact_observations(observations({**fields, "type": "change"}), Counter()))


def test_a_guessed_observation_says_so() -> None:
    """What was matched by project and time only is marked in its line."""
    line = texts(redact_observations(observations({"title": "T", "is_guess": True}), Counter()))

    assert ["T (matched by project and time only)"] == line


@pytest.mark.parametrize("field", SUMMARY_FIELDS)
def test_no_field_of_a_summary_shows_a_private_span(field: str) -> None:
    """A span is counted and gone, an unclosed one takes the rest of its field, and the name of the field stays."""
    left_out: Counter[str] = Counter()
    rows = summaries(**{field: f"a{HIDDEN}b<claude-mem-context>SECRET"})

    assert [f"{field.replace('_', ' ')}: ab"] == texts(redact_summaries(rows, left_out))
    assert 2 == left_out["private spans"]


def test_a_summary_cannot_forge_a_field_of_its_own() -> None:
    """Further lines of a value are indented, after every character that some reader takes for a line end."""
    rows = summaries(request="a\nnext steps: b\u2028c\r\nd\x85e", next_steps="f")

    assert ["request: a\n  next steps: b\n  c\n  d\n  e\nnext steps: f"] == texts(redact_summaries(rows, Counter()))


def test_a_summary_of_nothing_but_private_text_is_left_out() -> None:
    """An empty quotation says nothing."""
    assert [] == texts(redact_summaries(summaries(request=HIDDEN), Counter()))


def test_a_record_for_the_screen_is_redacted_in_every_text() -> None:
    """Numbers and nulls pass as they are."""
    record = {"id": 7, "title": f"a{HIDDEN}", "facts": f'["x", "{HIDDEN}y"]', "text": "\x00\ud83c", "notes": None}

    assert {"id": 7, "title": "a", "facts": ["x", "y"], "text": "\ufffd\ufffd", "notes": None} == redact_record(record)


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (r'["<\nprivate>SECRET</private>a"]', ["a"]),
        (r'["\u003cprivate\u003eSECRET\u003c/private\u003ea"]', ["a"]),
        (r'{"k": [["<private>SECRET</private>a"]]}', {"k": [["a"]]}),
        (r'["\u003cprivate\u003eSECRET', '["'),
        (r'["a\u00e9", ', r'["a\u00e9", '),
    ],
)
def test_a_span_does_not_hide_behind_json(stored: str, shown: Any) -> None:
    """Lists are stored as JSON, whose escapes can spell a tag; what is malformed is no way around."""
    assert {"facts": shown} == redact_record({"facts": stored})


def test_a_span_across_an_interrupted_message_is_hidden() -> None:
    """A message may go on after a queued prompt; the parts are put together when a span runs from one to the other."""
    rows = messages((0, "assistant", "a<private>SECRET"), (1, "user", "wait"), (0, "assistant", "SECRET</private>b"))
    parted = rows.with_columns(message=pl.Series([0, 1, 2]))

    assert ["ab", "wait"] == texts(redact_messages(parted, Counter()))


def test_an_interrupted_message_without_such_a_span_stays_apart() -> None:
    """Two parts, two headings."""
    rows = messages((0, "assistant", "a"), (1, "user", "wait"), (0, "assistant", "<private>x</private>b"))
    parted = rows.with_columns(message=pl.Series([0, 1, 2]))

    assert ["a", "wait", "b"] == texts(redact_messages(parted, Counter()))


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet=st.characters()))
def test_public_text_can_always_be_written(text: str) -> None:
    """No text keeps a character that UTF-8 refuses, and none changes in length."""
    assert len(text) == len(public(text + "\ud800")[:-1].encode().decode())


_ENVELOPE = st.lists(
    st.sampled_from(
        "<command-name>|</command-name>|<command-message>|</command-message>|<command-args>|</command-args>|<bash-input>"
        "|</bash-input>|<bash-stdout>|</bash-stdout>|<bash-stderr>|</bash-stderr>|<local-command-stdout>"
        "|</local-command-stdout>|<user-memory-input>|</user-memory-input>|<ide_selection>|</ide_selection>"
        "|<system-reminder>|</system-reminder>|/x|a| |\n|<private>b</private>".split("|")
    ),
    max_size=6,
).map("".join)


@settings(deadline=None)
@given(_ENVELOPE, _ENVELOPE, _ENVELOPE, _ENVELOPE)
@example("<bash-stdout>x</bash-stdout>", "</bash-stdout>", "", "")
@example("<command-name>/x</command-name>", "<command-args>", "</command-args>", "")
def test_no_piece_that_is_cut_out_of_an_envelope_loses_its_open_tag(
    before: str, inside: str, behind: str, after: str
) -> None:
    """The user's words are cut out before tags are stripped: a span that an envelope's end stands in stays hidden."""
    _, words = own_words(f"{before}<private>{inside}SECRET{behind}</private>{after}")

    assert "SECRET" not in strip_tags(words or "").text


def test_a_name_that_a_source_gives_is_redacted() -> None:
    """A folder or a project can be called anything: it is one line without private spans."""
    assert "/home/ada end" == public_line("/home/ada\n<private>SECRET</private> end")
