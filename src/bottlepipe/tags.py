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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

STRICT_NAMES = frozenset({"private", "claude-mem-context"})
LOOSE_NAMES = frozenset({"system_instruction", "system-instruction", "persisted-output", "system-reminder"})

# White space is bounded so that a partial tag at the end of the output is never longer than _REACH. Case is folded in
# ASCII only (a dotless i makes another name), and a name ends at whatever cannot be part of one.
_HEAD = re.compile(rf"<\s{{0,16}}(?:(/)\s{{0,16}})?((?ai:{'|'.join(sorted(STRICT_NAMES | LOOSE_NAMES))}))(?![\w.:-])")
_PARTIAL_HEAD = re.compile(r"<\s{0,16}(?:/\s{0,16})?[A-Za-z_-]{0,18}")
_REACH = 64
_TAG_END = re.compile(r"[<>]")

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_TICKS_OR_BLANK_LINE = re.compile(r"`+|\n[ \t]*(?=\n)")


@dataclass(frozen=True, slots=True)
class Stripped:
    """What is left of a text. `private_spans` counts the outermost ones, `host_spans` the closed ones outside those."""

    text: str
    private_spans: int = 0
    host_spans: int = 0

    @property
    def is_wholly_private(self) -> bool:
        """True when the text held a private span and nothing else but white space."""
        return self.private_spans > 0 and not self.text.strip()


def strip_tags(text: str, *, keep_code: bool = False, is_stored: bool = False) -> Stripped:
    """Return `text` without its private and host spans.

    With `keep_code` (assistant text) a tag inside a Markdown code span or a closed fence is ordinary text, unless a
    strict span is open around it. Users' text is always scanned without `keep_code`: there a mention in code is
    treated like a tag, since hiding too much is the safer mistake.

    `is_stored` says that claude-mem has stripped the text before. It closes a nested span at the first close tag, so a
    strict close tag without its open one is the end of a span whose beginning it ate: what stands before is hidden.
    """
    if "<" not in text or not _HEAD.search(text):
        return Stripped(text)
    if not keep_code:
        return _scan(text, (), is_stored=is_stored)
    private = host = 0
    for _ in range(4):
        result = _scan(text, list(_code_ranges(text)))
        private, host = private + result.private_spans, host + result.host_spans
        if result.text == text:
            return Stripped(text, private, host)
        text = result.text
    # Each removal can re-pair the backticks that are left. A text that is still changing is built to deceive.
    result = _scan(text, ())
    return Stripped(result.text, private + result.private_spans, host + result.host_spans)


def open_strict_tags(text: str) -> str:
    """The strict tags that are still open at the end of a text, as bare tags. Whoever cuts the text off there must
    keep them, or the end of a span would lose its beginning.
    """
    if not _HEAD.search(text):
        return ""
    output = _Output(text)
    _scan(text, (), output=output)
    return "".join(f"<{name}>" * sum(n for _, n in output.opens[name]) for name in sorted(STRICT_NAMES))


class _Output:
    """What is kept so far, as ranges of the source text, with the open tags as positions in the output.

    The opens of one name are runs of (position, count), lowest position first; cutting the output back to a position
    merges the runs beyond it. Each run is made once and merged at most once, so the work is linear in the tags.
    Every range carries the start of a tag that the output ends with after it, "" for none.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.ranges: list[tuple[int, int, str]] = []
        self.length = 0
        self.opens: dict[str, list[tuple[int, int]]] = {name: [] for name in STRICT_NAMES | LOOSE_NAMES}
        self.strict_open = 0

    @property
    def partial_head(self) -> str:
        """The end of the output from its last `<`, if what follows could make a tag of it."""
        return self.ranges[-1][2] if self.ranges else ""

    def append(self, start: int, end: int) -> None:
        if end <= start:
            return
        at = self.text.rfind("<", max(start, end - _REACH), end)
        if at >= 0:
            partial = self.text[at:end]
        else:
            partial = self.partial_head and self.partial_head + self.text[start : min(end, start + _REACH)]
        if partial and not _PARTIAL_HEAD.fullmatch(partial):
            partial = ""
        self.ranges.append((start, end, partial))
        self.length += end - start

    def cut(self, position: int) -> None:
        while self.length > position:
            start, end, _ = self.ranges.pop()
            self.length -= end - start
            self.append(start, min(end, start + position - self.length))
        for runs in self.opens.values():
            moved = 0
            while runs and runs[-1][0] > position:
                moved += runs.pop()[1]
            if moved:
                _add_run(runs, position, moved)

    def open(self, name: str) -> None:
        _add_run(self.opens[name], self.length, 1)
        self.strict_open += name in STRICT_NAMES

    def close(self, name: str) -> bool:
        """Cut back to the innermost open tag of that name; False when none is open."""
        runs = self.opens[name]
        if not runs:
            return False
        position, count = runs.pop()
        if count > 1:
            runs.append((position, count - 1))
        self.strict_open -= name in STRICT_NAMES
        self.cut(position)
        return True

    def finish(self) -> str:
        """Drop what an unclosed strict tag hides, and return the text that is left."""
        self.cut(min((self.opens[name][0][0] for name in STRICT_NAMES if self.opens[name]), default=self.length))
        return "".join(self.text[start:end] for start, end, _ in self.ranges)


def _add_run(runs: list[tuple[int, int]], position: int, count: int) -> None:
    if runs and runs[-1][0] == position:
        count += runs.pop()[1]
    runs.append((position, count))


def _scan(
    text: str, code: Sequence[tuple[int, int]], *, is_stored: bool = False, output: _Output | None = None
) -> Stripped:
    output = output or _Output(text)
    private_spans = host_spans = 0
    code_index = position = 0
    is_gap = False
    while True:
        tag = None
        if is_gap and (partial := output.partial_head):
            # What was just removed may have spliced a tag together out of both sides of the gap.
            tag = _HEAD.match(partial + text[position : position + _REACH])
        if tag is not None:
            tag_start, head_end = position, position + tag.end() - len(partial)
            output.cut(output.length - len(partial))
        else:
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
            if is_stored and not is_closed and name in STRICT_NAMES and output.length:
                output.cut(0)
                private_spans += 1
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

    A span never crosses a blank line, and a backslash keeps backticks from opening one.
    """
    if text.find("`", start, end) < 0:
        return
    runs = [run.span() for run in _TICKS_OR_BLANK_LINE.finditer(text, start, end)]
    following: dict[int, int] = {}
    closers = [-1] * len(runs)
    for index in range(len(runs) - 1, -1, -1):
        run_start, run_end = runs[index]
        if text[run_start] == "\n":
            following.clear()
        else:
            closers[index] = following.get(run_end - run_start, -1)
            following[run_end - run_start] = index
    index = 0
    while index < len(runs):
        opener = runs[index][0]
        if closers[index] < 0 or text[max(0, opener - 1)] == "\\":
            index += 1
            continue
        yield opener, runs[closers[index]][1]
        index = closers[index] + 1
