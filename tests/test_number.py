"""Which stored prompt is which turn, and under which turn an observation stands. Numbers never match by position."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from bottle_parser import parse_bottle
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import cpu_limit

from bottlepipe.api import render
from bottlepipe.frames import MESSAGES, OBSERVATIONS, PROMPTS, TOOL_CALLS, TOOL_USES, empty, frame
from bottlepipe.number import MISSING, align_prompts, insert_stored, number_messages, place_rows
from bottlepipe.stored import cut_as_stored

MINUTE = 60_000
START = 1772445600000


def at(minutes: float) -> int:
    return START + round(minutes * MINUTE)


def transcript(*rows: tuple[object, ...]) -> pl.DataFrame:
    """Numbered messages from (minutes, speaker, text[, branch]), two entries apart, so that tool calls fit between."""
    return number_messages(
        pl.DataFrame(
            [
                (
                    "s",
                    10 * seq,
                    speaker,
                    "prompt",
                    text,
                    None if minutes is None else at(minutes),  # type: ignore[arg-type]
                    seq,
                    f"m{seq}",
                    branch[0] if branch else 0,
                )
                for seq, (minutes, speaker, text, *branch) in enumerate(rows, start=1)
            ],
            schema={**MESSAGES, "branch": pl.Int64},
            orient="row",
        )
    )


def users(*prompts: tuple[float | None, str]) -> pl.DataFrame:
    return transcript(*((minutes, "user", text) for minutes, text in prompts))


def stored(
    *rows: tuple[float | None, str], numbers: Sequence[int] = (), session_rows: Sequence[int] = ()
) -> pl.DataFrame:
    """PROMPTS from (minutes, text); numbered from 1 in session row 1 unless given."""
    return frame(
        [
            (
                "s",
                session_rows[index] if session_rows else 1,
                index + 1,
                numbers[index] if numbers else index + 1,
                text,
                None if minutes is None else at(minutes),
                text.endswith("…"),
            )
            for index, (minutes, text) in enumerate(rows)
        ],
        PROMPTS,
    )


def turns_of(numbered: pl.DataFrame, prompts: pl.DataFrame) -> list[int | None]:
    return align_prompts(numbered, prompts).get_column("turn").to_list()


def observed(*rows: tuple[int | None, float | None], session_rows: Sequence[int] = ()) -> pl.DataFrame:
    """OBSERVATIONS from (prompt number, minutes), with ids from 1."""
    return frame(
        [
            (
                "s",
                session_rows[index] if session_rows else 1,
                index + 1,
                number,
                None if minutes is None else at(minutes),
                "change",
                "t",
                None,
                None,
                None,
                False,
            )
            for index, (number, minutes) in enumerate(rows)
        ],
        OBSERVATIONS,
    )


def calls(*rows: tuple[int, str, float]) -> pl.DataFrame:
    """TOOL_CALLS from (seq, tool id, minutes)."""
    made = [("s", seq, tool_use_id, "Read", at(minutes), -1) for seq, tool_use_id, minutes in rows]
    return frame(made, TOOL_CALLS).with_columns(branch=pl.lit(0, pl.Int64))


def placed(
    observations: pl.DataFrame,
    numbered: pl.DataFrame,
    prompts: pl.DataFrame | None = None,
    *,
    tool_calls: pl.DataFrame | None = None,
    links: Sequence[tuple[str, int | None]] = (),
) -> list[int | None]:
    aligned = align_prompts(numbered, stored() if prompts is None else prompts)
    uses = frame([("s", tool_use_id, observation_id) for tool_use_id, observation_id in links], TOOL_USES)
    found = place_rows(
        observations, "observation_id", numbered, calls() if tool_calls is None else tool_calls, uses, aligned
    )
    return found.get_column("turn").to_list()


# --- numbering ---------------------------------------------------------------------------------------------------


def test_every_user_message_starts_a_turn() -> None:
    """What stands before the first user message is turn 0; blocks of one message share their number and turn."""
    numbered = transcript((0, "assistant", "hello"), (1, "user", "a"), (2, "assistant", "b"), (3, "user", "c"))

    assert [0, 1, 1, 2] == numbered.get_column("turn").to_list()
    joined = number_messages(numbered.drop("message", "turn").with_columns(message_id=pl.lit("one")))
    assert [0, 1, 2, 3] == joined.get_column("message").to_list()


# --- alignment ---------------------------------------------------------------------------------------------------


def test_prompts_match_by_text_not_by_position() -> None:
    """Local commands, interrupts and unseen prompts make the two sides count differently."""
    numbered = users((0, "/model opus"), (1, "first"), (2, "! ls"), (3, "not stored"), (4, "second"))

    assert [2, 5] == turns_of(numbered, stored((1.01, "first"), (4.01, "second")))


def test_a_repeated_prompt_matches_the_turn_of_its_time() -> None:
    """`continue` is typed often and not always stored: the nearest in time is meant."""
    numbered = users(*((minute, "continue") for minute in range(0, 60, 10)))

    assert [2, 3, 6] == turns_of(numbered, stored((10.02, "continue"), (20.3, "continue"), (50.01, "continue")))


def test_equal_prompts_do_not_cross() -> None:
    """A prompt stored late is nearer to the next one of the same text; order decides then."""
    numbered = users((0, "continue"), (11 / 60, "continue"))

    assert [1, 2] == turns_of(numbered, stored((10 / 60, "continue"), (13 / 60, "continue")))


def test_of_a_text_sent_twice_in_ten_seconds_the_first_was_stored() -> None:
    """claude-mem drops the second; though nearer in time, it is later than the moment of storing."""
    assert [1] == turns_of(users((0, "continue"), (0.05, "continue")), stored((0.03, "continue")))


def test_a_prompt_stored_twice_in_ten_seconds_is_one_turn() -> None:
    """A hook that fired twice left two rows in older databases; the transcript has one message, and lacks none."""
    numbered = users((0, "fire the kiln"), (5, "again"))
    aligned = align_prompts(numbered, stored((0.01, "fire the kiln"), (0.06, "fire the kiln"), (5.01, "again")))

    assert [1, 1, 2] == aligned.get_column("turn").to_list()
    assert numbered.equals(insert_stored(numbered, aligned)[0])


def test_a_short_text_of_another_day_is_another_prompt() -> None:
    """A copied or resumed history can hold the same few words; only a long text is the same prompt at any distance."""
    long = "Glaze the pots in the order of their size, then wait for them to dry. " * 3
    numbered = users((0, "continue"), (1, long))

    assert [None, 2] == turns_of(numbered, stored((60 * 24, "continue"), (60 * 24, long)))


def test_without_times_order_decides() -> None:
    """Equal texts without any time are matched one after the other."""
    numbered = users((None, "continue"), (None, "stop"), (None, "continue"))

    assert [1, 2, 3] == turns_of(numbered, stored((None, "continue"), (None, "stop"), (None, "continue")))


def test_commands_match_as_they_were_typed() -> None:
    """A custom command is stored as typed; a plugin's full name in the transcript is the same command."""
    numbered = users((0, "/review src/a.py"), (5, "/pottery:glaze blue"))

    assert [1, 2] == turns_of(numbered, stored((0.01, "/review  src/a.py"), (5.01, "/glaze blue")))


def test_a_media_prompt_is_the_message_of_images_only() -> None:
    """claude-mem stores a placeholder for it; an image beside words changes nothing about the words."""
    numbered = users((0, "[image]"), (1, "what is this?"))
    blocks = pl.concat([numbered, numbered.tail(1).with_columns(text=pl.lit("[image]"))])

    assert [1, 2] == turns_of(blocks, stored((0.01, "[media prompt]"), (1.01, "what is this?")))


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("x" * 4001, "x" * 3999 + "…"),
        ("x" * 3990 + "🎉" * 20, "x" * 3990 + "🎉" * 4 + "\ufffd…"),
        ("🎉" * 2001, "🎉" * 1999 + "\ufffd…"),
        ("z" * 4000, "z" * 4000),
    ],
    ids=["plain", "split surrogate", "emoji", "exactly 4000"],
)
def test_a_long_prompt_matches_what_is_left_of_it(said: str, kept: str) -> None:
    """claude-mem counts UTF-16 units and may cut a character in two."""
    assert kept == cut_as_stored(said)
    assert [2] == turns_of(users((0, "short"), (30, said)), stored((30.01, kept)))


def test_a_cut_prompt_matches_although_upstream_stripped_less() -> None:
    """A tag that claude-mem does not know shifts the place of its cut; the beginning still tells."""
    said = "Look at this log. " * 10 + "<PRIVATE>hush</PRIVATE>" + "step done " * 500
    assert [1] == turns_of(users((0, said)), stored((0.01, said[:3999] + "…")))


def test_raw_prompts_of_old_databases_match_their_stripped_words() -> None:
    """Before 6.4 private tags were stored; wholly private prompts match the private turn at their time."""
    secret = "<private>the recipe</private>"
    numbered = users((0, secret), (5, f"Use {secret} now"), (9, secret))

    assert [1, 2, 3] == turns_of(numbered, stored((0.01, secret), (5.01, f"Use {secret} now"), (9.01, secret)))


def test_parts_of_a_joined_prompt_share_its_turn() -> None:
    """Prompts queued while the model worked are stored one by one and delivered as one message."""
    numbered = users((0, "start"), (3, "mind the glaze\nand the door"))

    assert [1, 2, 2] == turns_of(numbered, stored((0, "start"), (1, "mind the glaze"), (2, "and the door")))


def test_another_prompt_at_the_same_moment_is_not_taken_for_it() -> None:
    """A local command in the same second says nothing: the stored prompt is still missing."""
    assert [None] == turns_of(users((0, "! ls")), stored((0.01, "Glaze the pots")))
    assert [None] == turns_of(users((0, "don't continue")), stored((4, "continue")))


@pytest.mark.parametrize("count", [65, 300, 3_000])
def test_each_part_of_a_prompt_joined_from_many_is_found(count: int) -> None:
    """Prompts queued in the thousands are one message, and none of them is missing."""
    parts = [f"Step {number}: check the kiln and write down what you see" for number in range(count)]

    assert [1] * count == turns_of(
        users((1, "\n".join(parts))), stored(*((number / count, part) for number, part in enumerate(parts)))
    )


@pytest.mark.parametrize("opening", ["Something else", "Glaze the pots"])
def test_thousands_of_stored_prompts_beside_a_huge_one_cost_no_search_each(opening: str) -> None:
    """The huge prompt holds, or seems to hold, each of them: 50 MB are not searched 3,000 times."""
    huge = "Glaze the pots\n" + "lorem ipsum dolor " * 2_800_000
    strangers = [(1 + number / 100_000, f"{opening}\nthen the cups, {number}") for number in range(3_000)]
    numbered = users((0, "First"), (1, huge), (2, "Last"))

    with cpu_limit(60):
        found = turns_of(numbered, stored((0, "First"), (1, "Glaze the pots"), *strangers, (2, "Last")))

    assert [1, 2, 3] == [found[0], found[1], found[-1]]
    assert {None} == set(found[2:-1])


def test_a_host_message_is_no_turn() -> None:
    """A stored task-notification matches nothing, not even a private turn with no words left."""
    note = "<task-notification><summary>done</summary></task-notification>"

    assert [None] == turns_of(users((0, "<private>x</private>")), stored((0.01, note)))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["continue", "yes", "fire the kiln"]), st.booleans()), max_size=12),
    st.integers(0, 900),
)
def test_what_was_stored_in_order_matches_its_own_turn(said: list[tuple[str, bool]], late_ms: int) -> None:
    """However often texts repeat and whichever were not stored: a prompt stored within a second finds its turn."""
    numbered = users(*((20 / 60 * index, text) for index, (text, _) in enumerate(said)))
    kept = [index for index, (_, is_stored) in enumerate(said) if is_stored]
    prompts = stored(*((20 / 60 * index + late_ms / MINUTE, said[index][0]) for index in kept))

    assert [index + 1 for index in kept] == turns_of(numbered, prompts)


# --- stored prompts that the transcript lacks --------------------------------------------------------------------


def inserted(numbered: pl.DataFrame, prompts: pl.DataFrame) -> tuple[list[tuple[str, str]], list[int | None]]:
    after, completed = insert_stored(numbered, align_prompts(numbered, prompts))
    return after.select("speaker", "text").rows(), completed.get_column("turn").to_list()


def test_a_missing_prompt_is_inserted_at_its_time_after_a_notice() -> None:
    """A turn that the transcript lost is shown where it was said, and later turns move on."""
    numbered = transcript((0, "user", "a"), (1, "assistant", "b"), (9, "user", "c"), (10, "assistant", "d"))
    rows, turns = inserted(numbered, stored((0, "a"), (5, "Glaze the pots"), (9, "c")))

    assert [
        ("user", "a"),
        ("assistant", "b"),
        ("notice", MISSING),
        ("user", "Glaze the pots"),
        ("user", "c"),
        ("assistant", "d"),
    ] == rows
    assert [1, 2, 3] == turns


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [(-5, [MISSING, "Glaze", "a", "b"]), (99, ["a", "b", MISSING, "Glaze"]), (None, ["a", "b", MISSING, "Glaze"])],
    ids=["before", "after", "without time"],
)
def test_a_missing_prompt_outside_the_transcript_stands_at_its_end(minutes: float | None, expected: list[str]) -> None:
    """Before the first message, after the last one, or at the end when nothing says when."""
    rows, _ = inserted(transcript((0, "user", "a"), (1, "assistant", "b")), stored((minutes, "Glaze")))

    assert expected == [text for _, text in rows]


def test_missing_prompts_without_ids_or_with_equal_ones_stay_apart() -> None:
    """Their table may have lost its key: each is a turn of its own, once."""
    numbered = users((0, "a"), (30, "d"))
    prompts = stored((0, "a"), (5, "b"), (10, "c"), (30, "d"))

    for prompt_id in (None, 7):
        same = prompts.with_columns(prompt_id=pl.lit(prompt_id, pl.Int64))
        assert (
            [
                ("user", "a"),
                ("notice", MISSING),
                ("user", "b"),
                ("notice", MISSING),
                ("user", "c"),
                ("user", "d"),
            ],
            [1, 2, 3, 4],
        ) == inserted(numbered, same)


def test_a_message_is_never_torn_apart() -> None:
    """A prompt from between two blocks of one message stands after the whole of it."""
    blocks = transcript((0, "user", "a"), (1, "assistant", "b"), (9, "assistant", "c")).drop("message", "turn")
    answer = pl.when(pl.col("speaker") == "assistant").then(pl.lit("api")).otherwise("message_id")
    rows, _ = inserted(number_messages(blocks.with_columns(message_id=answer)), stored((5, "Glaze the pots")))

    assert ["a", "b", "c", MISSING, "Glaze the pots"] == [text for _, text in rows]


def test_a_cut_missing_prompt_says_so() -> None:
    """Only a part of it is left, which a reader must know."""
    rows, _ = inserted(users((0, "a")), stored((5, "x" * 3999 + "…")))

    assert ("user", "x" * 3999 + "…\n[truncated at 4000 chars]") == rows[-1]


def test_host_messages_and_empty_prompts_are_not_inserted() -> None:
    """A stored notification is nobody's speech, and a wholly private prompt has nothing to show."""
    notes = ["<task-notification>x</task-notification>", "<private>x</private>", "", "<local-command-stdout>x"]
    numbered = users((0, "a"))

    assert [("user", "a")] == inserted(numbered, stored(*((1, text) for text in notes)))[0]


def test_prompts_can_be_inserted_where_nobody_spoke() -> None:
    """A transcript with nothing but an answer still shows what was asked."""
    rows, turns = inserted(transcript((1, "assistant", "b")), stored((0, "a")))

    assert [("notice", MISSING), ("user", "a"), ("assistant", "b")] == rows
    assert [1] == turns


# --- placing observations ----------------------------------------------------------------------------------------


def test_a_linked_tool_call_decides() -> None:
    """Neither a wrong number nor a late time moves an observation away from the call it came from."""
    numbered = users((0, "a"), (10, "b"), (20, "c"))
    made = calls((11, "t1", 1), (25, "t2", 15))

    assert [1, 2] == placed(
        observed((3, 25), (None, None)),
        numbered,
        stored((0, "a"), (10, "b"), (20, "c")),
        tool_calls=made,
        links=[("t1", 1), ("t2", 2), ("unknown", 2), ("t1", None)],
    )


def test_a_prompt_number_leads_through_the_alignment() -> None:
    """Number 2 is the third turn here, though the time would say the fourth."""
    numbered = users((0, "a"), (5, "/model"), (10, "b"), (20, "/model"))

    assert [3, 1] == placed(observed((2, 15), (1, None)), numbered, stored((0, "a"), (10, "b")))


def test_within_the_span_of_a_prompt_the_tools_tell() -> None:
    """A wholly private prompt is not stored, so its observations carry the number before: they go where tools ran."""
    numbered = users((0, "a"), (5, "<private>x</private>"), (10, "b"))
    made = calls((11, "t1", 1), (21, "t2", 6), (31, "t3", 11))

    assert [1, 2, 2, 3] == placed(
        observed((1, 2), (1, 7), (1, 12), (2, 12)), numbered, stored((0, "a"), (10, "b")), tool_calls=made
    )


def test_without_number_or_link_time_decides() -> None:
    """Before the first turn is turn 0; without a time nothing ties it to a turn."""
    numbered = users((0, "a"), (10, "b"))

    assert [0, 1, 2, 2, None] == placed(observed((None, -1), (None, 0), (None, 10), (9, 99), (9, None)), numbered)


def test_numbers_restart_in_every_session_row() -> None:
    """Two platforms count for themselves: number 1 of one is not number 1 of the other."""
    numbered = users((0, "a"), (10, "b"))
    prompts = stored((0, "a"), (10, "b"), numbers=[1, 1], session_rows=[1, 2])

    assert [1, 2] == placed(observed((1, 20), (1, 20), session_rows=[1, 2]), numbered, prompts)


def test_of_a_number_given_twice_the_last_before_the_moment_counts() -> None:
    """Deleted or imported rows make claude-mem give a number again."""
    numbered = users((0, "a"), (10, "b"), (20, "c"))
    prompts = stored((0, "a"), (10, "b"), (20, "c"), numbers=[1, 2, 2])

    assert [2, 3, 2] == placed(observed((2, 15), (2, 25), (2, 5)), numbered, prompts)


def test_one_number_for_every_prompt_costs_no_walk_per_observation() -> None:
    """Each observation stands under the last prompt before it, among 40,000 that all have its number."""
    count = 40_000
    numbered = users(*((minute, f"prompt {minute}") for minute in range(count)))
    prompts = stored(*((minute, f"prompt {minute}") for minute in range(count)), numbers=[1] * count)

    with cpu_limit(60):
        found = placed(observed(*((1, minute + 0.5) for minute in range(count))), numbered, prompts)

    assert list(range(1, count + 1)) == found


def test_one_stored_prompt_before_many_turns_costs_no_walk_per_observation() -> None:
    """Prompts that claude-mem never saw: their tool calls alone tell where the observations belong."""
    count = 40_000
    numbered = users(*((minute, f"prompt {minute}") for minute in range(count)))
    made = calls(*((10 * (minute + 1) + 1, f"t{minute}", minute + 0.25) for minute in range(count)))
    rows = observed(*((1, minute + 0.5) for minute in range(count)))

    with cpu_limit(60):
        found = placed(rows, numbered, stored((0, "prompt 0")), tool_calls=made)

    assert list(range(1, count + 1)) == found


def test_calls_stamped_out_of_order_cost_no_walk_per_observation() -> None:
    """The same with a last call that is stamped before all others: it hides none of them."""
    count = 100_000
    numbered = users(*((minute, f"prompt {minute}") for minute in range(count + 1)))
    made = calls(
        *((10 * (minute + 1) + 1, f"t{minute}", minute + 0.25) for minute in range(count)),
        (10 * (count + 1) + 1, "last", -1),
    )
    prompts = stored((0, "prompt 0"), (count, f"prompt {count}"), numbers=[1, 2])
    rows = observed(*((1, minute + 0.5) for minute in range(count)))

    with cpu_limit(60):
        found = placed(rows, numbered, prompts, tool_calls=made)

    assert list(range(1, count + 1)) == found


def test_tools_after_thousands_of_inserted_prompts_cost_no_walk_each() -> None:
    """A transcript that has lost its prompts, but kept their tools."""
    count = 60_000
    missing = stored(*((minute, f"prompt {minute}") for minute in range(count)))
    numbered, prompts = insert_stored(users(), missing.with_columns(turn=pl.lit(None, pl.Int64)))
    made = calls(*((minute + 1, f"t{minute}", minute + 0.25) for minute in range(count)))
    rows = observed(*((None, minute + 0.5) for minute in range(count)))
    links = [(f"t{minute}", minute + 1) for minute in range(count)]

    with cpu_limit(60):
        found = placed(rows, numbered, prompts, tool_calls=made, links=links)

    assert list(range(1, count + 1)) == found


def test_a_rewound_prompt_keeps_its_observations() -> None:
    """The same words typed again after a rewind are another turn; each has what happened in its time."""
    numbered = transcript((0, "user", "a", 1), (1, "assistant", "x", 1), (10, "user", "a"), (11, "assistant", "y"))

    assert [1, 2] == placed(observed((1, 1), (2, 11)), numbered, stored((0, "a"), (10, "a")))


def test_tools_after_an_inserted_prompt_are_under_it() -> None:
    """An inserted prompt has no place in the file: the time of a call says on which side of it it ran."""
    numbered = transcript((0, "user", "a"), (20, "assistant", "b"))
    prompts = align_prompts(numbered, stored((0, "a"), (5, "Glaze the pots")))
    after, completed = insert_stored(numbered, prompts)
    made = calls((11, "t1", 1), (12, "t2", 6), (25, "t3", 21))
    links = frame([("s", "t1", 1), ("s", "t2", 2), ("s", "t3", 3)], TOOL_USES)
    rows = observed((None, None), (None, None), (None, None))

    found = place_rows(rows, "observation_id", after, made, links, completed)
    assert [1, 2, 2] == found.get_column("turn").to_list()


def test_nothing_to_place_is_no_problem() -> None:
    """An empty transcript and an empty database pass through every step."""
    numbered = users()
    prompts = align_prompts(numbered, stored())

    assert insert_stored(numbered, prompts)[0].is_empty()
    assert [] == placed(empty(OBSERVATIONS), numbered)
    assert [0, None] == placed(observed((1, 1), (1, None)), numbered)


# --- a real session ----------------------------------------------------------------------------------------------

_SESSION = "a3f1c2d4-0001-4a6b-9c11-5d2e7f8a9b01"
# By its opening words, the observations under each turn.
_PLACES = {
    "Add a retry": [1, 2, 3],
    "/review": [4],
    "Please review": [5],
    "[private]": [6],
    "Use the token": [7, 8, 9],
}


@pytest.mark.parametrize(
    "name",
    "v13.25.3-store v13.25.3-worker v13.25.3-upgraded-from-v4.2.1 v13.15.3 v13.15.3-orphans"
    " v13.10.3-community-edge v12.4.7 v9.1.0 v8.2.5 v4.2.1 v4.0.2".split(),
)
def test_observations_of_a_real_session_stand_under_the_turn_they_happened_in(
    name: str, corpus: Path, tmp_path: Path
) -> None:
    """Whichever claude-mem wrote the database: prompts are not counted, so nothing shifts."""
    for source in (corpus / "claude-mem" / name).iterdir():
        shutil.copyfile(source, tmp_path / source.name)
    source = corpus / "claude-mem" / "transcripts" / f"{_SESSION}.jsonl"
    bottle = parse_bottle(render(source, database=tmp_path / "claude-mem.db").text)
    places: dict[str, list[int]] = {}
    turn = ""
    for block in bottle.blocks:
        if block.speaker == "user":
            turn = block.text
        elif block.speaker == "observations":
            ids = [int(line.split("#")[1].split("]")[0]) for line in block.lines]
            places[next((start for start in _PLACES if turn.startswith(start)), turn)] = ids

    missing = [block for block in bottle.blocks if block.text == MISSING]
    if name == "v13.15.3-orphans":
        assert {"Add the jitter now.": [13]} == places
        assert 1 == len(missing)
    else:
        assert ({} if name == "v13.25.3-worker" else _PLACES) == places
        assert [] == missing
