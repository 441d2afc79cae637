"""Stage `memory`: claude-mem's SQLite database in, PROMPTS, OBSERVATIONS, SUMMARIES and TOOL_USES out.

All SQL is here, read-only, through DuckDB's SQLite scanner. What a database holds is decided by its tables and columns,
never by its version ledger. A problem never stops a render: it becomes a sentence for the bottle's header.

Why `sqlite_query` and not a scan: the scanner pushes no filter down, so one session out of a million observations costs
2,246 ms scanned and 1.8 ms asked for by index. Its columns come as text and are cast here without failing.
"""

from __future__ import annotations

import contextlib
import json
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
_PAUSE_S = 0.05
_COPY_LIMIT = 1 << 30
_SQLITE_MAGIC = b"SQLite format 3\x00"
_PLATFORM = "claude"
_PROVIDERS = ("gemini", "openrouter")
# Beyond the year 9999 a number is no time.
_LAST_MS = 253_402_300_799_999
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


class _Problem(Exception):
    """The database cannot be read; the text says why."""


class _Busy(Exception):
    """Somebody holds a lock: worth another try."""


class _Malformed(Exception):
    """SQLite says the database is damaged."""


class _Undecodable(Exception):
    """A text cell is no UTF-8, which fails the whole query and its transaction."""


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
    """Return one row per stored session (session_id, project, prompts, at_ms of the last activity), and the problem."""
    rows: list[dict[str, Any]] = []

    def query(db: _Database) -> None:
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
        found = _with_times(_preferred_first(db.query(selected, "FROM sdk_sessions s")))
        found = found.drop_nulls("session_id").unique("session_id", keep="first", maintain_order=True)
        shown = found.sort("row_id").select("session_id", "project", _int("prompts").fill_null(0), "at_ms")
        rows.extend(shown.to_dicts())

    problem = _with_database(database, query, [])
    return rows, problem


def _with_database(database: Path, query: Callable[[_Database], None], notes: list[str]) -> str:
    """Run `query` on the database within the bounded wait; return the problem, "" for none."""
    deadline = time.monotonic() + WAIT_S
    try:
        database = _check_file(database)
        with _connect() as connection:
            _Reading(connection, query, notes, deadline).read(database)
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


def _check_file(database: Path) -> Path:
    """The real path of a file that looks like SQLite. Links are resolved, since a `-wal` lies beside the real file."""
    try:
        str(database).encode()
        database = database.resolve()
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
    except (ValueError, RuntimeError):
        raise _Problem("claude-mem's database has a path that cannot be used") from None
    if not start and not _wal_of(database).exists():
        raise _Problem("claude-mem's database is empty")
    if start and start != _SQLITE_MAGIC:
        raise _Problem("claude-mem's database file is not a SQLite database")
    return database


def _wal_of(database: Path) -> Path:
    return database.with_name(database.name + "-wal")


@dataclass(slots=True)
class _Reading:
    """One read: `query` is run on the database, if need be more than once. What must be told goes into `notes`."""

    connection: duckdb.DuckDBPyConnection
    query: Callable[[_Database], None]
    notes: list[str]
    deadline: float

    def read(self, database: Path) -> None:
        """In place; on a copy where it cannot be opened in place; without its `-wal` where that is damaged."""
        try:
            return self.run(database)
        except _Unopenable:
            pass
        except _Malformed:
            return self.read_without_wal(database)
        with _private_copy(database, with_wal=True) as copy:
            try:
                return self.run(copy)
            except _Malformed:
                return self.read_without_wal(database)

    def read_without_wal(self, database: Path) -> None:
        """Only what was checkpointed: damage is often in the `-wal` alone."""
        if not _wal_of(database).exists():
            raise _Malformed
        with _private_copy(database, with_wal=False) as copy:
            try:
                self.run(copy)
            except _Problem:
                raise _Malformed from None
        self.notes.append("claude-mem's write-ahead log is damaged; only what was checkpointed before could be read")

    def run(self, database: Path) -> None:
        """In one read transaction; again while somebody holds a lock, and in hex where a cell is no UTF-8."""
        in_hex = False
        while True:
            try:
                with _translate_errors(), self.attached(database):
                    return self.query(_Database(self.connection, in_hex=in_hex))
            except _Undecodable:
                if in_hex:
                    raise _Malformed from None
                in_hex = True
            except _Busy:
                if time.monotonic() + _PAUSE_S >= self.deadline:
                    raise
                time.sleep(_PAUSE_S)

    @contextlib.contextmanager
    def attached(self, database: Path) -> Iterator[None]:
        import duckdb

        # A busy timeout of SQLite's own cannot be bounded through DuckDB: fail at once and try again from here.
        choices = "TYPE sqlite, READ_ONLY, BUSY_TIMEOUT 1"
        self.connection.execute(f"ATTACH {_literal(str(database))} AS claude_mem ({choices})")
        try:
            # One transaction sees one state of the database, whatever is written meanwhile.
            self.connection.begin()
            yield
        finally:
            with contextlib.suppress(duckdb.Error):
                self.connection.rollback()
            self.connection.execute("DETACH claude_mem")


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
            raise _Problem(f"DuckDB's SQLite extension was refused: {_reason(error)}") from None
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
    except UnicodeDecodeError:
        # Even the words about what is wrong hold bytes of the damaged file.
        raise _Malformed from None
    except duckdb.Error as error:
        text = _reason(error).lower()
        if "invalid unicode" in text:
            raise _Undecodable from None
        if "locked" in text or "busy" in text:
            raise _Busy from None
        if "malformed" in text or "corrupt" in text or "not a database" in text or "disk image" in text:
            raise _Malformed from None
        if "unable to open" in text or "readonly" in text or "read-only" in text or "cannot open" in text:
            raise _Unopenable from None
        raise _Problem(f"claude-mem's database cannot be read: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """The first line of a message, without the SQL that DuckDB quotes before SQLite's own words."""
    return (str(error).splitlines() or [type(error).__name__])[0].rpartition('": ')[2][:200]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextlib.contextmanager
def _private_copy(database: Path, *, with_wal: bool) -> Iterator[Path]:
    """A copy of the database (and its -wal, never its -shm) in a folder only this user can enter."""
    # A rollback journal undoes what was never committed: without it the copy would show that.
    journal = database.with_name(database.name + "-journal")
    sources = [database, journal, *([_wal_of(database)] if with_wal else [])]
    folder = Path(tempfile.mkdtemp(prefix="bottlepipe-db-"))
    try:
        for _ in range(5):
            before = [_fingerprint(source) for source in sources]
            if sum(state[1] for state in before if state) > _COPY_LIMIT:
                raise _Problem("claude-mem's database cannot be read in place and is too large to copy")
            for source in sources:
                copy = folder / source.name
                copy.unlink(missing_ok=True)
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(source, copy)
            if before[0] and before == [_fingerprint(source) for source in sources]:
                break
        else:
            raise _Problem("claude-mem's database kept changing while it was copied")
        yield folder / database.name
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fingerprint(path: Path) -> tuple[int, int, int] | None:
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns


class _Database:
    """An attached claude-mem database: its real tables (no views, no virtual tables) and their columns."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, *, in_hex: bool) -> None:
        self._connection = connection
        self._in_hex = in_hex
        self.columns: dict[str, set[str]] = {}
        sql = (
            "SELECT m.name AS t, hex(p.name) AS c FROM sqlite_master m, pragma_table_info(m.name) p"
            f" WHERE m.type = 'table' AND m.rootpage > 0 AND m.name IN {_TABLES}"
        )
        for table, column in connection.execute("SELECT * FROM sqlite_query('claude_mem', ?)", [sql]).fetchall():
            self.columns.setdefault(table, set()).add(bytes.fromhex(column).decode("utf-8", "replace"))
        if not all(
            self.has(table, column)
            for table in ("sdk_sessions", "observations")
            for column in ("id", self.content_id(table) if table == "sdk_sessions" else self.memory_id(table))
        ):
            raise _Problem("this is no claude-mem database of version 4 or later (its tables are missing)")

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

    def query(self, selected: Mapping[str, str], rest: str, values: Sequence[str | int] | None = None) -> pl.DataFrame:
        """Run one SELECT inside SQLite with a bound list of values; every column comes back as text.

        In hex, what is no UTF-8 is decoded with replacement.
        """
        texts = {name: f"CAST({source} AS TEXT)" for name, source in selected.items()}
        if not self._in_hex:
            return self._frame(f"SELECT {_aliased(texts)} {rest}", values)
        rows = self._frame(
            f"SELECT {_aliased({name: _HEX.format(text) for name, text in texts.items()})} {rest}", values
        )
        return rows.with_columns(pl.all().map_elements(_decode, return_dtype=pl.String))

    def _frame(self, sql: str, values: Sequence[str | int] | None) -> pl.DataFrame:
        if values is None:
            relation = self._connection.sql("SELECT * FROM sqlite_query('claude_mem', $sql)", params={"sql": sql})
        else:
            relation = self._connection.sql(
                "SELECT * FROM sqlite_query('claude_mem', $sql, params=row($values))",
                # SQLite's JSON ends a text at a NUL: such a text would be taken for another.
                params={"sql": sql, "values": json.dumps([None if "\0" in str(value) else value for value in values])},
            )
        result = pl.DataFrame(relation)
        return result.select(pl.all().cast(pl.String))


# In SQLite hex(NULL) is the empty text.
_HEX = "CASE WHEN {0} IS NOT NULL THEN hex({0}) END"


def _aliased(sources: Mapping[str, str]) -> str:
    return ", ".join(f"{source} AS {_quote(name)}" for name, source in sources.items())


def _decode(cell: str) -> str:
    return bytes.fromhex(cell).decode("utf-8", "replace")


_IN = "IN (SELECT value FROM json_each(?))"


def _read_sessions(db: _Database, session_ids: Sequence[str], *, guess_orphans: bool) -> Memory:
    memory = Memory()
    sessions = _session_rows(db, session_ids)
    for row in sessions.iter_rows(named=True):
        memory.row_ids.setdefault(row["session_id"], []).append(row["row_id"])
        if row["project"]:
            memory.projects.setdefault(row["session_id"], row["project"])
    memory.is_empty = db.query({"row_id": "s.id"}, "FROM sdk_sessions s LIMIT 1").is_empty()
    memory.prompts = _prompts(db, session_ids, sessions)
    tool_uses = _tool_uses(db, session_ids)
    memory.tool_uses = conform(tool_uses, TOOL_USES)
    links = _memory_links(db, session_ids, sessions, tool_uses)
    memory.observations = _observations(db, session_ids, links, tool_uses, memory)
    memory.summaries = _summaries(db, session_ids, links, memory)
    if guess_orphans:
        guessed = _guessed_observations(db, memory)
        known = memory.observations.select("session_id", "observation_id")
        memory.observations = pl.concat(
            [memory.observations, guessed.join(known, on=["session_id", "observation_id"], how="anti")]
        )
    return memory


def _session_rows(db: _Database, session_ids: Sequence[str]) -> pl.DataFrame:
    where = f"FROM sdk_sessions s WHERE s.{db.content_id('sdk_sessions')} {_IN}"
    return _preferred_first(db.query(_session_columns(db), where, session_ids))


def _session_columns(db: _Database) -> dict[str, str]:
    return {
        "session_id": f"s.{db.content_id('sdk_sessions')}",
        "row_id": "s.id",
        "memory_id": db.column("sdk_sessions", "s", db.memory_id("sdk_sessions")),
        "project": db.column("sdk_sessions", "s", "project"),
        "platform": db.column("sdk_sessions", "s", "platform_source"),
    }


def _preferred_first(rows: pl.DataFrame) -> pl.DataFrame:
    """Session rows, Claude's first, then by id: several platforms may share one session id."""
    is_other = ~pl.col("platform").fill_null("").str.strip_chars().str.to_lowercase().is_in(["", _PLATFORM])
    return rows.with_columns(_int("row_id")).sort(is_other, "row_id", maintain_order=True)


def _prompts(db: _Database, session_ids: Sequence[str], sessions: pl.DataFrame) -> pl.DataFrame:
    content = db.content_id("user_prompts")
    if not db.has("user_prompts", content):
        return empty(PROMPTS)
    selected = {
        "session_id": f"p.{content}",
        "session_db_id": db.column("user_prompts", "p", "session_db_id"),
        "prompt_id": "p.id",
        **{name: db.column("user_prompts", "p", name) for name in ("prompt_number", "created_at")},
        "text": db.column("user_prompts", "p", "prompt_text"),
        "epoch": db.column("user_prompts", "p", "created_at_epoch"),
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
    if not db.has("tool_uses", "content_session_id"):
        return empty(schema)
    selected = {
        "session_id": "t.content_session_id",
        "tool_use_id": db.column("tool_uses", "t", "tool_use_id"),
        "observation_id": db.column("tool_uses", "t", "observation_id"),
        "memory_id": db.column("tool_uses", "t", "memory_session_id"),
        "session_db_id": db.column("tool_uses", "t", "session_db_id"),
    }
    rows = db.query(selected, f"FROM tool_uses t WHERE t.content_session_id {_IN} ORDER BY t.id", session_ids)
    return rows.with_columns(_int("observation_id"), _int("session_db_id"))


def _memory_links(
    db: _Database, session_ids: Sequence[str], sessions: pl.DataFrame, tool_uses: pl.DataFrame
) -> pl.DataFrame:
    """memory_id → session, by every path that survives a lost session row. Each step is one indexed query.

    Every session is judged as if it were the only one asked for: two may claim one memory id.
    """
    schema = {"memory_id": pl.String, "session_id": pl.String, "session_db_id": pl.Int64}
    steps = [
        sessions.select("memory_id", "session_id", session_db_id="row_id"),
        frame([(session_id, session_id, None) for session_id in session_ids], schema),
    ]
    for table in ("observations", "session_summaries"):
        memory_id = db.memory_id(table)
        if not db.has(table, memory_id):
            continue
        # Gemini's and OpenRouter's observers name themselves <provider>-<session id>-<ms>.
        ranges = " UNION ALL ".join(
            f"SELECT j.value AS session_id, r.{memory_id} AS memory_id FROM ids j CROSS JOIN {table} r"
            f" ON r.{memory_id} >= '{provider}-' || j.value || '-' AND r.{memory_id} < '{provider}-' || j.value || '.'"
            f" AND substr(r.{memory_id}, length('{provider}-' || j.value || '-') + 1) NOT GLOB '*[^0-9]*'"
            for provider in _PROVIDERS
        )
        ids = "WITH ids AS (SELECT value FROM json_each(?))"
        found = db.query(
            {"memory_id": "r.memory_id", "session_id": "r.session_id"},
            f"FROM ({ids} SELECT DISTINCT session_id, memory_id FROM ({ranges})) r ORDER BY r.memory_id",
            session_ids,
        )
        steps.append(conform(found.with_columns(session_db_id=None), schema))
    steps.append(conform(tool_uses, schema))
    return (
        pl.concat(steps)
        .filter(pl.col("memory_id") != "")
        .unique(["session_id", "memory_id"], keep="first", maintain_order=True)
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
            links, on="memory_id", how="inner", maintain_order="left"
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
        "epoch": db.column("observations", "o", "created_at_epoch"),
        **{name: db.column("observations", "o", name) for name in ("created_at", *names)},
    }


def _observations(
    db: _Database, session_ids: Sequence[str], links: pl.DataFrame, tool_uses: pl.DataFrame, memory: Memory
) -> pl.DataFrame:
    selected = _observation_columns(db)
    rows = _linked_rows(db, "observations", "o", selected, session_ids, links)
    anchored = tool_uses.drop_nulls("observation_id").unique(
        ["session_id", "observation_id"], keep="first", maintain_order=True
    )
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
    if not db.has("session_summaries", db.memory_id("session_summaries")):
        return empty(SUMMARIES)
    names = ("request", "investigated", "learned", "completed", "next_steps", "notes")
    selected = {
        "memory_id": f"s.{db.memory_id('session_summaries')}",
        "summary_id": "s.id",
        "prompt_number": db.column("session_summaries", "s", "prompt_number"),
        "epoch": db.column("session_summaries", "s", "created_at_epoch"),
        **{name: db.column("session_summaries", "s", name) for name in ("created_at", *names)},
    }
    return _finish(
        pl.concat(_linked_rows(db, "session_summaries", "s", selected, session_ids, links)),
        "summary_id",
        SUMMARIES,
        memory,
    )


def _finish(rows: pl.DataFrame, key: str, schema: Mapping[str, Any], memory: Memory) -> pl.DataFrame:
    """Type the rows, keep each once per session, and order them by time, then id."""
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
        .unique(["session_id", key], keep="first", maintain_order=True)
        .sort("session_id", "at_ms", key, nulls_last=True, maintain_order=True),
        schema,
    )


def _guessed_observations(db: _Database, memory: Memory) -> pl.DataFrame:
    """Observations of no known session, made in a session's project between its first and last prompt."""
    if not (db.has("observations", "project") and db.has("observations", "created_at_epoch")):
        return empty(OBSERVATIONS)
    memory_id = f"o.{db.memory_id('observations')}"
    owners = [
        f"SELECT 1 FROM sdk_sessions s WHERE s.{column} = {memory_id}"
        for column in (db.memory_id("sdk_sessions"), db.content_id("sdk_sessions"))
        if db.has("sdk_sessions", column)
    ]
    owners += [
        f"SELECT 1 FROM tool_uses t WHERE t.{column} = {value}"
        for column, value in (("memory_session_id", memory_id), ("observation_id", "o.id"))
        if db.has("tool_uses", column)
    ]
    is_lost = " AND ".join(
        [
            *(f"NOT EXISTS ({owner})" for owner in owners),
            *(f"{memory_id} NOT GLOB '{provider}-*'" for provider in (*_PROVIDERS, "manual")),
            f"{db.column('observations', 'o', 'content_session_id')} IS NULL",
        ]
    )
    window = ", ".join(
        f"json_extract(?1, '$[{index}]') AS {name}" for index, name in enumerate(("project", "low", "high"))
    )
    # Old rows may count in seconds.
    epoch = "o.created_at_epoch * CASE WHEN o.created_at_epoch < 1000000000000 THEN 1000 ELSE 1 END"
    rows = [empty(OBSERVATIONS)]
    for (session_id,), prompts in memory.prompts.group_by("session_id", maintain_order=True):
        project = memory.projects.get(str(session_id))
        times = prompts.get_column("at_ms").drop_nulls().to_list()
        if project is None or not times:
            continue
        found = db.query(
            _observation_columns(db),
            f"FROM (SELECT {window}) w CROSS JOIN observations o WHERE o.project = w.project"
            f" AND {epoch} BETWEEN w.low AND w.high AND {is_lost}",
            [project, min(times), max(times) + _GUESS_AFTER_MS],
        )
        found = found.with_columns(session_id=pl.lit(str(session_id)), session_db_id=pl.lit(None, pl.Int64))
        rows.append(_finish(found, "observation_id", OBSERVATIONS, memory).with_columns(is_guess=pl.lit(True)))
    return pl.concat(rows)


def _int(name: str) -> pl.Expr:
    """An integer out of a text cell, null where it is none: ids and numbers may be mistyped."""
    as_written = pl.col(name).cast(pl.Int64, strict=False)
    return pl.coalesce(as_written, pl.col(name).cast(pl.Float64, strict=False).cast(pl.Int64, strict=False))


def _with_times(rows: pl.DataFrame) -> pl.DataFrame:
    """Add at_ms. Epochs are milliseconds, in some old rows seconds; the ISO text is the fallback."""
    times = [_time(epoch, text) for epoch, text in rows.select("epoch", "created_at").iter_rows()]
    return rows.with_columns(at_ms=pl.Series(times, dtype=pl.Int64)).drop("epoch", "created_at")


def _time(epoch: str | None, text: str | None) -> int | None:
    try:
        value = int(float(epoch or ""))
    except (ValueError, OverflowError):
        value = 0
    if 0 < value < 1_000_000_000_000:
        value *= 1000
    return value if 0 < value <= _LAST_MS else parse_ms(text)
