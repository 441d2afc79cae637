"""branch: which entries stand after rewinds, and that nothing else is lost. Each case file is one claim."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transcripts import as_file, as_line, assistant, case_files, classify_bytes, numbered, read_case, user

from bottlepipe.branch import announce_branches, find_branches, mark_branches


@pytest.mark.parametrize("path", case_files("branch"), ids=lambda path: path.stem)
def test_only_what_was_rewound_is_marked(path: Path) -> None:
    """The rows that stand, and the number of the rewound branch of those that do not, are as the case file says."""
    case, data = read_case(path)
    classified = classify_bytes(data)

    branches = find_branches(classified.tree)
    marked = mark_branches(classified.messages, branches)
    rows = [list(row) for row in marked.select("branch", "text").iter_rows()]

    assert case["rows"] == rows, case["claim"]
    assert case.get("repeated", 0) == len(branches.repeated), case["claim"]
    if "announced" in case:
        assert case["announced"] == announce_branches(marked).get_column("text").to_list(), case["claim"]


def test_announcing_without_rewinds_changes_nothing() -> None:
    """Where all rows stand there is nothing to announce."""
    classified = classify_bytes(as_file([user("one"), assistant("two")]))
    marked = mark_branches(classified.messages, find_branches(classified.tree))

    assert marked.rows() == announce_branches(marked).rows()


def test_a_file_appended_to_itself_gives_each_message_once() -> None:
    """Claude Code has been seen to append all earlier entries again, under the same uuids."""
    entries = numbered([user("one"), assistant("two"), user("three")])
    classified = classify_bytes(b"".join(map(as_line, entries)) * 2)

    branches = find_branches(classified.tree)
    marked = mark_branches(classified.messages, branches)

    assert ["one", "two", "three"] == marked.get_column("text").to_list()
    assert {0} == set(marked.get_column("branch"))
    assert 3 == len(branches.repeated)


def test_a_long_chain_without_parents_is_walked_in_little_time() -> None:
    """Twenty thousand entries that name missing parents and one fork: no recursion, nothing quadratic, nothing lost."""
    entries = [user(f"p{n}", parentUuid=f"lost{n}") for n in range(20_000)]
    entries += [assistant("a"), user("left", parentUuid="u20001"), user("right", parentUuid="u20001")]
    classified = classify_bytes(as_file(entries))

    assert [20_001] == list(find_branches(classified.tree).abandoned)


@st.composite
def trees(draw: st.DrawFn) -> list[dict[str, object]]:
    """Entries whose parents are anything: earlier, later, themselves, missing, none."""
    size = draw(st.integers(1, 12))
    entries: list[dict[str, object]] = []
    for number in range(1, size + 1):
        parent = draw(st.one_of(st.none(), st.integers(0, size + 1).map(lambda n: f"u{n}")))
        make = draw(st.sampled_from([user, assistant]))
        entries.append(make(f"text {number}", parentUuid=parent, uuid=f"u{number}"))
    return entries


@settings(max_examples=150, deadline=None)
@given(trees())
def test_whatever_the_parents_are_the_newest_entry_stands_and_only_prompts_begin_what_does_not(
    entries: list[dict[str, object]],
) -> None:
    """Cycles, missing parents and many roots end the walk, lose no row, and never hide the newest entry."""
    classified = classify_bytes(as_file(entries))

    abandoned = find_branches(classified.tree).abandoned
    marked = mark_branches(classified.messages, find_branches(classified.tree))

    assert [f"text {n}" for n in range(1, len(entries) + 1)] == marked.get_column("text").to_list()
    assert len(entries) - 1 not in abandoned
    prompts = classified.tree.get_column("is_prompt").to_list()
    for number in set(abandoned.values()):
        assert any(prompts[row] for row, branch in abandoned.items() if branch == number)


@settings(max_examples=100, deadline=None)
@given(trees(), st.integers(0, 12))
def test_without_two_prompts_under_one_parent_nothing_is_left_out(entries: list[dict[str, object]], keep: int) -> None:
    """Only a rewind takes text away: make every prompt's parent its own and all rows stand."""
    for number, entry in enumerate(entries):
        if entry["type"] == "user":
            entry["parentUuid"] = f"only{number}" if number != keep else None
    classified = classify_bytes(as_file(entries))

    assert {} == find_branches(classified.tree).abandoned
