"""Stage `memory`: claude-mem's SQLite database in, PROMPTS, OBSERVATIONS, SUMMARIES and TOOL_USES out.

All SQL is here, read-only, through DuckDB's SQLite scanner. What a database holds is decided by its tables and columns,
never by its version ledger. A problem never stops a render: it becomes a sentence for the bottle's header.

Why `sqlite_query` and not a scan: the scanner pushes no filter down, so one session out of a million observations costs
2,246 ms scanned and 1.8 ms asked for by index. Its columns come as text and are cast here without failing.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from bottlepipe.frames import OBSERVATIONS, PROMPTS, SUMMARIES, TOOL_USES, conform, empty, frame
from bottlepipe.stored import is_cut
from bottlepipe.times import parse_ms

if TYPE_CHECKING:
    import duckdb

WAIT_S = 2.0
_COPY_LIMIT = 1 << 30
_SQLITE_MAGIC = b"SQLite format 3\x00"
_PLATFORM = "claude"

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


class _Problem(Exception):
    """The database cannot be read; the text says why."""


class _Busy(Exception):
    """Somebody holds a lock: worth another try."""


class _Malformed(Exception):
    """SQLite says the database is damaged."""


class _Unopenable(Exception):
    """SQLite could not open it, usually because it cannot make a `-shm` file in the folder."""


def read_memory(database: Path, session_ids: Sequence[str], *, guess_orphans: bool = False) -> Memory:
    """Read everything stored about `session_ids`. Never raises for a bad database: see `Memory.problem`.

    With `guess_orphans`, observations whose session row is lost are also matched by project and time span, marked
    `is_guess`.
    """
    memory = Memory()

    def query(db: _Database) -> None:
        found = _read_sessions(db, session_ids, guess_orphans=guess_orphans)
        memory.prompts, memory.observations, memory.summaries = found.prompts, found.observations, found.summaries
        memory.tool_uses, memory.projects, memory.row_ids = found.tool_uses, found.projects, found.row_ids
        memory.is_empty = found.is_empty

    memory.problem = _with_database(database, query, memory.notes)
    return memory


def read_observation(database: Path, observation_id: int) -> tuple[dict[str, Any] | None, str]:
    """Return every column of one observation as (row or None, problem). Times are as stored."""
    rows: list[dict[str, Any]] = []

    def query(db: _Database) -> None:
        columns = sorted(db.columns.get("observations", ()))
        selected = {name: f"o.{_quote(name)}" for name in columns}
        rows.extend(
            db.query(
                selected, "FROM observations o WHERE o.id = (SELECT value FROM json_each(?))", [observation_id]
            ).to_dicts()
        )

    problem = _with_database(database, query, [])
    return (rows[0] if rows else None), problem


def read_stored_sessions(database: Path) -> tuple[list[dict[str, Any]], str]:
    """Return one row per stored session: session_id, project, at_ms (last activity), prompts; and the problem, if any."""
    rows: list[dict[str, Any]] = []

    def query(db: _Database) -> None:
        content = db.content_id("sdk_sessions")
        has_prompts = "user_prompts" in db.columns
        prompts = (
            f"(SELECT count(*) FROM user_prompts p WHERE p.{db.content_id('user_prompts')} = s.{content})"
            if has_prompts
            else "0"
        )
        last = (
            f"(SELECT max(created_at_epoch) FROM user_prompts p WHERE p.{db.content_id('user_prompts')} = s.{content})"
            if has_prompts
            else "NULL"
        )
        selected = {
            "session_id": f"s.{content}",
            "project": "s.project",
            "prompts": prompts,
            "epoch": f"max(s.started_at_epoch, coalesce({last}, 0))",
            "created_at": "s.started_at",
        }
        found = _with_times(db.query(selected, "FROM sdk_sessions s ORDER BY s.id", None))
        seen = set()
        for row in found.iter_rows(named=True):
            if row["session_id"] not in seen:
                seen.add(row["session_id"])
                rows.append({**row, "prompts": int(row["prompts"] or 0)})

    problem = _with_database(database, query, [])
    return rows, problem


def _with_database(database: Path, query: Callable[[_Database], None], notes: list[str]) -> str:
    """Run `query` on the database within the bounded wait; return the problem, "" for none."""
    try:
        _check_file(database)
        try:
            _retry_while_busy(lambda: _run(database, query))
        except _Unopenable:
            with _private_copy(database, with_wal=True) as copy:
                _retry_while_busy(lambda: _run(copy, query))
        except _Malformed:
            if not _wal_of(database).exists():
                raise
            # Damage is often in the -wal alone; what was checkpointed before it is sound.
            with _private_copy(database, with_wal=False) as copy:
                _retry_while_busy(lambda: _run(copy, query))
            notes.append("claude-mem's write-ahead log is damaged; only what was checkpointed before could be read")
    except _Problem as problem:
        return str(problem)
    except _Busy:
        return f"claude-mem's database stayed locked for {WAIT_S:g} s"
    except _Malformed:
        return "claude-mem's database is damaged"
    except _Unopenable:
        return "claude-mem's database cannot be opened"
    except OSError as error:
        return f"claude-mem's database cannot be read: {error.strerror or error}"
    return ""


def _check_file(database: Path) -> None:
    try:
        about = database.stat()
        if stat.S_ISDIR(about.st_mode):
            raise _Problem("claude-mem's database is a folder")
        if not stat.S_ISREG(about.st_mode):
            raise _Problem("claude-mem's database is not a regular file")
        with open(database, "rb") as file:
            start = file.read(len(_SQLITE_MAGIC))
    except FileNotFoundError:
        raise _Problem("claude-mem has no database here") from None
    except PermissionError:
        raise _Problem("claude-mem's database may not be read: permission denied") from None
    if not start:
        if _wal_of(database).exists():
            return
        raise _Problem("claude-mem's database is empty")
    if start != _SQLITE_MAGIC:
        raise _Problem("claude-mem's database file is not a SQLite database")


def _wal_of(database: Path) -> Path:
    return database.with_name(database.name + "-wal")


def _retry_while_busy(run: Callable[[], None]) -> None:
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return run()
        except _Busy:
            if time.monotonic() + 0.05 >= deadline:
                raise
            time.sleep(0.05)


def _run(database: Path, query: Callable[[_Database], None]) -> None:
    with _connect() as connection, _translate_errors():
        # A busy timeout of SQLite's own cannot be bounded through DuckDB: fail at once and try again from here.
        connection.execute(f"ATTACH {_literal(str(database))} AS claude_mem (TYPE sqlite, READ_ONLY, BUSY_TIMEOUT 1)")
        connection.begin()
        db = _Database(connection)
        if not {"sdk_sessions", "observations"} <= db.columns.keys():
            raise _Problem("this is no claude-mem database of version 4 or later (its tables are missing)")
        query(db)


@contextlib.contextmanager
def _connect() -> Iterator[duckdb.DuckDBPyConnection]:
    import duckdb

    connection = duckdb.connect(
        ":memory:",
        config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "threads": "1"},
    )
    try:
        extension = _extension_path(duckdb.__version__)
        if extension is None:
            raise _Problem("DuckDB's SQLite extension is not installed (package duckdb-extension-sqlite-scanner)")
        try:
            connection.execute(f"LOAD {_literal(str(extension))}")
        except duckdb.Error as error:
            raise _Problem(f"DuckDB's SQLite extension was refused: {_first_line(error)}") from None
        yield connection
    finally:
        connection.close()


def _extension_path(version: str) -> Path | None:
    """The signed extension that the wheel brought. By file, since loading by name would ask the network."""
    try:
        import duckdb_extension_sqlite_scanner as package
    except ImportError:
        return None
    path = Path(next(iter(package.__path__))) / "extensions" / f"v{version}" / "sqlite_scanner.duckdb_extension"
    return path if path.is_file() else None


@contextlib.contextmanager
def _translate_errors() -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        text = str(error).lower()
        if "locked" in text or "busy" in text:
            raise _Busy from None
        if "malformed" in text or "corrupt" in text or "not a database" in text or "disk image" in text:
            raise _Malformed from None
        if "unable to open" in text or "readonly" in text or "read-only" in text or "cannot open" in text:
            raise _Unopenable from None
        raise _Problem(f"claude-mem's database cannot be read: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextlib.contextmanager
def _private_copy(database: Path, *, with_wal: bool) -> Iterator[Path]:
    """A copy of the database (and its -wal, never its -shm) in a folder only this user can enter."""
    sources = [database, *([_wal_of(database)] if with_wal and _wal_of(database).exists() else [])]
    if sum(source.stat().st_size for source in sources) > _COPY_LIMIT:
        raise _Problem("claude-mem's folder cannot be written and its database is too large to read from a copy")
    folder = Path(tempfile.mkdtemp(prefix="bottlepipe-db-"))
    try:
        for _ in range(3):
            before = [_fingerprint(source) for source in sources]
            for source in sources:
                shutil.copyfile(source, folder / source.name)
            if before == [_fingerprint(source) for source in sources]:
                break
        yield folder / database.name
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fingerprint(path: Path) -> tuple[int, int, int]:
    about = os.stat(path)
    return about.st_ino, about.st_size, about.st_mtime_ns


class _Database:
    """An attached claude-mem database: its real tables (views do not count) and their columns."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self.columns: dict[str, set[str]] = {}
        sql = "SELECT m.name AS t, p.name AS c FROM sqlite_master m, pragma_table_info(m.name) p WHERE m.type = 'table'"
        for table, column in connection.execute("SELECT * FROM sqlite_query('claude_mem', ?)", [sql]).fetchall():
            if table in _TABLES:
                self.columns.setdefault(table, set()).add(column)

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

    def query(self, selected: Mapping[str, str], rest: str, values: Sequence[str | int] | None) -> pl.DataFrame:
        """Run one SELECT inside SQLite with a bound list of values; every column comes back as text.

        Cells that are no UTF-8 make the whole query fail; then it is asked again in hex and decoded with replacement.
        """
        import duckdb

        plain = ", ".join(f"CAST({source} AS TEXT) AS {_quote(name)}" for name, source in selected.items())
        try:
            return self._frame(f"SELECT {plain} {rest}", values)
        except duckdb.Error as error:
            if not any(word in str(error).lower() for word in ("utf", "unicode", "invalid", "blob", "mismatch")):
                raise
        hexed = ", ".join(
            f"hex(CAST({source} AS BLOB)) AS {_quote(name)}, {source} IS NULL AS {_quote(name + ' null')}"
            for name, source in selected.items()
        )
        rows = self._frame(f"SELECT {hexed} {rest}", values)
        decoded = []
        for row in rows.iter_rows():
            cells = zip(row[::2], row[1::2], strict=True)
            decoded.append(
                [
                    None if int(is_null) else bytes.fromhex(cell or "").decode("utf-8", "replace")
                    for cell, is_null in cells
                ]
            )
        return frame(decoded, dict.fromkeys(selected, pl.String))

    def _frame(self, sql: str, values: Sequence[str | int] | None) -> pl.DataFrame:
        if values is None:
            relation = self._connection.sql("SELECT * FROM sqlite_query('claude_mem', $sql)", params={"sql": sql})
        else:
            relation = self._connection.sql(
                "SELECT * FROM sqlite_query('claude_mem', $sql, params=row($values))",
                params={"sql": sql, "values": json.dumps(list(values))},
            )
        result = pl.DataFrame(relation)
        return result.select(pl.all().cast(pl.String))


_IN = "IN (SELECT value FROM json_each(?))"


def _read_sessions(db: _Database, session_ids: Sequence[str], *, guess_orphans: bool) -> Memory:
    memory = Memory()
    sessions = _session_rows(db, session_ids)
    for row in sessions.iter_rows(named=True):
        memory.row_ids.setdefault(row["session_id"], []).append(row["row_id"])
        if row["project"]:
            memory.projects.setdefault(row["session_id"], row["project"])
    memory.is_empty = db.query({"n": "count(*)"}, "FROM sdk_sessions", None).item() == "0"
    memory.prompts = _prompts(db, session_ids, sessions)
    tool_uses = _tool_uses(db, session_ids)
    memory.tool_uses = conform(tool_uses, TOOL_USES)
    links = _memory_links(db, session_ids, sessions, tool_uses)
    memory.observations = _observations(db, session_ids, links, tool_uses, memory)
    memory.summaries = _summaries(db, session_ids, links, memory)
    if guess_orphans:
        guessed = _guessed_observations(db, memory)
        known = memory.observations.get_column("observation_id")
        memory.observations = pl.concat(
            [memory.observations, guessed.filter(~pl.col("observation_id").is_in(known.implode()))]
        )
    return memory


def _session_rows(db: _Database, session_ids: Sequence[str]) -> pl.DataFrame:
    """Session rows, Claude's first, then by id: several platforms may share one session id."""
    content = db.content_id("sdk_sessions")
    selected = {
        "session_id": f"s.{content}",
        "row_id": "s.id",
        "memory_id": f"s.{db.memory_id('sdk_sessions')}",
        "project": "s.project",
        "platform": db.column("sdk_sessions", "s", "platform_source"),
    }
    rows = db.query(selected, f"FROM sdk_sessions s WHERE s.{content} {_IN}", session_ids)
    is_other = ~pl.col("platform").fill_null("").str.strip_chars().str.to_lowercase().is_in(["", _PLATFORM])
    return rows.with_columns(_int("row_id")).sort(is_other, "row_id", maintain_order=True)


def _prompts(db: _Database, session_ids: Sequence[str], sessions: pl.DataFrame) -> pl.DataFrame:
    if "user_prompts" not in db.columns:
        return empty(PROMPTS)
    content = db.content_id("user_prompts")
    selected = {
        "session_id": f"p.{content}",
        "session_db_id": db.column("user_prompts", "p", "session_db_id"),
        "prompt_id": "p.id",
        "prompt_number": "p.prompt_number",
        "text": "p.prompt_text",
        "epoch": "p.created_at_epoch",
        "created_at": "p.created_at",
    }
    rows = _with_times(db.query(selected, f"FROM user_prompts p WHERE p.{content} {_IN}", session_ids))
    # session_db_id can be NULL: then the prompt belongs to the preferred row of its session.
    return conform(
        rows.with_columns(_int("session_db_id"), _int("prompt_id"), _int("prompt_number"), pl.col("text").fill_null(""))
        .join(_preferred(sessions), on="session_id", how="left", maintain_order="left")
        .with_columns(
            session_db_id=pl.coalesce("session_db_id", "preferred"),
            was_cut=pl.col("text").map_elements(is_cut, return_dtype=pl.Boolean),
        )
        .sort("session_id", "prompt_id", maintain_order=True),
        PROMPTS,
    )


def _preferred(sessions: pl.DataFrame) -> pl.DataFrame:
    return sessions.unique("session_id", keep="first", maintain_order=True).select("session_id", preferred="row_id")


def _tool_uses(db: _Database, session_ids: Sequence[str]) -> pl.DataFrame:
    schema = {**TOOL_USES, "memory_id": pl.String, "session_db_id": pl.Int64}
    if "tool_uses" not in db.columns:
        return empty(schema)
    selected = {
        "session_id": "t.content_session_id",
        "tool_use_id": "t.tool_use_id",
        "observation_id": db.column("tool_uses", "t", "observation_id"),
        "memory_id": db.column("tool_uses", "t", "memory_session_id"),
        "session_db_id": db.column("tool_uses", "t", "session_db_id"),
    }
    rows = db.query(selected, f"FROM tool_uses t WHERE t.content_session_id {_IN} ORDER BY t.id", session_ids)
    return rows.with_columns(_int("observation_id"), _int("session_db_id"))


def _memory_links(
    db: _Database, session_ids: Sequence[str], sessions: pl.DataFrame, tool_uses: pl.DataFrame
) -> pl.DataFrame:
    """memory_id → session, by every path that survives a lost session row. Each step is one indexed query."""
    steps = [sessions.select("memory_id", "session_id", session_db_id="row_id")]
    own = pl.DataFrame(
        {"memory_id": list(session_ids), "session_id": list(session_ids)},
        schema={"memory_id": pl.String, "session_id": pl.String},
    )
    steps.append(own.with_columns(session_db_id=pl.lit(None, pl.Int64)))
    for table in ("observations", "session_summaries"):
        if table not in db.columns:
            continue
        memory_id = db.memory_id(table)
        # Gemini's and OpenRouter's observers name themselves <provider>-<session id>-<ms>.
        ranges = " UNION ALL ".join(
            f"SELECT j.value AS session_id, o.{memory_id} AS memory_id FROM ids j CROSS JOIN {table} o"
            f" ON o.{memory_id} >= '{provider}-' || j.value || '-' AND o.{memory_id} < '{provider}-' || j.value || '.'"
            for provider in ("gemini", "openrouter")
        )
        found = db.query(
            {"memory_id": "r.memory_id", "session_id": "r.session_id"},
            f"FROM (WITH ids AS (SELECT value FROM json_each(?)) SELECT DISTINCT session_id, memory_id FROM ({ranges})) r",
            session_ids,
        )
        steps.append(found.with_columns(session_db_id=pl.lit(None, pl.Int64)))
    steps.append(tool_uses.select("memory_id", "session_id", "session_db_id"))
    return (
        pl.concat(steps)
        .drop_nulls("memory_id")
        .unique("memory_id", keep="first", maintain_order=True)
        .join(_preferred(sessions), on="session_id", how="left", maintain_order="left")
        .with_columns(session_db_id=pl.coalesce("session_db_id", "preferred"))
        .drop("preferred")
    )


def _linked_rows(
    db: _Database, table: str, alias: str, selected: dict[str, str], session_ids: Sequence[str], links: pl.DataFrame
) -> list[pl.DataFrame]:
    """Rows of `table` reached through their memory id, then through their own content_session_id where it exists."""
    memory_ids = links.get_column("memory_id").to_list()
    where = f"FROM {table} {alias} WHERE {alias}."
    rows = [
        db.query(selected, f"{where}{db.memory_id(table)} {_IN}", memory_ids).join(
            links, on="memory_id", how="left", maintain_order="left"
        )
    ]
    if db.has(table, "content_session_id"):
        found = db.query(
            {**selected, "session_id": f"{alias}.content_session_id"}, f"{where}content_session_id {_IN}", session_ids
        )
        rows.append(found.with_columns(session_db_id=pl.lit(None, pl.Int64)).select(rows[0].columns))
    return rows


def _observation_columns(db: _Database) -> dict[str, str]:
    names = ("type", "title", "subtitle", "narrative", "text")
    return {
        "memory_id": f"o.{db.memory_id('observations')}",
        "observation_id": "o.id",
        "prompt_number": db.column("observations", "o", "prompt_number"),
        "epoch": "o.created_at_epoch",
        "created_at": "o.created_at",
        **{name: db.column("observations", "o", name) for name in names},
    }


def _observations(
    db: _Database, session_ids: Sequence[str], links: pl.DataFrame, tool_uses: pl.DataFrame, memory: Memory
) -> pl.DataFrame:
    selected = _observation_columns(db)
    rows = _linked_rows(db, "observations", "o", selected, session_ids, links)
    anchored = tool_uses.drop_nulls("observation_id").unique("observation_id", keep="first", maintain_order=True)
    if anchored.height:
        ids = anchored.get_column("observation_id").to_list()
        found = db.query(selected, f"FROM observations o WHERE o.id {_IN}", ids).with_columns(_int("observation_id"))
        found = found.join(
            anchored.select("observation_id", "session_id", "session_db_id"),
            on="observation_id",
            how="left",
            maintain_order="left",
        )
        rows.append(found.with_columns(pl.col("observation_id").cast(pl.String)).select(rows[0].columns))
    return _finish(pl.concat(rows), "observation_id", OBSERVATIONS, memory)


def _summaries(db: _Database, session_ids: Sequence[str], links: pl.DataFrame, memory: Memory) -> pl.DataFrame:
    if "session_summaries" not in db.columns:
        return empty(SUMMARIES)
    names = ("request", "investigated", "learned", "completed", "next_steps", "notes")
    selected = {
        "memory_id": f"s.{db.memory_id('session_summaries')}",
        "summary_id": "s.id",
        "prompt_number": db.column("session_summaries", "s", "prompt_number"),
        "epoch": "s.created_at_epoch",
        "created_at": "s.created_at",
        **{name: db.column("session_summaries", "s", name) for name in names},
    }
    return _finish(
        pl.concat(_linked_rows(db, "session_summaries", "s", selected, session_ids, links)),
        "summary_id",
        SUMMARIES,
        memory,
    )


def _finish(rows: pl.DataFrame, key: str, schema: Mapping[str, Any], memory: Memory) -> pl.DataFrame:
    """Type the rows, keep each once, and order them by time, then id."""
    preferred = {session: ids[0] for session, ids in memory.row_ids.items()}
    return conform(
        _with_times(rows)
        .with_columns(
            _int(key),
            _int("prompt_number"),
            pl.coalesce(
                "session_db_id", pl.col("session_id").replace_strict(preferred, default=None, return_dtype=pl.Int64)
            ).alias("session_db_id"),
            pl.lit(False).alias("is_guess"),
        )
        .unique(key, keep="first", maintain_order=True)
        .sort("session_id", "at_ms", key, nulls_last=True, maintain_order=True),
        schema,
    )


def _guessed_observations(db: _Database, memory: Memory) -> pl.DataFrame:
    """Observations of no known session, made in a session's project between its first and last prompt."""
    guesses = [empty(OBSERVATIONS)]
    for (session_id,), prompts in memory.prompts.group_by("session_id", maintain_order=True):
        project = memory.projects.get(str(session_id))
        first, last = prompts.get_column("at_ms").min(), prompts.get_column("at_ms").max()
        if project is None or first is None or last is None:
            continue
        memory_id = db.memory_id("sdk_sessions")
        found = db.query(
            _observation_columns(db),
            f"FROM observations o, (SELECT json_extract(?, '$[0]') AS project, json_extract(?1, '$[1]') AS low, json_extract(?1, '$[2]') AS high) w"
            f" WHERE o.project = w.project AND o.created_at_epoch BETWEEN w.low AND w.high + 3600000 AND NOT EXISTS"
            f" (SELECT 1 FROM sdk_sessions s WHERE s.{memory_id} = o.{db.memory_id('observations')})",
            [project, first, last],  # type: ignore[list-item]
        )
        found = found.with_columns(session_id=pl.lit(str(session_id)), session_db_id=pl.lit(None, pl.Int64))
        guesses.append(_finish(found, "observation_id", OBSERVATIONS, memory).with_columns(is_guess=pl.lit(True)))
    return pl.concat(guesses)


def _int(name: str) -> pl.Expr:
    """An integer out of a text cell, null where it is none; ids and numbers may be mistyped."""
    return (
        pl.col(name).cast(pl.Float64, strict=False).cast(pl.Int64, strict=False)
        if name not in _BIG
        else pl.col(name).cast(pl.Int64, strict=False)
    )


_BIG = frozenset({"observation_id", "summary_id", "prompt_id", "row_id", "session_db_id"})


def _with_times(rows: pl.DataFrame) -> pl.DataFrame:
    """Add at_ms. Epochs are milliseconds, in some old rows seconds; the ISO text is the fallback."""
    times = []
    for epoch, text in rows.select("epoch", "created_at").iter_rows():
        try:
            value = int(float(epoch))
        except (TypeError, ValueError, OverflowError):
            value = 0
        if value <= 0:
            times.append(parse_ms(text))
        else:
            times.append(value if value >= 1_000_000_000_000 else value * 1000 if value < 1 << 53 else None)
    return rows.with_columns(at_ms=pl.Series(times, dtype=pl.Int64)).drop("epoch", "created_at")
