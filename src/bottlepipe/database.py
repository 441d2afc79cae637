"""Asks a SQLite database, read-only, through DuckDB's SQLite scanner. What is asked is the business of `memory`.

Why `sqlite_query` and not a scan: the scanner pushes no filter down, so one session out of a million observations costs
seconds scanned and a few milliseconds asked for by index. Its columns come as text and are cast without failing.

Loading the extension costs a quarter of a second, so a process does it once. Between two reads nothing is attached:
no lock and no open file stays on a user's database.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from bottlepipe.copies import KeptChanging, TooLarge, private_copy, remove_leftovers, wal_of

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")
# A row by column name; every cell is text or None until it is read as what it should be.
Row = dict[str, Any]

WAIT_S = 2.0
_PAUSE_S = 0.02
_SQLITE_MAGIC = b"SQLite format 3\x00"


class Problem(Exception):
    """The database cannot be read; the text says why."""


class _Busy(Exception):
    """Somebody holds a lock, or the file is being replaced: worth another try. The text says so if none helps."""


class _Malformed(Exception):
    """SQLite says the database is damaged."""


class _Undecodable(Exception):
    """A text cell is no UTF-8, which fails the whole query and its transaction."""


class _Unopenable(Exception):
    """SQLite could not open it: it cannot make a `-shm` in the folder, or it may not undo what a killed writer left."""


def ask(database: Path, query: Callable[[Database], T], notes: list[str]) -> tuple[T | None, str]:
    """Run `query` on the database within the bounded wait; return (its answer, "") or (None, the problem).

    `query` may be run more than once; the last answer counts. What a reader of the bottle should know goes into
    `notes`. Threads that ask at the same time are answered one after the other.
    """
    try:
        database = _check_file(database)
        with _ENGINE.cursor() as cursor:
            return _Reading(cursor, query, notes, time.monotonic() + WAIT_S).read(database), ""
    except Problem as problem:
        return None, str(problem)
    except _Busy as reason:
        return None, str(reason)
    except _Malformed:
        return None, "claude-mem's database is damaged"
    except _Unopenable:
        return None, "claude-mem's database cannot be opened"
    except TooLarge:
        return None, "claude-mem's database cannot be read in place and is too large to copy"
    except KeptChanging:
        return None, "claude-mem's database kept changing while it was copied"
    except FileNotFoundError:
        return None, "claude-mem has no database here"
    except PermissionError:
        return None, "claude-mem's database may not be read: permission denied"
    except OSError as error:
        return None, f"claude-mem's database cannot be read: {error.strerror or error}"


def _check_file(database: Path) -> Path:
    """The real path of a regular file. Links are resolved, since a `-wal` lies beside the real file.

    The file is not opened here: closing it would take away the locks that SQLite holds on it for another thread.
    """
    try:
        str(database).encode()
        database = database.resolve()
        about = database.stat()
    except (ValueError, RuntimeError):
        raise Problem("claude-mem's database has a path that cannot be used") from None
    if stat.S_ISDIR(about.st_mode):
        raise Problem("claude-mem's database is a folder")
    if not stat.S_ISREG(about.st_mode):
        raise Problem("claude-mem's database is not a regular file")
    if not os.access(database, os.R_OK):
        raise PermissionError
    if not about.st_size and not wal_of(database).exists():
        raise Problem("claude-mem's database is empty")
    return database


def _check_magic(database: Path) -> None:
    """Raise Problem if this never was a SQLite database. Only for one that SQLite refuses: see `_check_file`."""
    with open(database, "rb") as file:
        start = file.read(len(_SQLITE_MAGIC))
    if start and start != _SQLITE_MAGIC:
        raise Problem("claude-mem's database file is not a SQLite database")


class _Engine:
    """The process's one DuckDB with the extension loaded, made when it is first needed. One read at a time uses it.

    Two at a time would gain nothing, and a copy must not be made while another thread reads in place: closing any
    descriptor of a file takes away the locks that SQLite holds on it in this process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None

    @contextlib.contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = _connect()
                    # Once per process is enough: nobody else's reader is killed more often than that.
                    remove_leftovers()
                with self._connection.cursor() as cursor:
                    yield cursor
            except BaseException as error:
                self._drop_if_broken()
                if isinstance(error, RuntimeError) and "interrupted" in str(error):
                    # What DuckDB makes of a Ctrl-C.
                    raise KeyboardInterrupt from None
                raise

    def _drop_if_broken(self) -> None:
        """Let go of what an interrupted read left attached. If that fails, the next read starts a new engine."""
        connection = self._connection
        if connection is None:
            return
        try:
            held = "SELECT database_name FROM duckdb_databases() WHERE database_name LIKE 'stored_%'"
            # Closing an engine is not enough: it may live on, and its files with it, in results of queries.
            for (name,) in connection.execute(held).fetchall():
                connection.execute(f"DETACH {name}")
        except (Exception, KeyboardInterrupt):
            # Some errors make DuckDB refuse all that follows.
            self._connection = None
            connection.close()


_ENGINE = _Engine()
_ALIASES = itertools.count()


def _connect() -> duckdb.DuckDBPyConnection:
    import duckdb

    extension = _extension_path(duckdb.__version__)
    if extension is None:
        raise Problem("DuckDB's SQLite extension is not installed (package duckdb-extension-sqlite-scanner)")
    connection = duckdb.connect(
        ":memory:",
        config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "threads": "1"},
    )
    try:
        # Each statement hands its whole work to SQLite: there is nothing to optimise.
        connection.execute("PRAGMA disable_optimizer")
        connection.execute(f"LOAD {_literal(str(extension))}")
    except duckdb.Error as error:
        connection.close()
        raise Problem(f"DuckDB's SQLite extension was refused: {_reason(error)}") from None
    return connection


def _extension_path(version: str) -> Path | None:
    """The signed extension that the wheel brought. By file, since loading by name would ask the network."""
    try:
        import duckdb_extension_sqlite_scanner as package
    except ImportError:
        return None
    path = Path(next(iter(package.__path__))) / "extensions" / f"v{version}" / "sqlite_scanner.duckdb_extension"
    return path if path.is_file() else None


@dataclass(slots=True)
class _Reading(Generic[T]):
    """One read: `query` is run on the database, if need be more than once. What must be told goes into `notes`."""

    cursor: duckdb.DuckDBPyConnection
    query: Callable[[Database], T]
    notes: list[str]
    deadline: float

    def read(self, database: Path) -> T:
        """In place; on a copy where it cannot be opened in place; without its `-wal` where that is damaged."""
        try:
            while True:
                with contextlib.suppress(_Unopenable):
                    return self.run(database)
                # Often only for the moment in which a writer changes how it keeps its journal.
                time.sleep(_PAUSE_S)
                with contextlib.suppress(_Unopenable):
                    return self.run(database)
                try:
                    return self.read_copy(database)
                except KeptChanging:
                    if time.monotonic() >= self.deadline:
                        raise
        except _Malformed:
            return self.read_without_wal(database)

    def read_copy(self, database: Path) -> T:
        with private_copy(database, with_wal=True) as copy:
            return self.run(copy, is_copy=True)

    def read_without_wal(self, database: Path) -> T:
        """Only what was checkpointed: damage is often in the `-wal` alone."""
        if not wal_of(database).exists():
            _check_magic(database)
            raise _Malformed
        with private_copy(database, with_wal=False) as copy:
            try:
                answer = self.run(copy, is_copy=True)
            except Problem:
                raise _Malformed from None
        self.notes.append("claude-mem's write-ahead log is damaged; only what was checkpointed before could be read")
        return answer

    def run(self, database: Path, *, is_copy: bool = False) -> T:
        """In one read transaction; again while somebody holds a lock, and in hex where a cell is no UTF-8."""
        in_hex = False
        while True:
            before = _identity(database)
            try:
                with _translate_errors(), self.attached(database, is_copy=is_copy) as attached:
                    answer = self.query(Database(self.cursor, attached, in_hex=in_hex))
                # One replaced while SQLite opened it may have been read with the `-wal` of the other.
                if before == _identity(database):
                    return answer
                reason = _Busy("claude-mem's database was replaced again and again")
            except _Busy as busy:
                reason = busy
            except _Undecodable:
                if in_hex:
                    raise _Malformed from None
                in_hex = True
                continue
            except (_Malformed, _Unopenable):
                if before == _identity(database):
                    raise
                reason = _Busy("claude-mem's database was replaced again and again")
            if time.monotonic() + _PAUSE_S >= self.deadline:
                raise reason
            time.sleep(_PAUSE_S)

    @contextlib.contextmanager
    def attached(self, database: Path, *, is_copy: bool) -> Iterator[str]:
        import duckdb

        name = f"stored_{next(_ALIASES)}"
        # Only a copy is opened for writing: what a killed writer left half done is undone in it.
        mode = "" if is_copy else "READ_ONLY, "
        # A busy timeout of SQLite's own cannot be bounded through DuckDB: fail at once and try again from here.
        attach = f"ATTACH {_literal(str(database))} AS {name} (TYPE sqlite, {mode}BUSY_TIMEOUT 1)"
        try:
            self.cursor.execute(attach)
            # One transaction sees one state of the database, whatever is written meanwhile.
            self.cursor.begin()
            yield name
        finally:
            # Each of these statements can be what a Ctrl-C is noticed in, and raise for it when it is done.
            try:
                with contextlib.suppress(duckdb.Error):
                    self.cursor.rollback()
            finally:
                # Closed already when a Ctrl-C fell into the moment before this block.
                with contextlib.suppress(duckdb.ConnectionException):
                    self.cursor.execute(f"DETACH DATABASE IF EXISTS {name}")


def _identity(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_dev, about.st_ino


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
        if "locked" in text or "busy" in text or "locking protocol" in text:
            raise _Busy(f"claude-mem's database stayed locked for {WAIT_S:g} s") from None
        if "disk i/o error" in text:
            # Also what SQLite says when somebody shortens or takes away a file under its hands.
            raise _Busy("claude-mem's database cannot be read: disk I/O error") from None
        if "malformed" in text or "corrupt" in text or "not a database" in text or "disk image" in text:
            raise _Malformed from None
        if "unable to open" in text or "readonly" in text or "read-only" in text or "cannot open" in text:
            raise _Unopenable from None
        raise Problem(f"claude-mem's database cannot be read: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """The first line of a message, without the SQL that DuckDB quotes before SQLite's own words."""
    return (str(error).splitlines() or [type(error).__name__])[0].rpartition('": ')[2][:200]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def quote(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


class Part(NamedTuple):
    """One SELECT: its columns, by the names that they get, and the rest of it from FROM on."""

    columns: Mapping[str, str]
    rest: str


class Database:
    """An attached SQLite database, in one read transaction."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, attached: str, *, in_hex: bool) -> None:
        self._cursor = cursor
        self._attached = attached
        self._in_hex = in_hex

    def columns_of(self, tables: Sequence[str]) -> dict[str, set[str]]:
        """The columns of those of `tables` that are real tables: a view could run anything."""
        sql = (
            "SELECT m.name, hex(p.name) FROM sqlite_master m, pragma_table_info(m.name) p"
            " WHERE m.type = 'table' AND m.rootpage > 0 AND m.name IN (SELECT value FROM json_each(?1))"
        )
        columns: dict[str, set[str]] = {}
        for table, column in self._run(sql, tables):
            columns.setdefault(table, set()).add(_decode(column))
        return columns

    def query(self, parts: Sequence[Part], values: Sequence[str | int] | None = None) -> list[list[Row]]:
        """Run one SELECT for each part inside SQLite and return the rows of each; every column comes back as text.

        All share `values`, a list bound as JSON to ?1. Together, since a statement costs more than what it finds. In
        hex, what is no UTF-8 is decoded with replacement.
        """
        width = max(len(part.columns) for part in parts)
        selects = []
        for number, part in enumerate(parts):
            cells = [f"CAST({source} AS TEXT)" for source in part.columns.values()]
            if self._in_hex:
                # In SQLite hex(NULL) is the empty text.
                cells = [f"CASE WHEN {cell} IS NOT NULL THEN hex({cell}) END" for cell in cells]
            cells += ["NULL"] * (width - len(cells))
            named = ", ".join(f"{cell} AS c{index}" for index, cell in enumerate(cells))
            selects.append(f"SELECT {number} AS part, {named} {part.rest}")
        found: list[list[Row]] = [[] for _ in parts]
        for part_number, *cells in self._run(" UNION ALL ".join(selects), values):
            if self._in_hex:
                cells = [None if cell is None else _decode(cell) for cell in cells]
            number = int(part_number)
            # A part with fewer columns than another ends in NULLs.
            found[number].append(dict(zip(parts[number].columns, cells, strict=False)))
        return found

    def _run(self, sql: str, values: Sequence[str | int] | None) -> list[tuple[Any, ...]]:
        bound = ""
        if values is not None:
            # SQLite's JSON ends a text at a NUL: such a text would be taken for another.
            listed = json.dumps([None if "\0" in str(value) else value for value in values])
            bound = f", params=row({_literal(listed)})"
        # The values are bound in SQLite. To DuckDB they are text: a table function with a parameter is planned twice,
        # and costs three times as much. By rows: Arrow takes longer for few and lets bytes through that are no UTF-8.
        call = f"sqlite_query('{self._attached}', {_literal(sql)}{bound})"
        return self._cursor.execute(f"SELECT * FROM {call}").fetchall()


def _decode(cell: str) -> str:
    return bytes.fromhex(cell).decode("utf-8", "replace")
