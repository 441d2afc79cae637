"""Stage 4, `number`: which stored prompt is which turn, and under which turn an observation stands.

claude-mem numbers prompts by what it stored, the transcript holds more turns (or other ones), so numbers never match by
position. Stored prompts are aligned to user messages by text and time; an observation is then placed by the tool call
it is linked to, else by its prompt number through the alignment, else by time.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf
from operator import itemgetter
from typing import Any

import polars as pl

from bottlepipe.envelopes import NOTE, STORED, own_words
from bottlepipe.frames import NUMBERED, conform
from bottlepipe.stored import cut_as_stored, stored_index, stored_message_id, stored_text
from bottlepipe.tags import strip_tags

MEDIA_PROMPT = "[media prompt]"
MISSING = "stored prompt that the transcript lacks"
_IMAGES = ("[image]", "[document]")
# Equal texts this far apart are the same prompt only when they are long: "continue" is typed every day.
_LONG = 80
_FAR_MS = 12 * 3600 * 1000
# A prompt is stored after it was typed, so a message later than that is the less likely one.
_LATER_COSTS = 4
_JOINED_MS = 600_000
_REPEAT_MS = 10_000
_SAME_MOMENT_MS = 5_000
# So many messages that open alike are looked at, no more: time must not grow with the square of a session.
_MANY = 64
# Texts of many megabytes cannot be searched for each of thousands of prompts: so many characters in all, or all of them
# `_MANY` times, and no more.
_SEARCHED = 1_000_000_000
_PLUGIN = re.compile(r"\A/[^\s:/]+:")


def number_messages(messages: pl.DataFrame) -> pl.DataFrame:
    """Add `message` and `turn` to one session's MESSAGES (with `branch`), in their order."""
    is_new = pl.any_horizontal(
        pl.col(name).ne_missing(pl.col(name).shift()).fill_null(True) for name in ("message_id", "speaker", "branch")
    )
    numbered = messages.with_columns(message=is_new.cast(pl.Int64).cum_sum() - 1)
    starts_turn = (pl.col("speaker") == "user") & pl.col("message").ne_missing(pl.col("message").shift())
    return conform(numbered.with_columns(turn=starts_turn.cast(pl.Int64).cum_sum()), NUMBERED)


@dataclass(frozen=True, slots=True)
class _Said:
    """A prompt on either side. `key` is what two records of it have in common, None when the host wrote all of it."""

    key: str | None
    text: str
    at_ms: int | None
    was_cut: bool = False


def align_prompts(numbered: pl.DataFrame, prompts: pl.DataFrame) -> pl.DataFrame:
    """Add `turn` to one session's PROMPTS: the user message that a stored prompt is, null for none.

    Equal text comes first (both sides stripped, trimmed and cut as claude-mem does it), the nearest in time of equal
    ones, in order; then text that was cut elsewhere, or is part of a joined prompt; then like texts at one moment.
    """
    if prompts.is_empty():
        return prompts.with_columns(turn=pl.lit(None, pl.Int64))
    turns = _user_turns(numbered)
    said = list(turns.values())
    stored = [
        _Said(_stored_key(text), text.strip(), at_ms, was_cut)
        for text, at_ms, was_cut in prompts.select("text", "at_ms", "was_cut").iter_rows()
    ]
    matched = _match_equal(stored, said)
    _match_similar(stored, said, matched)
    numbers = list(turns)
    found = [numbers[matched[index]] if index in matched else None for index in range(len(stored))]
    return prompts.with_columns(turn=pl.Series(found, dtype=pl.Int64))


def _match_equal(stored: Sequence[_Said], said: Sequence[_Said]) -> dict[int, int]:
    """Match prompts of one text, nearest in time first, then put them in order: no two of them cross.

    A hook can fire twice for one prompt, and older claude-mem stores both.
    """
    stored_of: dict[str, list[int]] = {}
    said_of: dict[str, list[int]] = {}
    for places, prompts in ((stored_of, stored), (said_of, said)):
        for index, prompt in enumerate(prompts):
            if prompt.key is not None:
                places.setdefault(prompt.key, []).append(index)
    matched: dict[int, int] = {}
    for key, indices in stored_of.items():
        pairs = _nearest_pairs(key, indices, said_of.get(key, []), stored, said)
        in_order = sorted(indices, key=lambda index: (stored[index].at_ms or 0, index))
        pairs = dict(zip((index for index in in_order if index in pairs), sorted(pairs.values()), strict=True))
        for before, index in pairwise(in_order):
            first_ms, again_ms = stored[before].at_ms, stored[index].at_ms
            is_repeat = first_ms is not None and again_ms is not None and again_ms - first_ms <= _REPEAT_MS
            if is_repeat and index not in pairs and before in pairs:
                pairs[index] = pairs[before]
        matched.update(pairs)
    return matched


def _nearest_pairs(
    key: str, indices: Sequence[int], positions: Sequence[int], stored: Sequence[_Said], said: Sequence[_Said]
) -> dict[int, int]:
    times = list(accumulate((said[position].at_ms or 0 for position in positions), max))
    costs = []
    for order, index in enumerate(indices):
        at_ms = stored[index].at_ms
        # Among many equal texts only the few around the same place can be meant.
        middle = order if at_ms is None else bisect_right(times, at_ms)
        for rank in range(max(0, middle - 8), min(len(positions), middle + 8)):
            said_ms = said[positions[rank]].at_ms
            if at_ms is None or said_ms is None:
                costs.append((_LATER_COSTS * _FAR_MS + abs(rank - order), index, positions[rank]))
            elif abs(at_ms - said_ms) <= _FAR_MS or len(key) >= _LONG:
                costs.append((max(at_ms - said_ms, _LATER_COSTS * (said_ms - at_ms)), index, positions[rank]))
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for _, index, position in sorted(costs):
        if index not in pairs and position not in taken:
            pairs[index] = position
            taken.add(position)
    return pairs


def _match_similar(stored: Sequence[_Said], said: Sequence[_Said], matched: dict[int, int]) -> None:
    """Match what is left where the two records of a prompt differ. Several can be parts of one joined prompt."""
    left = [index for index, prompt in enumerate(stored) if index not in matched and prompt.key]
    if not left:
        return
    taken = set(matched.values())
    moments = sorted((prompt.at_ms, position) for position, prompt in enumerate(said) if prompt.at_ms is not None)
    by_line: dict[str, list[int]] = {}
    by_start: dict[str, list[int]] = {}
    for position, prompt in enumerate(said):
        by_start.setdefault((prompt.key or "")[:_LONG], []).append(position)
        for line in set(prompt.text.split("\n")):
            by_line.setdefault(line, []).append(position)
    budget = max(_SEARCHED, _MANY * sum(len(prompt.text) for prompt in said))
    for index in left:
        prompt = stored[index]
        if prompt.key is None or prompt.at_ms is None:
            continue
        start = prompt.key[:-1].rstrip("\ufffd ") if prompt.was_cut else ""
        middle = bisect_left(moments, (prompt.at_ms, 0))
        # What has all of its lines has the first of them.
        alike = by_line.get(prompt.text.partition("\n")[0], [])
        candidates = [
            *(position for _, position in moments[max(0, middle - 8) : middle + 8]),
            *alike[:_MANY],
            *(by_start.get(start[:_LONG], ())[:_MANY] if len(start) >= _LONG else ()),
        ]
        gaps = sorted((abs((said[position].at_ms or 0) - prompt.at_ms), position) for position in set(candidates))
        for gap, position in gaps:
            if gap > _JOINED_MS:
                break
            key = said[position].key or ""
            is_record = len(start) >= _LONG and key.startswith(start)
            if not is_record and budget > 0 and _is_in(alike, position):
                budget -= len(said[position].text)
                is_record = _has_lines(said[position].text, prompt.text)
            if is_record or (gap <= _SAME_MOMENT_MS and position not in taken and _is_akin(prompt.key, key)):
                matched[index] = position
                taken.add(position)
                break


def _is_in(positions: Sequence[int], position: int) -> bool:
    """True when a rising list has this number."""
    at = bisect_left(positions, position)
    return positions[at : at + 1] == [position]


def _has_lines(text: str, lines: str) -> bool:
    """True when whole lines of a text are these. Copies nothing: a text may have many megabytes."""
    return text == lines or text.startswith(f"{lines}\n") or text.endswith(f"\n{lines}") or f"\n{lines}\n" in text


def _is_akin(a: str, b: str) -> bool:
    """True when one text holds the other, or most words of the shorter one are in the longer."""
    if not a or not b:
        return False
    a, b = _PLUGIN.sub("/", a), _PLUGIN.sub("/", b)
    words, others = set(a.split()), set(b.split())
    return a in b or b in a or len(words & others) > 0.6 * min(len(words), len(others))


def _user_turns(numbered: pl.DataFrame) -> dict[int, _Said]:
    turns: dict[int, tuple[list[str], int | None]] = {}
    users = numbered.filter(pl.col("speaker") == "user").select("turn", "text", "at_ms")
    for turn, text, at_ms in users.iter_rows():
        turns.setdefault(turn, ([], at_ms))[0].append(text)
    return {turn: _said(texts, at_ms) for turn, (texts, at_ms) in turns.items()}


def _said(texts: Sequence[str], at_ms: int | None) -> _Said:
    text = "\n\n".join(text for text in texts if text not in _IMAGES)
    return _Said(_key(text) if text else MEDIA_PROMPT, text, at_ms)


def _stored_key(text: str) -> str | None:
    _, own = own_words(text)
    return None if own is None else _key(own, is_stored=True)


def _key(text: str, *, is_stored: bool = False) -> str:
    return " ".join(cut_as_stored(strip_tags(text, is_stored=is_stored).text.strip()).split())


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
        if at:
            # Not into a message.
            at = bisect_right(starts, starts[at - 1])
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
            merged.append(
                {**base, "speaker": "notice", "kind": NOTE, "text": MISSING, "message_id": f"note:{row['index']}"}
            )
            _, words = own_words(row["text"])
            merged.append(
                {
                    **base,
                    "speaker": "user",
                    "kind": STORED,
                    "text": stored_text(words or row["text"], row["was_cut"]),
                    "message_id": stored_message_id(row["index"]),
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
    moved_prompts = prompts.with_columns(
        turn=pl.col("turn").replace_strict(moved, default=None, return_dtype=pl.Int64)
    ).with_row_index("index")
    stored = after.filter(pl.col("kind") == STORED).select(turn_stored="turn", index=stored_index())
    return (
        moved_prompts.join(stored, on="index", how="left", maintain_order="left")
        .with_columns(turn=pl.coalesce("turn", "turn_stored"))
        .drop("index", "turn_stored")
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


def _least_from(numbers: Sequence[int]) -> list[int]:
    """The least of the numbers from each place to the end. It never falls, so the last small one can be bisected."""
    return [*accumulate(reversed(numbers), min)][::-1]


class _Numbers:
    """Aligned prompts by session row and prompt number."""

    def __init__(self, prompts: pl.DataFrame) -> None:
        places: dict[tuple[int | None, int], list[tuple[int, int]]] = {}
        for session_row, number, at_ms, turn in prompts.select(
            "session_db_id", "prompt_number", "at_ms", "turn"
        ).iter_rows():
            if number is not None and turn is not None:
                places.setdefault((session_row, number), []).append((-1 if at_ms is None else at_ms, turn))
        # By number: from which moment on a later prompt with it counts, and the turns of its prompts.
        self.places = {
            key: (_least_from([at_ms for at_ms, _ in found]), [turn for _, turn in found])
            for key, found in places.items()
        }
        self.turns = sorted({turn for _, turns in self.places.values() for turn in turns})

    def span(self, session_row: int | None, number: int | None, at_ms: int | None) -> tuple[int, int | None] | None:
        """The turn of that prompt, and that of the next stored one after it."""
        if number is None or (session_row, number) not in self.places:
            return None
        earliest, turns = self.places[session_row, number]
        # A number can have been given twice: then the last of its prompts before that moment is meant.
        count = len(turns) if at_ms is None else bisect_right(earliest, at_ms)
        turn = turns[max(count - 1, 0)]
        following = bisect_right(self.turns, turn)
        return turn, self.turns[following] if following < len(self.turns) else None


def _turns_of_calls(numbered: pl.DataFrame, tool_calls: pl.DataFrame) -> pl.DataFrame:
    """Add `turn` to tool calls: that of the last user message before them in the file.

    Messages that `insert_stored` made have no place in the file: a call after such a message's time is under it.
    """
    users = numbered.filter(pl.col("speaker") == "user").unique("turn", keep="first", maintain_order=True)
    is_stored = pl.col("kind") == STORED
    calls = tool_calls.sort("seq").join_asof(
        users.filter(~is_stored).select("seq", "turn").sort("seq"), on="seq", strategy="backward"
    )
    calls = calls.with_columns(pl.col("turn").fill_null(0))
    # By the turn before a run of such messages: since when each was there. After one without a time nothing is known.
    runs: dict[int, list[float]] = {}
    run: list[float] = []
    last = -1
    for turn, at_ms in users.filter(is_stored).select("turn", "at_ms").iter_rows():
        if turn != last + 1:
            run = runs[turn - 1] = []
        run.append(max(run[-1] if run else -inf, inf if at_ms is None else at_ms))
        last = turn
    if not runs:
        return calls
    turns = [
        turn if at_ms is None else turn + bisect_right(runs.get(turn, ()), at_ms)
        for turn, at_ms in calls.select("turn", "at_ms").iter_rows()
    ]
    return calls.with_columns(turn=pl.Series(turns, dtype=pl.Int64))


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
        # By span of calls, made when first asked for: spans do not overlap, so all together are as long as the calls.
        self.earliest: dict[tuple[int, int], list[int]] = {}
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
        first = bisect_left(self.calls, turn, key=itemgetter(0))
        stop = len(self.calls) if end is None else bisect_left(self.calls, end, key=itemgetter(0))
        earliest = self.earliest.get((first, stop))
        if earliest is None:
            earliest = self.earliest[first, stop] = _least_from([began for _, began in self.calls[first:stop]])
        count = bisect_right(earliest, at_ms)
        return self.calls[first + count - 1][0] if count else turn

    def at(self, at_ms: int) -> int:
        position = bisect_right(self.starts, at_ms)
        return self.turns[position - 1] if position else 0
