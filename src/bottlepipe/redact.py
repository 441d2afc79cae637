"""Stage `redact`: what may reach the disk. The only stage that makes `public_text`.

Tags are stripped once per message, on the joined text of its blocks, before any cut, title or first line is taken.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import polars as pl

from bottlepipe.clauses import observation_line, one_line
from bottlepipe.envelopes import PRIVATE_KIND, STORED
from bottlepipe.frames import PUBLIC, conform
from bottlepipe.tags import Stripped, strip_tags

PRIVATE = "[private]"
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])')
_SUMMARY_FIELDS = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def join_blocks(numbered: pl.DataFrame) -> pl.DataFrame:
    """One row per message of one session: session_id, turn, message, speaker, kind, message_id, branch, text, at_ms.

    The text is raw: its blocks, joined with a blank line.
    """
    columns = ("message", "session_id", "turn", "speaker", "kind", "message_id", "branch", "text", "at_ms")
    # Most messages are one block. Those go on as they are, so that no second copy of a long text is made.
    is_single = pl.len().over("message") == 1
    several = (
        numbered.filter(~is_single)
        .group_by("message", maintain_order=True)
        .agg(
            pl.col("session_id", "turn", "speaker", "kind", "message_id", "branch").first(),
            pl.col("text").str.join("\n\n"),
            pl.col("at_ms").drop_nulls().first(),
        )
    )
    single = numbered.filter(is_single).select(columns)
    return pl.concat([single, several.select(columns)]).sort("message", maintain_order=True)


def redact_messages(numbered: pl.DataFrame, left_out: Counter[str]) -> pl.DataFrame:
    """PUBLIC rows from numbered MESSAGES of one session, one per message.

    A wholly private user message leaves `[private]` (of kind "private"), a wholly private answer nothing. What was
    removed is added to `left_out`: "private spans" and "injected texts".
    """
    joined = _rejoin_split_spans(join_blocks(numbered))
    kinds, texts = _strip_messages(joined, left_out)
    rows = joined.with_columns(
        public_text=pl.Series(texts, dtype=pl.Binary).cast(pl.String),
        kind=pl.Series(kinds, dtype=pl.String),
        ref=pl.lit(None, pl.Int64),
    )
    return conform(rows.filter(pl.col("public_text") != ""), PUBLIC)


def _strip_messages(joined: pl.DataFrame, left_out: Counter[str]) -> tuple[list[str], list[bytes]]:
    """Kinds and public texts. The texts in UTF-8: a single emoji makes a string take four bytes for every character."""
    kinds: list[str] = []
    texts: list[bytes] = []
    for speaker, kind, text in joined.select("speaker", "kind", "text").iter_rows():
        stripped = _strip_message(speaker, kind, text)
        _count(stripped, left_out)
        text = stripped.text
        if speaker == "notice":
            text = one_line(text, 300)
        elif not text.strip():
            is_private_prompt = stripped.is_wholly_private and speaker == "user"
            text, kind = (PRIVATE, PRIVATE_KIND) if is_private_prompt else ("", kind)
        texts.append(_public_bytes(text))
        kinds.append(kind)
    return kinds, texts


def _strip_message(speaker: str, kind: str, text: str) -> Stripped:
    return strip_tags(text, keep_code=speaker == "assistant", is_stored=kind == STORED)


def _rejoin_split_spans(joined: pl.DataFrame) -> pl.DataFrame:
    """Put a message back together that something else interrupts, if a span runs across the gap.

    Its parts stand apart in the file; a span that opens in one and closes in the next would otherwise show its end.
    """
    identity = ("speaker", "message_id")
    split = joined.filter(pl.len().over(identity) > 1)
    if split.is_empty():
        return joined
    replaced: dict[int, str] = {}
    for parts in split.partition_by(identity, maintain_order=True):
        speaker, kind = parts.select("speaker", "kind").row(0)
        texts = parts.get_column("text").to_list()
        whole = "\n\n".join(texts)
        apart = "\n\n".join(_strip_message(speaker, kind, text).text for text in texts)
        if _strip_message(speaker, kind, whole).text != apart:
            first, *others = parts.get_column("message").to_list()
            replaced |= {first: whole, **dict.fromkeys(others, "")}
    text = pl.col("message").replace_strict(replaced, default=pl.col("text"), return_dtype=pl.String)
    return joined.with_columns(text=text) if replaced else joined


def redact_observations(observations: pl.DataFrame, left_out: Counter[str]) -> pl.DataFrame:
    """PUBLIC rows from OBSERVATIONS with `turn`; each text is its bottle line without the `[#id]`."""
    texts = []
    for row in observations.select("type", "title", "subtitle", "narrative", "text", "is_guess").iter_rows(named=True):
        fields = {name: _strip(row[name], left_out) for name in ("type", "title", "subtitle", "narrative", "text")}
        line = observation_line(**fields)
        texts.append(f"{line} (matched by project and time only)" if row["is_guess"] else line)
    rows = observations.with_columns(
        public_text=pl.Series(texts, dtype=pl.String),
        message=pl.lit(None, pl.Int64),
        speaker=pl.lit("observation"),
        kind=pl.lit("observation"),
        ref=pl.col("observation_id"),
    )
    return conform(rows, PUBLIC)


def redact_summaries(summaries: pl.DataFrame, left_out: Counter[str]) -> pl.DataFrame:
    """PUBLIC rows from SUMMARIES with `turn`: `field: value` lines, further lines of a value indented."""
    texts = []
    for row in summaries.select(_SUMMARY_FIELDS).iter_rows(named=True):
        fields = [(name, _strip(row[name], left_out).strip()) for name in _SUMMARY_FIELDS]
        texts.append(
            "\n".join(
                f"{name.replace('_', ' ')}: " + "\n  ".join(value.splitlines()) for name, value in fields if value
            )
        )
    rows = summaries.with_columns(
        public_text=pl.Series(texts, dtype=pl.String),
        message=pl.lit(None, pl.Int64),
        speaker=pl.lit("summary"),
        kind=pl.lit("summary"),
        ref=pl.col("summary_id"),
    )
    return conform(rows.filter(pl.col("public_text") != ""), PUBLIC)


def public_next_steps(summaries: pl.DataFrame) -> list[tuple[int | None, str]]:
    """(at_ms, next steps or else request) of SUMMARIES that have one, oldest first."""
    ordered = summaries.sort("at_ms", "summary_id").select("at_ms", "next_steps", "request")
    found = ((at_ms, (_strip(steps) or _strip(request)).strip()) for at_ms, steps, request in ordered.iter_rows())
    return [(at_ms, text) for at_ms, text in found if text]


def redact_record(record: dict[str, Any]) -> dict[str, Any]:
    """Every text of one database row, fit for the screen. JSON lists and objects are decoded, then redacted inside."""
    return {name: _redact_value(_decoded(value)) for name, value in record.items()}


def _decoded(value: Any) -> Any:
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        # Malformed, but still readable: a tag may hide behind JSON's escapes.
        plain = _ESCAPE.sub(lambda match: json.loads(f'"{match.group()}"'), value)
        return plain if strip_tags(plain).private_spans else value


def _redact_value(value: Any) -> Any:
    if isinstance(value, str):
        return public(strip_tags(value).text)
    if isinstance(value, list):
        return [_redact_value(item) for item in value]
    if isinstance(value, dict):
        return {_redact_value(key): _redact_value(item) for key, item in value.items()}
    return value


def public(text: str) -> str:
    """Replace what no UTF-8 file should hold: NUL and lone surrogates become U+FFFD."""
    return _public_bytes(text).decode()


def _public_bytes(text: str) -> bytes:
    text = text.replace("\0", "\ufffd")
    try:
        return text.encode()
    except UnicodeEncodeError:
        # To look for them first would take many times longer than what most texts need.
        return _SURROGATE.sub("\ufffd", text).encode()


def public_line(text: str) -> str:
    """A name that a source gives, a folder's or a project's, fit for the disk: on one line, without private spans."""
    return one_line(strip_tags(text).text, 1000)


def _strip(text: str | None, left_out: Counter[str] | None = None) -> str:
    if not text:
        return ""
    stripped = strip_tags(text)
    if left_out is not None:
        _count(stripped, left_out)
    return public(stripped.text)


def _count(stripped: Stripped, left_out: Counter[str]) -> None:
    if stripped.private_spans or stripped.host_spans:
        left_out["private spans"] += stripped.private_spans
        left_out["injected texts"] += stripped.host_spans
