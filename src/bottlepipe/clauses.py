"""One-line forms of longer texts. A leaf."""

from __future__ import annotations

import re

# All white space, str.splitlines' line ends and other control characters end a word: none may stand in a one-line text.
_WORD = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LINE_END = r"(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])"
_PARAGRAPH = re.compile(rf"{_LINE_END}\s*{_LINE_END}")
# What closes a quotation, a bracket or an emphasis belongs to the clause before it.
_CLOSERS = "[\"'”’»)\\]*_`」』）】]*"
_STOP = re.compile(
    rf"(?:(?P<full>(?<!\.)\.)|[!?])(?P<closers>{_CLOSERS})(?=\s|\Z)|;(?=\s|\Z)|(?P<cjk>[。！？；]){_CLOSERS}"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|cf|vs|approx|incl|resp|no|nos|fig|sec|ch|pp?|vol|ed|eds|al|ca|dr|mr|mrs|ms|prof|st|jr|sr|inc|ltd|co|dept|est|max|min|ver|rev)"
    r"|(?<![\w.])[A-Za-z]|(?:\b[A-Za-z]\.)+[A-Za-z]|(?:\A|\n)\s*\d{1,3})\Z",
    re.IGNORECASE,
)
TITLE_LENGTH = 200
CLAUSE_LENGTH = 240
_FIRST_WORDS = 80


def one_line(text: str, length: int) -> str:
    """`text` on one line, at most `length` characters, cut at a word with an ellipsis; lone surrogates are replaced."""
    words: list[str] = []
    size = -1
    for word in _WORD.finditer(text):
        words.append(word.group()[: length + 1])
        size += 1 + len(words[-1])
        if size > length:
            break
    line = _SURROGATE.sub("\ufffd", " ".join(words))
    if len(line) <= length:
        return line
    cut = line[: length - 1]
    space = cut.rfind(" ")
    return (cut[:space] if space > length // 2 else cut).rstrip() + "…"


def first_clause(text: str, length: int = CLAUSE_LENGTH) -> str:
    """The first clause of a text on one line. Abbreviations, decimals, list numbers and paths do not end it."""
    start = _WORD.search(text)
    text = text[start.start() : start.start() + 8 * length + 200] if start else ""
    paragraph = _PARAGRAPH.search(text)
    if paragraph:
        text = text[: paragraph.start()]
    for stop in _STOP.finditer(text):
        if stop["full"] and _ABBREVIATION.search(text, max(0, stop.start() - 24), stop.start()):
            continue
        rest = text[stop.end() :].lstrip()
        if stop["closers"] and rest[:1].islower():
            continue  # the stop ends a quotation inside the clause
        # The clause's own full stop or semicolon says nothing at the end of a line; other marks do.
        mark = text[stop.start()]
        clause = text[: stop.start()] + ("" if mark in ".;。；" else mark) + text[stop.start() + 1 : stop.end()]
        if _WORD.search(text[: stop.start()]):
            return one_line(clause, length)
    return one_line(text, length)


def observation_line(*, type: str, title: str, subtitle: str, narrative: str, text: str) -> str:
    """`title — first clause of narrative`, with fallbacks for a missing title; always one line, never empty."""
    clause = first_clause(narrative)
    head = one_line(title, TITLE_LENGTH) or one_line(subtitle, TITLE_LENGTH)
    if head:
        return f"{head} — {clause}" if clause and clause != head else head
    first_words = one_line(narrative, _FIRST_WORDS) or one_line(text, _FIRST_WORDS)
    return first_words or one_line(type, TITLE_LENGTH) or "observation"
