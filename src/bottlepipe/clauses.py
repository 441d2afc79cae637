"""One-line forms of longer texts. A leaf."""

from __future__ import annotations

import re

# str.splitlines' line ends, tabs and other control characters: nothing of them may stand in a one-line text.
_GAPS = re.compile(r"[\s\x00-\x1f\x7f\x80-\x9f\u2028\u2029]+")
_PARAGRAPH = re.compile(r"(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])\s*(?:\r\n|[\n\r\v\f\x85\u2028\u2029])")
_STOP = re.compile(r"[.!?;](?=[\s\"'”’)\]]|\Z)|[。！？；]")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|cf|vs|approx|incl|resp|no|nos|fig|sec|ch|pp?|vol|ed|eds|al|ca|dr|mr|mrs|ms|prof|st|jr|sr|inc|ltd|co|dept|est|max|min|ver|rev)"
    r"|\b[A-Za-z]|(?:\b[A-Za-z]\.)+[A-Za-z])\Z",
    re.IGNORECASE,
)
TITLE_LENGTH = 200
CLAUSE_LENGTH = 240
_FIRST_WORDS = 80


def one_line(text: str, length: int) -> str:
    """`text` on one line, at most `length` characters, cut at a word with an ellipsis."""
    text = _GAPS.sub(" ", text[: 8 * length + 200]).strip()
    if len(text) <= length:
        return text
    cut = text[: length - 1]
    word = cut.rfind(" ")
    return (cut[:word] if word > length // 2 else cut).rstrip() + "…"


def first_clause(text: str, length: int = CLAUSE_LENGTH) -> str:
    """The first clause of a text on one line. Abbreviations, decimals and paths do not end it."""
    text = text.strip()[: 8 * length + 200]
    paragraph = _PARAGRAPH.search(text)
    if paragraph:
        text = text[: paragraph.start()]
    for stop in _STOP.finditer(text):
        if stop.group() == "." and (
            _ABBREVIATION.search(text, max(0, stop.start() - 24), stop.start()) or text[stop.end() :].strip()[:1] == "."
        ):
            continue
        end = stop.start() if stop.group() in ".;。；" else stop.end()
        if text[:end].strip():
            return one_line(text[:end], length)
    return one_line(text, length)


def observation_line(*, type: str, title: str, subtitle: str, narrative: str, text: str) -> str:
    """`title — first clause of narrative`, with fallbacks for a missing title; always one line, never empty."""
    clause = first_clause(narrative)
    head = one_line(title, TITLE_LENGTH) or one_line(subtitle, TITLE_LENGTH)
    if not head:
        head = one_line(narrative or text, _FIRST_WORDS)
        clause = "" if narrative or not clause else clause
    if not head:
        return one_line(type, TITLE_LENGTH) or "observation"
    return f"{head} — {clause}" if clause and clause != head else head
