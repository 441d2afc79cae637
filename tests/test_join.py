"""What stands under which turn, and in which order."""

from __future__ import annotations

import polars as pl

from bottlepipe.frames import PUBLIC, TIMELINE, empty, frame
from bottlepipe.join import NOWHERE, join_timeline


def said(*rows: tuple[int, str, str]) -> pl.DataFrame:
    """Public messages from (turn, speaker, text), in file order."""
    return frame(
        [
            ("s", turn, index, speaker, "text", text, 1000 - index, None)
            for index, (turn, speaker, text) in enumerate(rows)
        ],
        PUBLIC,
    )


def generated(speaker: str, *rows: tuple[int | None, int, int | None]) -> pl.DataFrame:
    """Public observations or summaries from (turn, id, time)."""
    return frame(
        [("s", turn, None, speaker, speaker, f"{speaker} {ref}", at_ms, ref) for turn, ref, at_ms in rows], PUBLIC
    )


def joined(messages: pl.DataFrame, observations: pl.DataFrame, summaries: pl.DataFrame) -> list[str]:
    timeline = join_timeline(messages, observations, summaries)
    assert dict(TIMELINE) == dict(timeline.schema)
    for (_,), turn in timeline.group_by("turn"):
        assert list(range(turn.height)) == turn.get_column("position").to_list()
    return timeline.get_column("public_text").to_list()


NONE = empty(PUBLIC)


def test_observations_follow_the_user_and_summaries_end_the_turn() -> None:
    """The order of the bottle: what was asked, what happened, what was answered, what claude-mem made of it."""
    messages = said((1, "user", "a"), (1, "assistant", "b"), (1, "notice", "n"), (2, "user", "c"))

    assert ["a", "observation 7", "b", "n", "summary 3", "c", "observation 8"] == joined(
        messages, generated("observation", (2, 8, 20), (1, 7, 10)), generated("summary", (1, 3, 5))
    )


def test_observations_are_ordered_by_time_then_id() -> None:
    """Two can share a millisecond; one without a time comes last."""
    observations = generated("observation", (1, 4, None), (1, 3, 20), (1, 2, 20), (1, 5, 10))

    assert ["a", "observation 5", "observation 2", "observation 3", "observation 4"] == joined(
        said((1, "user", "a")), observations, NONE
    )


def test_messages_keep_file_order_whatever_their_times() -> None:
    """Timestamps run backwards in real transcripts; they order nothing."""
    messages = said((1, "user", "a"), (1, "assistant", "b"), (1, "assistant", "c"), (1, "notice", "d"))

    assert ["a", "b", "c", "d"] == joined(messages, NONE, NONE)


def test_what_happened_before_the_first_prompt_comes_first() -> None:
    """Turn 0 has no user message; its observations stand before everything else."""
    assert ["observation 1", "a"] == joined(said((1, "user", "a")), generated("observation", (0, 1, 5)), NONE)


def test_what_nothing_ties_to_a_turn_stands_at_the_end_under_a_notice() -> None:
    """It is shown, and said to be lost; without such rows there is no notice."""
    rows = generated("observation", (None, 1, None), (1, 2, 5), (None, 3, 4))

    assert ["a", "observation 2", NOWHERE, "observation 3", "observation 1"] == joined(
        said((1, "user", "a")), rows, NONE
    )
    assert [NOWHERE, "observation 9", "summary 4"] == joined(
        NONE, generated("observation", (None, 9, 1)), generated("summary", (None, 4, 1))
    )


def test_a_turn_without_a_public_message_is_not_nowhere() -> None:
    """The last turn can have nothing left to show but what happened in it."""
    assert ["a", "observation 1"] == joined(said((1, "user", "a")), generated("observation", (2, 1, 5)), NONE)


def test_nothing_joins_to_nothing() -> None:
    """Three empty frames give an empty timeline of the right shape."""
    assert [] == joined(NONE, NONE, NONE)
