"""The Python API. Nothing here writes a file; text is redacted unless `raw=True` is asked for.

>>> import bottlepipe
>>> bottle = bottlepipe.render("fixtures/first-session/transcript.jsonl")
>>> bottle.mode, bottle.user_turns
('full', 3)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from bottlepipe.bottle import Bottle
from bottlepipe.branch import find_branches, mark_branches
from bottlepipe.classify import classify_entries
from bottlepipe.envelopes import COMPACT_SUMMARY
from bottlepipe.errors import BottlepipeError, SourceUnreadable
from bottlepipe.locate import Found, SessionRef, find_transcripts, locate_session, ref_of_file
from bottlepipe.memory import read_memory
from bottlepipe.number import number_messages
from bottlepipe.pipeline import Options, render_sessions
from bottlepipe.read import open_transcript, read_entries
from bottlepipe.redact import public
from bottlepipe.settings import Settings, read_settings, render_time
from bottlepipe.tags import strip_tags


def render(
    source: str | os.PathLike[str],
    *,
    database: str | os.PathLike[str] | None = None,
    all_branches: bool = False,
    settings: Settings | None = None,
) -> Bottle:
    """Render one session: a transcript file, or a session id (or a prefix of 6 characters) that Claude Code knows.

    `database` names a claude-mem database; without it the one of `settings` is read, if it exists. `settings` default
    to those of the environment. Raises a BottlepipeError: UsageError for an unsafe or ambiguous id, NothingToRender
    when there is neither a transcript nor a stored row, SourceUnreadable when the file cannot be read.
    """
    settings = settings or read_settings()
    ref = _ref(source, settings)
    options = Options(
        database=Path(database) if database else settings.database, all_branches=all_branches, allow_excluded=True
    )
    (rendered,) = render_sessions([ref], settings, options, render_time(settings))
    if isinstance(rendered, BottlepipeError):
        raise rendered
    return rendered


def _ref(source: str | os.PathLike[str], settings: Settings) -> SessionRef:
    path = Path(source)
    if isinstance(source, str) and not path.exists() and path.suffix != ".jsonl" and path.name == source:
        return locate_session(settings, source)
    return ref_of_file(path)


def read_messages(path: str | os.PathLike[str], *, raw: bool = False) -> pl.DataFrame:
    """The conversation in a transcript, one row per text block in file order, repeated entries dropped.

    Columns: session_id, seq (file order), speaker (user, assistant, notice), kind, text, at_ms (Unix milliseconds,
    null without a timestamp), message_id, branch (0 on the active branch), message, turn. With `raw` private spans are
    left in. Raises NothingToRender or SourceUnreadable when the file is missing or unreadable.
    """
    ref = ref_of_file(Path(path))
    with open_transcript(Path(path)) as file:
        classified = classify_entries(read_entries(file, os.fstat(file.fileno()).st_size), ref.bottle_id)
    messages = mark_branches(classified.messages, find_branches(classified.tree))
    numbered = number_messages(messages.filter(pl.col("kind") != COMPACT_SUMMARY)).drop("entry")
    return numbered if raw else _redact_column(numbered)


def _redact_column(numbered: pl.DataFrame) -> pl.DataFrame:
    """Strip each message as a whole. A message in which something was hidden keeps its text in its first row."""
    texts: list[str] = []
    for rows in numbered.partition_by("message", maintain_order=True):
        parts = rows.get_column("text").to_list()
        whole = "\n\n".join(parts)
        stripped = public(strip_tags(whole, keep_code=rows.get_column("speaker")[0] == "assistant").text)
        texts.extend(
            [public(part) for part in parts] if stripped == public(whole) else [stripped, *[""] * (len(parts) - 1)]
        )
    return numbered.with_columns(text=pl.Series(texts, dtype=pl.String))


def read_observations(
    database: str | os.PathLike[str], session_ids: str | Sequence[str], *, raw: bool = False
) -> pl.DataFrame:
    """claude-mem's observations of one or more sessions, ordered by session, time and id.

    Columns: session_id, session_db_id, observation_id, prompt_number, at_ms, type, title, subtitle, narrative, text,
    is_guess. With `raw` private spans are left in. Raises SourceUnreadable when the database cannot be read.
    """
    ids = [session_ids] if isinstance(session_ids, str) else list(session_ids)
    memory = read_memory(Path(database), ids)
    if memory.problem:
        raise SourceUnreadable(f"{database}: {memory.problem}", hint="name claude-mem's claude-mem.db")
    if raw:
        return memory.observations
    strip = pl.col("type", "title", "subtitle", "narrative", "text")
    return memory.observations.with_columns(
        strip.map_elements(lambda text: public(strip_tags(text).text), return_dtype=pl.String)
    )


def find_sessions(settings: Settings | None = None) -> list[Found]:
    """Every main transcript that Claude Code keeps, newest first."""
    return find_transcripts(settings or read_settings())
