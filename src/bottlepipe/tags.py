"""The private-tag scanner: removes what the user (or the host) fenced off, in one linear pass.

Six tag names count. `private` and `claude-mem-context` are strict: left unclosed they hide everything up to the end
of the text. The other four are host reminders: left unclosed they lose only the tag itself.

Guarantees, each held by a property test:

* linear time, also on unclosed tags, half-open tags and nested splices;
* a second pass changes nothing (removing a span can splice a new tag together; the scanner sees that too);
* a tag that is cut off by `<` or by the end of the text still counts as a tag: in doubt the text is hidden.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

STRICT_NAMES = frozenset({"private", "claude-mem-context"})
LOOSE_NAMES = frozenset({"system_instruction", "system-instruction", "persisted-output", "system-reminder"})

# White space is bounded so that a partial tag at the end of the output is never longer than _REACH.
_HEAD = re.compile(
    rf"<\s{{0,16}}(/?)\s{{0,16}}({'|'.join(sorted(STRICT_NAMES | LOOSE_NAMES))})(?=[\s/<>]|\Z)",
    re.IGNORECASE,
)
_TAG_END = re.compile(r"[<>]")
_REACH = 64
_QUICK = re.compile("|".join(sorted(n[:7] for n in STRICT_NAMES | LOOSE_NAMES)), re.IGNORECASE)

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_TICKS = re.compile(r"`+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")


@dataclass(frozen=True, slots=True)
class Stripped:
    """What is left of a text. `private_spans` and `host_spans` count the outermost spans that were removed."""

    text: str
    private_spans: int = 0
    host_spans: int = 0

    @property
    def is_wholly_private(self) -> bool:
        """True when the text held a private span and nothing else but white space."""
        return self.private_spans > 0 and not self.text.strip()


def strip_tags(text: str, *, keep_code: bool = False) -> Stripped:
    """Return `text` without its private and host spans.

    With `keep_code` (assistant text) a tag inside a Markdown code span or a closed fence is ordinary text, unless a
    strict span is open around it. Users' text is always scanned without `keep_code`: there a mention in code is
    treated like a tag, since hiding too much is the safer mistake.
    """
    if "<" not in text or not _QUICK.search(text):
        return Stripped(text)
    if not keep_code:
        return _scan(text, ())
    private = host = 0
    for _ in range(4):
        result = _scan(text, tuple(_code_ranges(text)))
        private, host = private + result.private_spans, host + result.host_spans
        if result.text == text:
            return Stripped(text, private, host)
        text = result.text
    # Each removal can re-pair the backticks that are left. A text that is still changing is built to deceive.
    result = _scan(text, ())
    return Stripped(result.text, private + result.private_spans, host + result.host_spans)


class _Output:
    """What is kept so far, as ranges of the source text, with the open tags as positions in the output.

    Opens are grouped by position; cutting the output back to a position merges the groups beyond it. Each group is
    made once and merged at most once, so the total work is linear in the number of tags.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.ranges: list[tuple[int, int]] = []
        self.length = 0
        self.groups: list[tuple[int, Counter[str]]] = []
        self.open_names: Counter[str] = Counter()

    @property
    def strict_open(self) -> int:
        return sum(self.open_names[name] for name in STRICT_NAMES)

    def append(self, start: int, end: int) -> None:
        if end > start:
            self.ranges.append((start, end))
            self.length += end - start

    def cut(self, position: int) -> None:
        while self.length > position:
            start, end = self.ranges.pop()
            self.length -= end - start
            self.append(start, min(end, start + max(0, position - self.length)))
        merged: Counter[str] = Counter()
        while self.groups and self.groups[-1][0] > position:
            merged.update(self.groups.pop()[1])
        if merged:
            self._add(position, merged)

    def _add(self, position: int, names: Counter[str]) -> None:
        if self.groups and self.groups[-1][0] == position:
            self.groups[-1][1].update(names)
        else:
            self.groups.append((position, names))

    def open(self, name: str) -> None:
        self._add(self.length, Counter({name: 1}))
        self.open_names[name] += 1

    def close(self, name: str) -> bool:
        """Cut back to the innermost open tag of that name; False when none is open."""
        if not self.open_names[name]:
            return False
        position, names = next(group for group in reversed(self.groups) if group[1][name])
        names[name] -= 1
        self.open_names[name] -= 1
        self.cut(position)
        return True

    def finish(self) -> str:
        """Drop what an unclosed strict tag hides, and return the text that is left."""
        strict = (at for at, names in self.groups if any(names[name] for name in STRICT_NAMES))
        self.cut(next(strict, self.length))
        return "".join(self.text[start:end] for start, end in self.ranges)

    def tail(self) -> str:
        """The end of the output from its last `<`, if that is near enough to be the start of a tag."""
        text = ""
        for start, end in reversed(self.ranges):
            text = self.text[max(start, end - _REACH) : end] + text
            if len(text) >= _REACH:
                break
        at = text.rfind("<", -_REACH)
        return text[at:] if at >= 0 else ""


def _scan(text: str, code: tuple[tuple[int, int], ...]) -> Stripped:
    output = _Output(text)
    private_spans = host_spans = 0
    code_index = position = 0
    is_gap = False
    while True:
        tag, tag_start, head_end = None, 0, 0
        if is_gap and (tail := output.tail()):
            # What was just removed may have spliced a tag together out of both sides of the gap.
            spliced = _HEAD.match(tail + text[position : position + _REACH])
            if spliced and spliced.end() > len(tail):
                tag, tag_start, head_end = spliced, position, position + spliced.end() - len(tail)
                output.cut(output.length - len(tail))
        if tag is None:
            tag = _HEAD.search(text, position)
            if tag is None:
                break
            tag_start, head_end = tag.span()
        while code_index < len(code) and code[code_index][1] <= tag_start:
            code_index += 1
        if code_index < len(code) and code[code_index][0] <= tag_start and not output.strict_open:
            output.append(position, head_end)
            position, is_gap = head_end, False
            continue
        end = _TAG_END.search(text, head_end)
        tag_end = len(text) if end is None else end.end() if end.group() == ">" else end.start()
        output.append(position, tag_start)
        name = tag.group(2).lower()
        if tag.group(1):
            is_closed = output.close(name)
            host_spans += is_closed and name in LOOSE_NAMES and not output.strict_open
        elif not (text[tag_end - 1] == ">" and _is_self_closed(text[head_end : tag_end - 1])):
            output.open(name)
            private_spans += name in STRICT_NAMES and output.strict_open == 1
        position, is_gap = tag_end, True
    output.append(position, len(text))
    return Stripped(output.finish(), private_spans, host_spans)


def _is_self_closed(attributes: str) -> bool:
    """`<private/>` is empty; in `<private path=/>` the slash belongs to a value, so the tag is open."""
    attributes = attributes.rstrip()
    return attributes.endswith("/") and (attributes.strip() == "/" or attributes[-2] in " \t\r\n\"'")


def _code_ranges(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of closed fences and of inline code spans, in order.

    A fence that is never closed does not count as code: its tags are honoured.
    """
    opened: re.Match[str] | None = None
    prose_from = 0
    for line in _FENCE.finditer(text):
        marks, info = line.group(1), line.group(2)
        if opened is None:
            if marks[0] == "`" and "`" in info:
                continue
            opened = line
        elif marks[0] == opened.group(1)[0] and len(marks) >= len(opened.group(1)) and not info.strip():
            yield from _code_spans(text, prose_from, opened.start())
            yield opened.start(), line.end()
            prose_from, opened = line.end(), None
    yield from _code_spans(text, prose_from, len(text))


def _code_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield inline code spans between `start` and `end`: a run of backticks up to the next run of that length.

    A span never crosses a blank line.
    """
    paragraph = start
    while paragraph < end:
        blank = _BLANK_LINE.search(text, paragraph, end)
        stop = blank.start() if blank else end
        runs = [run.span() for run in _TICKS.finditer(text, paragraph, stop)]
        following: dict[int, int] = {}
        closers = [-1] * len(runs)
        for index in range(len(runs) - 1, -1, -1):
            length = runs[index][1] - runs[index][0]
            closers[index] = following.get(length, -1)
            following[length] = index
        index = 0
        while index < len(runs):
            if closers[index] < 0:
                index += 1
                continue
            yield runs[index][0], runs[closers[index]][1]
            index = closers[index] + 1
        paragraph = blank.end() if blank else end
