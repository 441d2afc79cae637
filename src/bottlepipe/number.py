"""Stage 4, `number`: which stored prompt is which turn, and under which turn an observation stands.

claude-mem numbers prompts by what it stored, the transcript holds more turns (or other ones), so numbers never match by
position. Stored prompts are aligned to user messages by text and time; an observation is then placed by the tool call
it is linked to, else by its prompt number through the alignment, else by time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from bottlepipe.envelopes import NOTE, STORED, own_words
from bottlepipe.frames import NUMBERED, conform
from bottlepipe.stored import cut_as_stored, stored_text
from bottlepipe.tags import strip_tags

MEDIA_PROMPT = "[media prompt]"
_IMAGES = ("[image]", "[document]")
_SHORT = 80
_FAR_MS = 12 * 3600 * 1000
_NEAR_MS = 5_000


def number_messages(messages: pl.DataFrame) -> pl.DataFrame:
    """Add `message` and `turn` to one session's MESSAGES (with `branch`), in their order."""
    is_new = pl.any_horizontal(
        pl.col(name).ne_missing(pl.col(name).shift()).fill_null(True) for name in ("message_id", "speaker", "branch")
    )
    numbered = messages.with_columns(message=is_new.cast(pl.Int64).cum_sum() - 1)
    starts_turn = (pl.col("speaker") == "user") & pl.col("message").ne_missing(pl.col("message").shift())
    return conform(numbered.with_columns(turn=starts_turn.cast(pl.Int64).cum_sum()), NUMBERED)


@dataclass(frozen=True, slots=True)
class _Turn:
    turn: int
    key: str
    at_ms: int | None


def align_prompts(numbered: pl.DataFrame, prompts: pl.DataFrame) -> pl.DataFrame:
    """Add `turn` to one session's PROMPTS: the user message that a stored prompt is, null for none.

    Equal text comes first (both sides stripped, trimmed and cut as claude-mem does it), the nearest in time of equal
    ones; then text that a joined prompt holds as a part; then a prompt and a message at the same moment.
    """
    turns = _user_turns(numbered)
    stored = [
        (index, _stored_key(text), at_ms)
        for index, (text, at_ms) in enumerate(prompts.select("text", "at_ms").iter_rows())
    ]
    matched: dict[int, int] = {}
    taken: set[int] = set()
    for index, position in _nearest_pairs(stored, turns):
        if index not in matched and position not in taken:
            matched[index] = turns[position].turn
            taken.add(position)
    for index, key, at_ms in stored:
        if index in matched or not key:
            continue
        for position, turn in enumerate(turns):
            gap = _gap(at_ms, turn.at_ms)
            is_part = gap is not None and gap <= 120 * _NEAR_MS and len(key) > 3 and key in turn.key
            is_same_moment = gap is not None and gap <= _NEAR_MS and position not in taken
            if is_part or is_same_moment:
                matched[index] = turn.turn
                taken.add(position)
                break
    return prompts.with_columns(turn=pl.Series([matched.get(index) for index in range(prompts.height)], dtype=pl.Int64))


def _nearest_pairs(stored: Sequence[tuple[int, str, int | None]], turns: Sequence[_Turn]) -> list[tuple[int, int]]:
    """Pairs of equal text, nearest in time first. Far-apart equals count only when the text is long."""
    by_key: dict[str, list[int]] = {}
    for position, turn in enumerate(turns):
        by_key.setdefault(turn.key, []).append(position)
    pairs = []
    seen: dict[str, int] = {}
    for index, key, at_ms in stored:
        candidates = by_key.get(key, [])
        order = seen[key] = seen.get(key, -1) + 1
        if len(candidates) > 16:
            # Among many equal texts only the few around the same place can be meant.
            times = [turns[position].at_ms or 0 for position in candidates]
            middle = bisect_right(times, at_ms) if at_ms is not None else order
            candidates = candidates[max(0, middle - 8) : middle + 8]
        for rank, position in enumerate(candidates):
            gap = _gap(at_ms, turns[position].at_ms)
            if gap is None:
                pairs.append((_FAR_MS + abs(rank - order), index, position))
            elif gap <= _FAR_MS or len(key) >= _SHORT:
                pairs.append((gap, index, position))
    return [(index, position) for _, index, position in sorted(pairs)]


def _gap(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else abs(a - b)


def _user_turns(numbered: pl.DataFrame) -> list[_Turn]:
    turns: dict[int, tuple[list[str], int | None]] = {}
    users = numbered.filter(pl.col("speaker") == "user").select("turn", "text", "at_ms")
    for turn, text, at_ms in users.iter_rows():
        turns.setdefault(turn, ([], at_ms))[0].append(text)
    return [_Turn(turn, _message_key(texts), at_ms) for turn, (texts, at_ms) in turns.items()]


def _message_key(texts: Sequence[str]) -> str:
    words = [text for text in texts if text not in _IMAGES]
    if not words:
        return MEDIA_PROMPT
    return _key("\n\n".join(words))


def _stored_key(text: str) -> str:
    _, own = own_words(text)
    return _key(own or "")


def _key(text: str) -> str:
    return " ".join(cut_as_stored(strip_tags(text).text.strip()).split())


def insert_stored(numbered: pl.DataFrame, prompts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Give every unmatched stored prompt a user message of its own, where its time puts it, after a notice.

    Returns the renumbered messages and the prompts with their turns complete. Prompts with nothing public in them get
    no turn.
    """
    missing = [
        row
        for row in prompts.with_row_index("index").filter(pl.col("turn").is_null()).iter_rows(named=True)
        if _stored_key(row["text"])
    ]
    if not missing:
        return numbered, prompts
    times = (
        numbered.select(pl.col("at_ms").fill_null(strategy="forward").fill_null(0).cum_max())
        .get_column("at_ms")
        .to_list()
    )
    starts = numbered.get_column("message").to_list()
    rows = numbered.select(pl.all().exclude("message", "turn")).rows(named=True)
    inserts: dict[int, list[dict[str, Any]]] = {}
    for row in missing:
        at = bisect_right(times, row["at_ms"]) if row["at_ms"] is not None else len(rows)
        while 0 < at < len(rows) and starts[at] == starts[at - 1]:
            at += 1
        inserts.setdefault(at, []).append(row)
    merged: list[dict[str, Any]] = []
    for at in range(len(rows) + 1):
        for row in inserts.get(at, ()):
            base = {
                "session_id": row["session_id"],
                "seq": rows[at - 1]["seq"] if at else 0,
                "at_ms": row["at_ms"],
                "entry": -1,
                "branch": 0,
            }
            note = "stored prompt that the transcript lacks"
            merged.append(
                {**base, "speaker": "notice", "kind": NOTE, "text": note, "message_id": f"note:{row['prompt_id']}"}
            )
            _, words = own_words(row["text"])
            merged.append(
                {
                    **base,
                    "speaker": "user",
                    "kind": STORED,
                    "text": stored_text(words or row["text"], row["was_cut"]),
                    "message_id": f"stored:{row['prompt_id']}",
                }
            )
        if at < len(rows):
            merged.append(rows[at])
    columns = [name for name in NUMBERED if name not in ("message", "turn")]
    renumbered = number_messages(pl.DataFrame(merged, schema={name: NUMBERED[name] for name in columns}))
    return renumbered, _retarget(numbered, renumbered, prompts)


def _retarget(before: pl.DataFrame, after: pl.DataFrame, prompts: pl.DataFrame) -> pl.DataFrame:
    """Move the prompts' turns to the numbering after an insertion."""
    users = (pl.col("speaker") == "user") & (pl.col("kind") != STORED)
    old = before.filter(users).get_column("turn").unique(maintain_order=True).to_list()
    new = after.filter(users).get_column("turn").unique(maintain_order=True).to_list()
    moved = dict(zip(old, new, strict=True))
    stored = after.filter(pl.col("kind") == STORED).select(
        turn_stored="turn", prompt_id=pl.col("message_id").str.strip_prefix("stored:").cast(pl.Int64)
    )
    return (
        prompts.with_columns(turn=pl.col("turn").replace_strict(moved, default=None, return_dtype=pl.Int64))
        .join(stored, on="prompt_id", how="left", maintain_order="left")
        .with_columns(turn=pl.coalesce("turn", "turn_stored"))
        .drop("turn_stored")
    )


def place_rows(
    rows: pl.DataFrame,
    key: str,
    numbered: pl.DataFrame,
    tool_calls: pl.DataFrame,
    tool_uses: pl.DataFrame,
    prompts: pl.DataFrame,
) -> pl.DataFrame:
    """Add `turn` to one session's OBSERVATIONS or SUMMARIES (`key` is their id): null where nothing says when.

    By linked tool call, else by prompt number through the aligned `prompts`, else by time.
    """
    if rows.is_empty():
        return rows.with_columns(turn=pl.lit(None, pl.Int64))
    turn_of_call = _turns_of_calls(numbered, tool_calls)
    call_turns = dict(turn_of_call.select("tool_use_id", "turn").iter_rows())
    anchors: dict[int, int] = {}
    for tool_use_id, row_key in tool_uses.select("tool_use_id", "observation_id").drop_nulls().iter_rows():
        if tool_use_id in call_turns:
            anchors.setdefault(row_key, call_turns[tool_use_id])
    times = _TurnTimes(numbered, turn_of_call)
    by_number = _Numbers(prompts)
    turns = []
    for row_key, session_row, number, at_ms in rows.select(key, "session_db_id", "prompt_number", "at_ms").iter_rows():
        turn = anchors.get(row_key)
        if turn is None and (span := by_number.span(session_row, number, at_ms)):
            turn = times.refine(*span, at_ms)
        if turn is None and at_ms is not None:
            turn = times.at(at_ms)
        turns.append(turn)
    return rows.with_columns(turn=pl.Series(turns, dtype=pl.Int64))


class _Numbers:
    """Aligned prompts by session row and prompt number."""

    def __init__(self, prompts: pl.DataFrame) -> None:
        self.places: dict[tuple[int | None, int], list[tuple[int | None, int]]] = {}
        for session_row, number, at_ms, turn in prompts.select(
            "session_db_id", "prompt_number", "at_ms", "turn"
        ).iter_rows():
            if number is not None and turn is not None:
                self.places.setdefault((session_row, number), []).append((at_ms, turn))
        self.turns = sorted({turn for places in self.places.values() for _, turn in places})

    def span(self, session_row: int | None, number: int | None, at_ms: int | None) -> tuple[int, int | None] | None:
        """The turn of that prompt, and that of the next stored one after it."""
        places = self.places.get((session_row, number)) if number is not None else None
        if not places:
            return None
        # A number can have been given twice: then the last of its prompts before that moment is meant.
        before = [turn for prompt_ms, turn in places if prompt_ms is None or at_ms is None or prompt_ms <= at_ms]
        turn = before[-1] if before else places[0][1]
        following = bisect_right(self.turns, turn)
        return turn, self.turns[following] if following < len(self.turns) else None


def _turns_of_calls(numbered: pl.DataFrame, tool_calls: pl.DataFrame) -> pl.DataFrame:
    """Add `turn` to tool calls: that of the last user message before them in the file."""
    users = (
        numbered.filter(pl.col("speaker") == "user")
        .select("seq", "turn")
        .unique("turn", keep="first", maintain_order=True)
        .sort("seq")
    )
    return (
        tool_calls.sort("seq").join_asof(users, on="seq", strategy="backward").with_columns(pl.col("turn").fill_null(0))
    )


class _TurnTimes:
    """When turns began and when their tools ran, for placing by time."""

    def __init__(self, numbered: pl.DataFrame, turn_of_call: pl.DataFrame) -> None:
        calls = (
            turn_of_call.drop_nulls("at_ms")
            .group_by("turn", maintain_order=True)
            .agg(pl.col("at_ms").min())
            .sort("turn")
        )
        self.calls: list[tuple[int, int]] = list(calls.select("turn", "at_ms").iter_rows())
        users = numbered.filter(pl.col("speaker") == "user").unique("turn", keep="first", maintain_order=True)
        users = users.drop_nulls("at_ms").with_columns(pl.col("at_ms").cum_max())
        self.turns: list[int] = users.get_column("turn").to_list()
        self.starts: list[int] = users.get_column("at_ms").to_list()

    def refine(self, turn: int, end: int | None, at_ms: int | None) -> int:
        """Between a stored prompt's turn and the next stored one, the last turn whose tools had run by then.

        Wholly private prompts and local commands carry the number of the prompt before them.
        """
        if at_ms is None:
            return turn
        first = bisect_right(self.calls, (turn, -1))
        for candidate, called_ms in self.calls[first:]:
            if end is not None and candidate >= end:
                break
            if called_ms <= at_ms:
                turn = max(turn, candidate)
        return turn

    def at(self, at_ms: int) -> int:
        position = bisect_right(self.starts, at_ms)
        return self.turns[position - 1] if position else 0
