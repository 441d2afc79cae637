"""What a bottle says of itself: the header's facts, and the words for what is not in it. A leaf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

MODE_FULL = "full"
MODE_RECONSTRUCTED = "reconstructed"
_LEFT_OUT, _SKIPPED, _REMOVED = "left out", "skipped", "removed"
# Everything that may not be in a bottle: plural, singular and what was done with it, in the order in which it is told.
_ABSENT = {
    "rewound branches": ("rewound branch", _LEFT_OUT),
    "messages on rewound branches": ("message on a rewound branch", _LEFT_OUT),
    "observations on rewound branches": ("observation on a rewound branch", _LEFT_OUT),
    "torn lines": ("torn line", _SKIPPED),
    "unfinished last lines": ("unfinished last line", _SKIPPED),
    "lines that are no record": ("line that is no record", _SKIPPED),
    "lines nested too deeply": ("line nested too deeply", _SKIPPED),
    "records with a mistyped field": ("record with a mistyped field", _SKIPPED),
    "unreadable ends of the file": ("unreadable end of the file", _SKIPPED),
    "ends lost while the file shrank": ("end lost while the file shrank", _SKIPPED),
    "repeated entries": ("repeated entry", _SKIPPED),
    "compaction summaries": ("compaction summary", _LEFT_OUT),
    "subagent entries": ("subagent entry", _LEFT_OUT),
    "synthetic answers": ("synthetic answer", _LEFT_OUT),
    "injected texts": ("injected text", _LEFT_OUT),
    "private spans": ("private span", _REMOVED),
}


@dataclass(frozen=True, slots=True)
class Header:
    """What stands above the conversation. `facts` are further `key: value` lines, in order."""

    session_id: str
    project: str
    started_ms: int | None
    rendered: datetime
    mode: str
    facts: Sequence[tuple[str, str]] = ()


def tell_left_out(left_out: Mapping[str, int]) -> dict[str, int]:
    """Counts of what is not in a bottle, named by plural or singular: under their plurals, in a fixed order."""
    plurals = {singular: plural for plural, (singular, _) in _ABSENT.items()}
    counts: Counter[str] = Counter()
    for name, count in left_out.items():
        counts[plurals.get(name, name)] += count
    return {name: counts[name] for name in (*_ABSENT, *sorted(counts.keys() - _ABSENT.keys())) if counts[name]}


def describe_left_out(left_out: Mapping[str, int], *, with_verb: bool = False) -> list[str]:
    """`2 rewound branches`, `1 torn line`: one phrase for each thing; with its verb `1 torn line skipped`."""
    phrases = []
    for plural, count in left_out.items():
        singular, verb = _ABSENT.get(plural, (plural, _LEFT_OUT))
        phrases.append(f"{count:,} {singular if count == 1 else plural}" + (f" {verb}" if with_verb else ""))
    return phrases


def count_of(count: int, singular: str) -> str:
    """`1 user turn`, `2 user turns`."""
    return f"{count:,} {singular}{'' if count == 1 else 's'}"


def describe_contents(tally: Mapping[str, int]) -> str:
    """`16 user turns, 19 assistant messages, 13 observations`, from counts by speaker."""
    parts = (("user", "user turn"), ("assistant", "assistant message"), ("observation", "observation"))
    return ", ".join(count_of(tally.get(speaker, 0), word) for speaker, word in parts)
