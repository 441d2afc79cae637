"""The Python API. Nothing here writes a file; text is redacted unless `raw=True` is asked for.

>>> import bottlepipe
>>> bottle = bottlepipe.render("fixtures/first-session/transcript.jsonl")
>>> bottle.mode, bottle.user_turns
('full', 3)
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from bottlepipe.bottle import Bottle
from bottlepipe.errors import BottlepipeError, SourceUnreadable
from bottlepipe.locate import Found, find_transcripts, ref_of_file
from bottlepipe.memory import read_memory
from bottlepipe.pipeline import Options, locate_source, read_conversation, render_sessions
from bottlepipe.redact import join_blocks, public, redact_messages
from bottlepipe.settings import Settings, read_settings, render_time
from bottlepipe.tags import strip_tags


def render(
    source: str | os.PathLike[str],
    *,
    database: str | os.PathLike[str] | None = None,
    use_database: bool = True,
    all_branches: bool = False,
    settings: Settings | None = None,
) -> Bottle:
    """Render one session: a transcript file, or a session id (or a prefix of 6 characters).

    `database` names a claude-mem database; without it the one of `settings` is read, if it exists; with
    `use_database=False` none is. `settings` default to those of the environment. Raises a BottlepipeError: UsageError
    for an unsafe or ambiguous id, NothingToRender when there is neither a transcript nor a stored row,
    SourceUnreadable when the file cannot be read.
    """
    settings = settings or read_settings()
    chosen = Path(database or settings.database) if use_database else None
    ref = locate_source(source, settings, chosen)
    options = Options(database=chosen, all_branches=all_branches, allow_excluded=True)
    (rendered,) = render_sessions([ref], settings, options, render_time(settings))
    if isinstance(rendered, BottlepipeError):
        raise rendered
    return rendered


def read_messages(path: str | os.PathLike[str], *, raw: bool = False) -> pl.DataFrame:
    """The conversation in a transcript, one row per message in file order, repeated entries dropped.

    Columns: session_id, turn (0 before the first user message), message, speaker (user, assistant, notice), kind, text,
    at_ms (Unix milliseconds, null without a timestamp), branch (0 on the active branch, else the number of the rewound
    one). With `raw` private spans are left in. Raises NothingToRender or SourceUnreadable when the file is missing or
    cannot be read.
    """
    numbered = read_conversation(ref_of_file(Path(path)))
    joined = join_blocks(numbered)
    messages = joined if raw else redact_messages(numbered, Counter()).rename({"public_text": "text"})
    branches = joined.select("message", "branch")
    columns = ("session_id", "turn", "message", "speaker", "kind", "text", "at_ms")
    return messages.select(columns).join(branches, on="message", how="left", maintain_order="left")


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
