"""Stage `memory`: claude-mem's SQLite database in, PROMPTS, OBSERVATIONS, SUMMARIES and TOOL_USES out.

All of claude-mem's SQL is here; `database` runs it. What a database holds is decided by its tables and columns, never
by its version ledger. A problem never stops a render: it becomes a sentence for the bottle's header.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from bottlepipe.database import Database, Part, Problem, Row, ask, quote
from bottlepipe.frames import OBSERVATIONS, PROMPTS, SUMMARIES, TOOL_USES, Schema, empty
from bottlepipe.stored import is_cut
from bottlepipe.times import parse_ms

_PLATFORM = "claude"
_PROVIDERS = ("gemini", "openrouter")
# Beyond the year 9999 a number is no time.
_LAST_MS = 253_402_300_799_999
# Below it a number counts seconds.
_FIRST_MS = 1_000_000_000_000
_GUESS_AFTER_MS = 3600 * 1000

_TABLES = ("sdk_sessions", "user_prompts", "observations", "session_summaries", "tool_uses")


@dataclass(slots=True)
class Memory:
    """What the database holds of the sessions asked for.

    `problem` says why nothing could be read, `notes` what else a reader of the bottle should know; `projects` and
    `row_ids` are claude-mem's project name and its session rows, preferred row first, by session id.
    """

    prompts: pl.DataFrame = field(default_factory=lambda: empty(PROMPTS))
    observations: pl.DataFrame = field(default_factory=lambda: empty(OBSERVATIONS))
    summaries: pl.DataFrame = field(default_factory=lambda: empty(SUMMARIES))
    tool_uses: pl.DataFrame = field(default_factory=lambda: empty(TOOL_USES))
    projects: dict[str, str] = field(default_factory=dict)
    row_ids: dict[str, list[int]] = field(default_factory=dict)
    problem: str = ""
    notes: list[str] = field(default_factory=list)
    is_empty: bool = False


def read_memory(database: Path, session_ids: Sequence[str], *, guess_orphans: bool = False) -> Memory:
    """Read everything stored about `session_ids`. Never raises for a bad database: see `Memory.problem`.

    With `guess_orphans`, observations whose session row is lost are also matched by project and time span, marked
    `is_guess`.
    """
    notes: list[str] = []
    found, problem = ask(
        database, lambda db: _read_sessions(_Store(db), session_ids, guess_orphans=guess_orphans), notes
    )
    memory = found or Memory()
    memory.problem, memory.notes = problem, notes
    return memory


def read_observation(database: Path, observation_id: int) -> tuple[dict[str, Any] | None, str]:
    """Return every column of one observation as (row or None, problem). Times are as stored."""

    def query(database: Database) -> Row | None:
        db = _Store(database)
        columns = sorted(db.columns.get("observations", ()))
        selected = {name: f"o.{quote(name)}" for name in columns}
        (rows,) = db.query([Part(selected, f"FROM observations o WHERE o.id {_IN}")], [observation_id])
        return rows[0] if rows else None

    return ask(database, query, [])


def read_stored_sessions(database: Path) -> tuple[list[dict[str, Any]], str]:
    """Return one row per stored session (session_id, project, prompts, at_ms of the last activity), and the problem."""

    def query(database: Database) -> list[Row]:
        db = _Store(database)
        content = db.content_id("sdk_sessions")
        of_session = f"FROM user_prompts p WHERE p.{db.content_id('user_prompts')} = s.{content}"
        has_prompts = db.has("user_prompts", db.content_id("user_prompts"))
        last = (
            f"(SELECT max({db.column('user_prompts', 'p', 'created_at_epoch')}) {of_session})" if has_prompts else "0"
        )
        started = db.column("sdk_sessions", "s", "started_at_epoch")
        selected = {
            **_session_columns(db),
            "prompts": f"(SELECT count(*) {of_session})" if has_prompts else "0",
            "epoch": f"max(coalesce({started}, 0), coalesce({last}, 0))",
            "created_at": db.column("sdk_sessions", "s", "started_at"),
        }
        by_session: dict[str, Row] = {}
        (found,) = db.query([Part(selected, "FROM sdk_sessions s")])
        for row in _preferred_first(found):
            if row["session_id"] is not None:
                by_session.setdefault(row["session_id"], row)
        return [
            {
                "session_id": row["session_id"],
                "project": row["project"],
                "prompts": _int(row["prompts"]) or 0,
                "at_ms": _time(row["epoch"], row["created_at"]),
            }
            for row in sorted(by_session.values(), key=lambda row: _number_order(row["row_id"]))
        ]

    rows, problem = ask(database, query, [])
    return rows or [], problem


class _Store:
    """What a claude-mem database holds, decided by its tables and columns."""

    def __init__(self, database: Database) -> None:
        self.query = database.query
        self.columns = database.columns_of(_TABLES)
        if not all(
            self.has(table, column)
            for table in ("sdk_sessions", "observations")
            for column in ("id", self.content_id(table) if table == "sdk_sessions" else self.memory_id(table))
        ):
            raise Problem("this is no claude-mem database of version 4 or later (its tables are missing)")

    def content_id(self, table: str) -> str:
        """The column with Claude Code's session id; its name before 8.2.6 was claude_session_id."""
        return "content_session_id" if "content_session_id" in self.columns.get(table, ()) else "claude_session_id"

    def memory_id(self, table: str) -> str:
        """The column with the observer's session id; its name before 8.2.6 was sdk_session_id."""
        return "memory_session_id" if "memory_session_id" in self.columns.get(table, ()) else "sdk_session_id"

    def has(self, table: str, column: str) -> bool:
        return column in self.columns.get(table, ())

    def column(self, table: str, alias: str, name: str) -> str:
        return f"{alias}.{name}" if self.has(table, name) else "NULL"


_IN = "IN (SELECT value FROM json_each(?1))"


def _read_sessions(db: _Store, session_ids: Sequence[str], *, guess_orphans: bool) -> Memory:
    memory = Memory()
    by_session = {
        "sessions": _sessions_part(db),
        "any session": Part({"row_id": "first.id"}, "FROM (SELECT id FROM sdk_sessions LIMIT 1) first"),
        "prompts": _prompts_part(db),
        "tool uses": _tool_uses_part(db),
        "memory ids": _memory_ids_part(db),
        "observations": _content_part(db, "observations", _observation_columns(db)),
        "summaries": _content_part(db, "session_summaries", _summary_columns(db)),
    }
    found = _query(db, by_session, session_ids)
    sessions = _preferred_first(found["sessions"])
    for row in sessions:
        memory.row_ids.setdefault(row["session_id"], []).append(row["row_id"])
        if row["project"]:
            memory.projects.setdefault(row["session_id"], row["project"])
    memory.is_empty = not found["any session"]
    preferred = {session_id: ids[0] for session_id, ids in memory.row_ids.items()}
    prompts = _prompts(found["prompts"], preferred)
    tool_uses = _tool_uses(found["tool uses"])
    links = _links(session_ids, sessions, found["memory ids"], tool_uses)
    by_memory = {
        "observations": _memory_part(db, "observations", _observation_columns(db)),
        "summaries": _memory_part(db, "session_summaries", _summary_columns(db)),
    }
    linked = _query(db, by_memory, list(links))
    observations = [*_linked(linked["observations"], links), *found["observations"]]
    observations += _anchored(db, observations, tool_uses)
    if guess_orphans:
        observations += _guessed(db, prompts, memory.projects)
    summaries = [*_linked(linked["summaries"], links), *found["summaries"]]
    memory.prompts = _frame(prompts, PROMPTS)
    memory.observations = _frame(_finish(observations, "observation_id", preferred), OBSERVATIONS)
    memory.summaries = _frame(_finish(summaries, "summary_id", preferred), SUMMARIES)
    memory.tool_uses = _frame(tool_uses, TOOL_USES)
    return memory


def _query(db: _Store, parts: Mapping[str, Part | None], values: Sequence[str | int]) -> dict[str, list[Row]]:
    """The rows of each part, none for a part that this database cannot answer."""
    asked = {name: part for name, part in parts.items() if part is not None}
    found = db.query(list(asked.values()), values)
    return {**{name: [] for name in parts}, **dict(zip(asked, found, strict=True))}


def _frame(rows: Sequence[Row], schema: Schema) -> pl.DataFrame:
    return pl.DataFrame([pl.Series(name, [row[name] for row in rows], dtype) for name, dtype in schema.items()])


def _sessions_part(db: _Store) -> Part:
    return Part(_session_columns(db), f"FROM sdk_sessions s WHERE s.{db.content_id('sdk_sessions')} {_IN}")


def _session_columns(db: _Store) -> dict[str, str]:
    return {
        "session_id": f"s.{db.content_id('sdk_sessions')}",
        "row_id": "s.id",
        "memory_id": db.column("sdk_sessions", "s", db.memory_id("sdk_sessions")),
        "project": db.column("sdk_sessions", "s", "project"),
        "platform": db.column("sdk_sessions", "s", "platform_source"),
    }


def _preferred_first(rows: list[Row]) -> list[Row]:
    """Session rows, Claude's first, then by id: several platforms may share one session id."""
    for row in rows:
        row["row_id"] = _int(row["row_id"])

    def order(row: Row) -> tuple[bool, tuple[bool, int]]:
        return (row["platform"] or "").strip().lower() not in ("", _PLATFORM), _number_order(row["row_id"])

    return sorted(rows, key=order)


def _prompts_part(db: _Store) -> Part | None:
    content = db.content_id("user_prompts")
    if not db.has("user_prompts", content):
        return None
    columns = {
        "session_id": f"p.{content}",
        "session_db_id": db.column("user_prompts", "p", "session_db_id"),
        "prompt_id": "p.id",
        **{name: db.column("user_prompts", "p", name) for name in ("prompt_number", "created_at")},
        "text": db.column("user_prompts", "p", "prompt_text"),
        "epoch": db.column("user_prompts", "p", "created_at_epoch"),
    }
    return Part(columns, f"FROM user_prompts p WHERE p.{content} {_IN}")


def _prompts(rows: list[Row], preferred: Mapping[str, int | None]) -> list[Row]:
    for row in rows:
        row["text"] = row["text"] or ""
        row["was_cut"] = is_cut(row["text"])
        row["at_ms"] = _time(row["epoch"], row["created_at"])
        for name in ("session_db_id", "prompt_id", "prompt_number"):
            row[name] = _int(row[name])
        if row["session_db_id"] is None:
            # Then the prompt belongs to the preferred row of its session.
            row["session_db_id"] = preferred.get(row["session_id"])
    return sorted(rows, key=lambda row: (row["session_id"], _number_order(row["prompt_id"])))


def _tool_uses_part(db: _Store) -> Part | None:
    if not db.has("tool_uses", "content_session_id"):
        return None
    columns = {
        "session_id": "t.content_session_id",
        "row_id": db.column("tool_uses", "t", "id"),
        "tool_use_id": db.column("tool_uses", "t", "tool_use_id"),
        "observation_id": db.column("tool_uses", "t", "observation_id"),
        "memory_id": db.column("tool_uses", "t", "memory_session_id"),
        "session_db_id": db.column("tool_uses", "t", "session_db_id"),
    }
    return Part(columns, f"FROM tool_uses t WHERE t.content_session_id {_IN}")


def _tool_uses(rows: list[Row]) -> list[Row]:
    for row in rows:
        for name in ("row_id", "observation_id", "session_db_id"):
            row[name] = _int(row[name])
    return sorted(rows, key=lambda row: _number_order(row["row_id"]))


def _memory_ids_part(db: _Store) -> Part:
    """Memory ids that contain a session id: Gemini's and OpenRouter's observers are <provider>-<session id>-<ms>."""
    ranges = " UNION ALL ".join(
        f"SELECT j.value AS session_id, r.{db.memory_id(table)} AS memory_id FROM json_each(?1) j CROSS JOIN {table} r"
        f" ON r.{db.memory_id(table)} >= '{provider}-' || j.value || '-'"
        f" AND r.{db.memory_id(table)} < '{provider}-' || j.value || '.'"
        f" AND substr(r.{db.memory_id(table)}, length('{provider}-' || j.value || '-') + 1) NOT GLOB '*[^0-9]*'"
        for table in ("observations", "session_summaries")
        if db.has(table, db.memory_id(table))
        for provider in _PROVIDERS
    )
    columns = {"session_id": "found.session_id", "memory_id": "found.memory_id"}
    return Part(columns, f"FROM (SELECT DISTINCT session_id, memory_id FROM ({ranges})) found")


# memory id → session id → the session row through which the one belongs to the other, if any.
_Links = dict[str, dict[str, int | None]]


def _links(
    session_ids: Sequence[str], sessions: Sequence[Row], memory_ids: Sequence[Row], tool_uses: Sequence[Row]
) -> _Links:
    """Which memory ids are whose, by every path that survives a lost session row.

    Every session is judged as if it were the only one asked for: two may claim one memory id.
    """
    links: _Links = {}

    def link(memory_id: str | None, session_id: str, session_db_id: int | None) -> None:
        if memory_id:
            links.setdefault(memory_id, {}).setdefault(session_id, session_db_id)

    for row in sessions:
        link(row["memory_id"], row["session_id"], row["row_id"])
    for session_id in session_ids:
        link(session_id, session_id, None)
    for row in memory_ids:
        link(row["memory_id"], row["session_id"], None)
    for row in tool_uses:
        link(row["memory_id"], row["session_id"], row["session_db_id"])
    return links


def _memory_part(db: _Store, table: str, columns: Mapping[str, str]) -> Part | None:
    """Rows of `table` by the memory id that they are stored under."""
    memory_id = db.memory_id(table)
    return Part(columns, f"FROM {table} r WHERE r.{memory_id} {_IN}") if db.has(table, memory_id) else None


def _linked(rows: Sequence[Row], owners: Mapping[Any, Mapping[str, int | None]], key: str = "memory_id") -> list[Row]:
    """Each row once for each session that owns it, by what the row has in `key`."""
    return [
        row | {"session_id": session_id, "session_db_id": session_db_id}
        for row in rows
        for session_id, session_db_id in owners.get(row[key], {}).items()
    ]


def _content_part(db: _Store, table: str, columns: Mapping[str, str]) -> Part | None:
    """Rows of `table` by a session id of their own, which they have in one line of claude-mem's versions."""
    if not (db.has(table, "content_session_id") and db.has(table, db.memory_id(table))):
        return None
    columns = {**columns, "session_id": "r.content_session_id", "session_db_id": "NULL"}
    return Part(columns, f"FROM {table} r WHERE r.content_session_id {_IN}")


def _observation_columns(db: _Store) -> dict[str, str]:
    return _columns(db, "observations", "observation_id", ("type", "title", "subtitle", "narrative", "text"))


def _summary_columns(db: _Store) -> dict[str, str]:
    names = ("request", "investigated", "learned", "completed", "next_steps", "notes")
    return _columns(db, "session_summaries", "summary_id", names)


def _columns(db: _Store, table: str, key: str, names: Sequence[str]) -> dict[str, str]:
    return {
        "memory_id": f"r.{db.memory_id(table)}",
        key: "r.id",
        "epoch": db.column(table, "r", "created_at_epoch"),
        **{name: db.column(table, "r", name) for name in ("prompt_number", "created_at", *names)},
    }


def _anchored(db: _Store, observations: Sequence[Row], tool_uses: Sequence[Row]) -> list[Row]:
    """Observations that only a tool use knows of."""
    known = {(row["session_id"], _int(row["observation_id"])) for row in observations}
    anchors: dict[int, dict[str, int | None]] = {}
    for use in tool_uses:
        if use["observation_id"] is not None and (use["session_id"], use["observation_id"]) not in known:
            anchors.setdefault(use["observation_id"], {}).setdefault(use["session_id"], use["session_db_id"])
    if not anchors:
        return []
    (rows,) = db.query([Part(_observation_columns(db), f"FROM observations r WHERE r.id {_IN}")], list(anchors))
    for row in rows:
        row["observation_id"] = _int(row["observation_id"])
    return _linked(rows, anchors, "observation_id")


def _finish(rows: Sequence[Row], key: str, preferred: Mapping[str, int | None]) -> list[Row]:
    """Read the numbers, keep each row once per session, and order them by session, time, id."""
    once: dict[tuple[str, int | None], Row] = {}
    for row in rows:
        row[key] = _int(row[key])
        if once.setdefault((row["session_id"], row[key]), row) is not row:
            continue
        row["prompt_number"] = _int(row["prompt_number"])
        row["at_ms"] = _time(row["epoch"], row["created_at"])
        if row["session_db_id"] is None:
            row["session_db_id"] = preferred.get(row["session_id"])
        row.setdefault("is_guess", False)
    return sorted(
        once.values(), key=lambda row: (row["session_id"], _number_order(row["at_ms"]), _number_order(row[key]))
    )


def _guessed(db: _Store, prompts: Sequence[Row], projects: Mapping[str, str]) -> list[Row]:
    """Observations of no known session, made in a session's project between its first and last prompt."""
    if not (db.has("observations", "project") and db.has("observations", "created_at_epoch")):
        return []
    memory_id = f"r.{db.memory_id('observations')}"
    owners = [
        f"SELECT 1 FROM sdk_sessions s WHERE s.{column} = {memory_id}"
        for column in (db.memory_id("sdk_sessions"), db.content_id("sdk_sessions"))
        if db.has("sdk_sessions", column)
    ]
    owners += [
        f"SELECT 1 FROM tool_uses t WHERE t.{column} = {value}"
        for column, value in (("memory_session_id", memory_id), ("observation_id", "r.id"))
        if db.has("tool_uses", column)
    ]
    is_lost = " AND ".join(
        [
            *(f"NOT EXISTS ({owner})" for owner in owners),
            *(f"{memory_id} NOT GLOB '{provider}-*'" for provider in (*_PROVIDERS, "manual")),
            f"+{db.column('observations', 'r', 'content_session_id')} IS NULL",
        ]
    )
    window = ", ".join(
        f"json_extract(?1, '$[{index}]') AS {name}" for index, name in enumerate(("project", "low", "high"))
    )
    # Old rows may count in seconds. A `+` keeps SQLite from an index that most rows have in common: the time has one.
    rest = (
        f"FROM (SELECT {window}) w CROSS JOIN observations r WHERE +r.project = w.project"
        f" AND (r.created_at_epoch BETWEEN max(w.low, {_FIRST_MS}) AND w.high"
        f" OR r.created_at_epoch BETWEEN w.low / 1000.0 AND w.high / 1000.0) AND {is_lost}"
    )
    times: dict[str, list[int]] = {}
    for prompt in prompts:
        if prompt["at_ms"] is not None:
            times.setdefault(prompt["session_id"], []).append(prompt["at_ms"])
    return [
        {**row, "session_id": session_id, "session_db_id": None, "is_guess": True}
        for session_id, prompted in times.items()
        if session_id in projects
        for row in db.query(
            [Part(_observation_columns(db), rest)],
            [projects[session_id], min(prompted), max(prompted) + _GUESS_AFTER_MS],
        )[0]
    ]


def _int(text: str | int | None) -> int | None:
    """An integer out of a text cell, None where it is none: ids and numbers may be mistyped."""
    if isinstance(text, int):
        return text
    try:
        value = int(text or "")
    except ValueError:
        try:
            value = int(float(text or ""))
        except (ValueError, OverflowError):
            return None
    return value if -(1 << 63) <= value < 1 << 63 else None


def _number_order(number: int | None) -> tuple[bool, int]:
    """Sorts numbers, None last."""
    return number is None, number or 0


def _time(epoch: str | None, text: str | None) -> int | None:
    """Milliseconds. Epochs are that, in some old rows seconds; the ISO text is the fallback."""
    value = _int(epoch) or 0
    if 0 < value < _FIRST_MS:
        value *= 1000
    return value if 0 < value <= _LAST_MS else parse_ms(text)
