"""One-line forms: where a first clause ends, what stands in for a title, and that a line is always one line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bottlepipe.clauses import CLAUSE_LENGTH, TITLE_LENGTH, first_clause, observation_line, one_line

_quick = settings(deadline=None, max_examples=100)
LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_TEXTS = st.text(
    alphabet=st.one_of(st.characters(), st.sampled_from(LINE_ENDS + "\x00\t .;"), st.characters(categories=["Cs"]))
)


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("Read the hooks. Then ran them.", "Read the hooks"),
        ("Used tools, e.g. ripgrep, to search. Then", "Used tools, e.g. ripgrep, to search"),
        ("One file, i.e. the worker, waits. Then", "One file, i.e. the worker, waits"),
        ("Waited 2.5 seconds. Then", "Waited 2.5 seconds"),
        ("Moved to v1.2.3. Then", "Moved to v1.2.3"),
        ("Edited src/a.py and lib/b.c too. Then", "Edited src/a.py and lib/b.c too"),
        ("Edited file.py. Then ran it.", "Edited file.py"),
        ("Edited main.c. Then ran it.", "Edited main.c"),
        ("Wait... then go. Next", "Wait... then go"),
        ("Wait… then go. Next", "Wait… then go"),
        ("See https://example.org/a?b=1.2. Then", "See https://example.org/a?b=1.2"),
        ("止めました。次に動かす。", "止めました"),
        ("動いた！次", "動いた！"),
        ("動く？はい", "動く？"),
        ("これ；あれ", "これ"),
        ("One; two; three", "One"),
        ("The loop for(;;) never ends. Then", "The loop for(;;) never ends"),
        ('It said "stop." Then it stopped.', 'It said "stop"'),
        ('It said "Stop!" and went on. Then', 'It said "Stop!" and went on'),
        ("It said “stop.” Then", "It said “stop”"),
        ("(See above.) Then", "(See above)"),
        ("**Done.** Then", "**Done**"),
        ("Is it ready? Yes. Go", "Is it ready?"),
        ("What?! No.", "What?!"),
        ("Read logs, caches, etc. and more. Then", "Read logs, caches, etc. and more"),
        ("Read logs, caches, etc.", "Read logs, caches, etc."),
        ("J. R. Hacker wrote it. Then", "J. R. Hacker wrote it"),
        ("The U.S. locale is used. Then", "The U.S. locale is used"),
        ("1. Read the hooks. 2. Ran them.", "1. Read the hooks"),
        ("No stop at all", "No stop at all"),
        ("A heading\n\nA paragraph. Then", "A heading"),
        ("One\nsentence on two lines. Then", "One sentence on two lines"),
        ("\x00\n\n\x1b First. Second.", "First"),
        ("...", "..."),
        (". Then", ". Then"),
        ("", ""),
        (" \n\x00\u2028", ""),
    ],
)
def test_a_first_clause_ends_where_a_reader_would_end_it(text: str, clause: str) -> None:
    """Abbreviations, numbers, paths, initials and quotations do not end a clause; stops of any script do."""
    assert clause == first_clause(text)


def test_a_long_clause_is_cut_at_a_word() -> None:
    """A text without a stop does not become a long line."""
    clause = first_clause("reef " * 400)

    assert "reef reef…" == clause[-10:]
    assert CLAUSE_LENGTH >= len(clause)


def test_a_text_behind_a_sea_of_white_space_is_found() -> None:
    """However much white space comes first or between, the words after it are read."""
    sea = "\n\x00 \u2028" * 5000

    assert "a b" == one_line(f"{sea}a{sea}b", 10)
    assert "one" == first_clause(f"{sea}one. Two")


@_quick
@given(_TEXTS, st.integers(2, 40))
def test_one_line_is_one_short_line_that_can_be_written(text: str, length: int) -> None:
    """No line break of any kind, no control character, no lone surrogate, never too long."""
    line = one_line(text, length)

    assert [line] * bool(line) == line.splitlines()
    assert not set(line) & set(LINE_ENDS)
    assert line.isprintable() or not any(character < " " for character in line)
    assert length >= len(line)
    assert line == line.strip() == line.encode().decode()


@_quick
@given(_TEXTS.map(lambda text: text[:20]))
def test_a_short_line_keeps_every_word(text: str) -> None:
    """Nothing but white space and control characters is lost from a text that fits."""
    kept = [
        character
        for character in text
        if not character.isspace() and not (character < " " or "\x7f" <= character <= "\x9f")
    ]

    assert ["\ufffd" if "\ud800" <= character <= "\udfff" else character for character in kept] == list(
        one_line(text, 100).replace(" ", "")
    )


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"title": "T", "subtitle": "S", "narrative": "Now. More."}, "T — Now"),
        ({"subtitle": "S", "narrative": "Now. More."}, "S — Now"),
        ({"narrative": "First words of it. More."}, "First words of it. More."),
        ({"text": "Old text. More."}, "Old text. More."),
        ({"narrative": " \n", "text": "Old text."}, "Old text."),
        ({"type": "discovery"}, "discovery"),
        ({}, "observation"),
        ({"title": "\x00\n", "subtitle": "\u2028", "narrative": "\r", "text": "\x85", "type": "\x1c"}, "observation"),
        ({"title": "Same", "narrative": "Same. More."}, "Same"),
        ({"title": "T\n**User** (10:00)", "narrative": "N\r- [#1] yes. More"}, "T **User** (10:00) — N - [#1] yes"),
    ],
)
def test_an_observation_line_falls_back_to_what_there_is(fields: dict[str, str], line: str) -> None:
    """Title, else subtitle, else the first words of narrative or text, else the type: never nothing."""
    every = dict.fromkeys(("type", "title", "subtitle", "narrative", "text"), "")

    assert line == observation_line(**{**every, **fields})


@_quick
@given(*[_TEXTS] * 5)
def test_an_observation_line_is_one_bounded_line_and_never_empty(
    type: str, title: str, subtitle: str, narrative: str, text: str
) -> None:
    """Whatever the five fields hold."""
    line = observation_line(type=type, title=title, subtitle=subtitle, narrative=narrative, text=text)

    assert [line] == line.splitlines()
    assert not set(line) & set(LINE_ENDS)
    assert TITLE_LENGTH + 3 + CLAUSE_LENGTH >= len(line)
