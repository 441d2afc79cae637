"""The input queue of a session: what the user typed while the model worked, and what became of it.

Queue operations say what was put in and taken out; most texts are then written again as messages. Only the ones that
left no other trace are said from here. Part of `classify`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from bottlepipe.envelopes import LOCAL_COMMAND, NOTE, PENDING, QUEUED, is_local_command
from bottlepipe.times import parse_ms

UNDELIVERED = "typed while the model worked, not delivered when this was rendered"

_MEDIA = ("[image]", "[document]")
_NEAR_MS = 60_000
_SOON_MS = 600_000
_MANY = 64
_SURE = 20  # so many characters do not stand in another prompt by chance

# speaker, kind, text, seq, at_ms, message_id
Said = tuple[str, str, str, int, int | None, str]


@dataclass(frozen=True, slots=True)
class _Queued:
    """A text in the queue: the user's words in it, and the raw content as the queue holds it."""

    seq: int
    at_ms: int | None
    words: str
    raw: str

    def kind(self, otherwise: str) -> str:
        return LOCAL_COMMAND if is_local_command(self.words) else otherwise


class InputQueue:
    """First in, first out, but that a removal may name its text."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, _Queued] = OrderedDict()
        self._by_raw: dict[str, deque[int]] = {}
        self._seen: set[tuple[str, str]] = set()
        self._delivered: list[tuple[_Queued, int, int | None]] = []

    def enqueue(self, raw: str, words: str, seq: int, timestamp: str | None) -> None:
        # These entries have no uuid: where a file was appended to itself, time and text tell that one came before.
        identity = (timestamp or f"{seq}", raw)
        if identity not in self._seen:
            self._seen.add(identity)
            self._waiting[seq] = _Queued(seq, parse_ms(timestamp), words, raw)
            self._by_raw.setdefault(raw, deque()).append(seq)

    def clear(self) -> None:
        """The texts went back to the input box: nothing was sent."""
        self._waiting.clear()
        self._by_raw.clear()

    def deliver(self, raw: str | None, seq: int, at_ms: int | None) -> None:
        """Take out the text that is named, else the first one."""
        if not self._waiting:
            return
        named = self._by_raw.get(raw) if raw is not None else None
        first = named[0] if named else next(iter(self._waiting))
        queued = self._waiting.pop(first)
        # Of equal texts the first one goes first, so it stands at the head of its own line too.
        of_text = self._by_raw[queued.raw]
        of_text.popleft()
        if not of_text:
            del self._by_raw[queued.raw]
        self._delivered.append((queued, seq, at_ms))

    def settle(self, messages: Sequence[tuple[Any, ...]], tree: pl.DataFrame, end: int) -> Iterator[Said]:
        """Say every queued text that left no other trace: where it was delivered, or at `end` if it still waits.

        Takes rows of MESSAGES, the frame TREE, and the `seq` after the last one. A trace is a user message that says
        the same, no later than three messages or a minute after the delivery (a fork writes the older entries of its
        session in between), or one that the text was joined into. Each message is the trace of one equal text only.
        """
        if not self._delivered and not self._waiting:
            return
        traces = _Traces(messages, tree)
        traces.join(
            [(queued, seq) for queued, seq, _ in self._delivered] + [(one, one.seq) for one in self._waiting.values()]
        )
        for queued, delivered, at_ms in self._delivered:
            if queued.words.strip() and not traces.take(queued, delivered, at_ms):
                yield "user", queued.kind(QUEUED), queued.words, delivered, at_ms, f"queue:{queued.seq}"
        for queued in self._waiting.values():
            if queued.words.strip() and not traces.take(queued, queued.seq, queued.at_ms):
                yield "notice", NOTE, UNDELIVERED, end, queued.at_ms, f"note:{queued.seq}"
                yield "user", queued.kind(PENDING), queued.words, end, queued.at_ms, f"queue:{queued.seq}"


class _Traces:
    """The user messages in which a queued text can show again."""

    def __init__(self, messages: Sequence[tuple[Any, ...]], tree: pl.DataFrame) -> None:
        self.spoken = _spoken(messages, tree)
        self.seqs = [seq for seq, _, _ in self.spoken]
        self.keys = [_key(text) for _, _, text in self.spoken]
        self.joined: set[int] = set()
        self.by_key: dict[str, list[int]] = {}
        for index, key in enumerate(self.keys):
            self.by_key.setdefault(key, []).append(index)

    def join(self, ways: list[tuple[_Queued, int]]) -> None:
        """Find the texts that one message says one below the other; `take` knows them then."""
        ways = sorted(((one, seq) for one, seq in ways if _words(one)), key=lambda way: way[0].seq)
        words = [_words(one) for one, _ in ways]
        by_line: dict[str, list[int]] = {}
        for place, text in enumerate(words):
            by_line.setdefault(text.partition("\n")[0], []).append(place)
        seqs = [one.seq for one, _ in ways]
        for index, (seq, _, text) in enumerate(self.spoken):
            text = text.strip()
            if "\n" not in text:
                continue
            starts = by_line.get(text.partition("\n")[0], [])
            before = bisect_left(starts, bisect_left(seqs, seq))
            for start in starts[max(0, before - 16) : before]:
                end, shown = start, 0
                while end < len(ways) and text.startswith(words[end], shown) and shown <= len(text):
                    shown += len(words[end]) + 1
                    if text[shown - 1 : shown] not in ("\n", ""):
                        break
                    end += 1
                if end > start + 1 and shown > len(text) and index < bisect_left(self.seqs, ways[end - 1][1]) + 3:
                    self.joined.update(seqs[start:end])
                    break

    def take(self, queued: _Queued, delivered: int, at_ms: int | None) -> bool:
        """True when a message shows the text. An equal one is then used up."""
        if queued.seq in self.joined:
            return True
        start, end = bisect_left(self.seqs, queued.seq), bisect_left(self.seqs, delivered) + 3
        key = _key(_without_media(queued.words))
        equal = self.by_key.get(key, [])
        first = bisect_left(equal, start)
        for position, index in enumerate(equal[first : first + 16], first):
            said_ms = self.spoken[index][1]
            gap = abs(said_ms - at_ms) if at_ms is not None and said_ms is not None else None
            # The same word typed again much later is another one.
            if (index < end and (gap is None or gap <= _SOON_MS)) or (gap is not None and gap <= _NEAR_MS):
                del equal[position]
                return True
        words = _words(queued)
        if not words:
            return False
        near = range(max(start, end - _MANY), min(end, len(self.spoken)))
        return any(self.keys[i] != key and _holds(self.spoken[i][2].strip(), words) for i in near)


def _spoken(messages: Sequence[tuple[Any, ...]], tree: pl.DataFrame) -> list[tuple[int, int | None, str]]:
    """Place, time and words of each user message, without the entries that repeat an earlier one."""
    is_first = tree.get_column("uuid_hash").is_first_distinct().to_list()
    found: dict[str, tuple[int, int | None, list[str]]] = {}
    for _, seq, speaker, _, text, at_ms, entry, message_id in messages:
        if speaker == "user" and (entry < 0 or is_first[entry]):
            found.setdefault(message_id, (seq, at_ms, []))[2].append(text)
    return [(seq, at_ms, _without_media("\n\n".join(texts))) for seq, at_ms, texts in found.values()]


def _without_media(text: str) -> str:
    """The words of a message: its placeholders for images and documents stand in places of their own."""
    if not any(place in text for place in _MEDIA):
        return text
    return "\n\n".join(part for part in text.split("\n\n") if part not in _MEDIA)


def _words(queued: _Queued) -> str:
    return _without_media(queued.words).strip()


def _holds(text: str, words: str) -> bool:
    """True for a prompt that a queued text was joined into: at its start or end, or anywhere if it is no short word."""
    if len(words) >= _SURE:
        return f"\n{words}\n" in f"\n{text}\n"
    return text.startswith(f"{words}\n") or text.endswith(f"\n{words}")


def _key(text: str) -> str:
    return " ".join(text.split())
