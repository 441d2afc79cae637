"""Mutations of databases for the fuzz tests. One seed gives one case, always the same one but for the
salt that SQLite draws for a write-ahead log.

Standard library only: the databases are mutated in a process that never loads DuckDB.
"""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz_sources import Sources
from mutated_values import TIMES, any_text, encode, private_span

_TABLES = ("sdk_sessions", "user_prompts", "observations", "session_summaries", "tool_uses")
_COLUMNS = """id content_session_id claude_session_id memory_session_id sdk_session_id project platform_source user_prompt
started_at started_at_epoch session_db_id prompt_number prompt_text created_at created_at_epoch type title subtitle
narrative text facts request investigated learned completed next_steps notes tool_use_id observation_id""".split()
_CANARY = "CANARY"
_SHOWN = """observations.title observations.subtitle observations.narrative observations.type user_prompts.prompt_text
session_summaries.request session_summaries.learned session_summaries.next_steps sdk_sessions.project""".split()


@dataclass
class MutatedDatabase:
    """`planted` are words that no output may hold; `ids` sessions to ask for; `rows` observations to show."""

    path: Path
    planted: list[str]
    ids: list[str]
    rows: list[int]
    # Neither columns nor bytes were changed: private text that the database brought with it has its tags still.
    is_whole: bool = True
    about: str = ""


def mutate_database(seed: int, sources: Sources, folder: Path) -> MutatedDatabase:
    """Build the mutated database of a seed in `folder`."""
    rng = random.Random(seed)
    base = rng.choice(sources.databases)
    path = folder / "claude-mem.db"
    wal = base.with_name(base.name + "-wal")
    shutil.copyfile(base, path)
    path.chmod(0o600)
    if wal.exists():
        shutil.copyfile(wal, folder / "claude-mem.db-wal")
        (folder / "claude-mem.db-wal").chmod(0o600)
    about = [base.parent.name if base.stem == "claude-mem" else base.stem]
    planted: list[str] = []
    ids, rows = ["a3f1c2d4-0001-4a6b-9c11-5d2e7f8a9b01"], [1, 2]
    # Bytes alone leave the write-ahead log in place; SQL folds it into the file.
    if not wal.exists() or rng.random() < 0.7:
        keep_wal = rng.random() < 0.2
        connection = sqlite3.connect(path, isolation_level=None)
        connection.text_factory = bytes
        try:
            _try(connection, "PRAGMA synchronous=OFF")
            _try(connection, "PRAGMA foreign_keys=OFF")
            _try(connection, "PRAGMA ignore_check_constraints=ON")
            ids, rows = _known(connection)
            if keep_wal:
                _try(connection, "PRAGMA journal_mode=WAL")
                _try(connection, "PRAGMA wal_autocheckpoint=0")
            # One transaction: a file written for each statement takes longer than all statements do.
            _try(connection, "BEGIN")
            for number in range(rng.choice((0, 1, 2, 3))):
                _plant_cell(connection, rng, f"CANARY-PLANT-{seed}-{number}", planted)
            for _ in range(rng.choice((0, 1, 3, 10, 30))):
                about.append(_mutate_cell(connection, rng))
            _try(connection, "COMMIT")
            for _ in range(rng.choice((0, 0, 1, 1, 3))):
                about.append(_mutate_schema(connection, rng))
            if keep_wal:
                kept = [
                    (file.name, file.read_bytes()) for file in folder.glob("claude-mem.db*") if "-shm" not in file.name
                ]
        finally:
            connection.close()
        if keep_wal:
            for name, data in kept:
                (folder / name).write_bytes(data)
    for _ in range(rng.choice((0, 0, 1, 1, 4))):
        about.append(_damage(folder, rng))
    is_whole = not any(change.split(" ")[0] not in ("cell", "") for change in about[1:])
    for leftover in folder.glob("*-shm"):
        leftover.unlink()
    return MutatedDatabase(path, planted, ids, rows, is_whole, " | ".join(filter(None, about)))


def _known(connection: sqlite3.Connection) -> tuple[list[str], list[int]]:
    """Session ids and observation ids that are in it."""
    ids: list[str] = []
    for name in ("content_session_id", "claude_session_id"):
        for (cell,) in _try(
            connection, f"SELECT DISTINCT {name} FROM sdk_sessions WHERE typeof({name})='text' LIMIT 9"
        ):
            ids.append(cell.decode("utf-8", "replace"))
    rows = [cell for (cell,) in _try(connection, "SELECT id FROM observations LIMIT 5") if isinstance(cell, int)]
    return ids, rows


def _try(connection: sqlite3.Connection, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Run a statement that this database may refuse."""
    try:
        return connection.execute(sql, values).fetchall()
    except (sqlite3.Error, OverflowError, UnicodeError):
        return []


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    names = [row[1].decode("utf-8", "replace") for row in _try(connection, f"PRAGMA table_xinfo({table})")]
    return [name for name in names if re.fullmatch(r"\w+", name)]


def _tables(connection: sqlite3.Connection) -> list[str]:
    return [table for table in _TABLES if _columns(connection, table)]


def _any_cell(connection: sqlite3.Connection, rng: random.Random) -> tuple[str, str] | None:
    for table in rng.sample(_TABLES, len(_TABLES)):
        if columns := _columns(connection, table):
            return table, rng.choice(columns)
    return None


def _plant_cell(connection: sqlite3.Connection, rng: random.Random, word: str, planted: list[str]) -> None:
    """A private span into a cell of any type. What SQLite refuses is not planted."""
    cell = _any_cell(connection, rng)
    if rng.random() < 0.7:
        # What a bottle shows.
        table, column = rng.choice(_SHOWN).split(".")
        cell = (table, column) if column in _columns(connection, table) else cell
    if cell is None or cell[1] in (
        "id",
        "content_session_id",
        "claude_session_id",
        "memory_session_id",
        "sdk_session_id",
    ):
        return
    tagged = private_span(word, rng)
    said = f"{any_text(rng)}{tagged}{any_text(rng)}" if rng.random() < 0.7 else tagged
    said = said.replace("\ud800", "").encode("utf-8", "replace").decode()
    if rng.random() < 0.2:
        said = encode([said, "more"])
        if tagged not in said:
            return
    _try(connection, f"UPDATE {cell[0]} SET {cell[1]} = ? WHERE {_some_rows(rng)}", (said,))
    planted.append(word)


def _some_rows(rng: random.Random) -> str:
    """A condition that keeps away from cells whose private text is not to be touched."""
    return rng.choice(("rowid IN (SELECT min(rowid) FROM {0})", "rowid % 3 = 1", "1", f"rowid = {rng.randint(1, 14)}")).replace("{0}", "observations")  # fmt: skip


def _cell_value(rng: random.Random) -> str:
    """A SQL expression for a cell of any type."""
    match rng.randrange(10):
        case 0:
            return rng.choice(
                ("NULL", "''", "0", "-1", "9223372036854775807", "-9223372036854775808", "1e308", "-9e999", "1.5")
            )
        case 1:
            return rng.choice(("1772445660", "1772445660000", "-1772445660000", "253402300800000", "'1772445660'", "'12abc'", "' 7 '", "'1e3'"))  # fmt: skip
        case 2:
            return f"x'{bytes(rng.randrange(256) for _ in range(rng.choice((0, 1, 16, 300)))).hex()}'"
        case 3:
            return f"CAST(x'{rng.choice(('ff', '61fe62', 'c3', 'eda080', 'f09f98', '00', '610062', 'fffe'))}' AS TEXT)"
        case 4:
            return f"printf('%.*c', {rng.choice((1000, 1000, 4000, 4000, 4000, 100000, 100000, 1000000))}, '{rng.choice('x<[{')}')"
        case 5:
            return rng.choice(
                ("'[\"a\"'", "'[]'", "'{}'", "'[1,null,{}]'", "'[[[[['", "'\"'", "'[\"\\ud800\"]'", "'null'")
            )
        case 6:
            return "'" + rng.choice(TIMES) + "'"
        case _:
            said = any_text(rng).encode("utf-8", "replace").decode().replace("'", "''")
            return "CAST(x'" + said.encode().hex() + "' AS TEXT)" if "\0" in said else f"'{said}'"


def _mutate_cell(connection: sqlite3.Connection, rng: random.Random) -> str:
    cell = _any_cell(connection, rng)
    if cell is None:
        return ""
    table, column = cell
    hands_off = f"coalesce(instr(CAST({column} AS TEXT), '{_CANARY}'), 0) = 0"
    kind = rng.random()
    if kind < 0.8:
        _try(connection, f"UPDATE {table} SET {column} = {_cell_value(rng)} WHERE {_some_rows(rng)} AND {hands_off}")
    elif kind < 0.9:
        _try(connection, f"DELETE FROM {table} WHERE {_some_rows(rng)}")
    else:
        others = [name for name in _columns(connection, table) if name != "id"]
        named = ", ".join(others)
        before = connection.total_changes
        for _ in range(rng.choice((1, 1, 60))):
            _try(
                connection, f"INSERT INTO {table} ({named}) SELECT {named} FROM {table} WHERE {_some_rows(rng)} LIMIT 1"
            )
            if connection.total_changes == before:
                break
    return f"cell {table}.{column}"


def _mutate_schema(connection: sqlite3.Connection, rng: random.Random) -> str:
    cell = _any_cell(connection, rng)
    if cell is None:
        return ""
    table, column = cell
    other = rng.choice(_COLUMNS)
    kind = rng.randrange(15)
    statements: tuple[str, ...] = (
        (f"ALTER TABLE {table} DROP COLUMN {column}",),
        (f"DROP TABLE {table}",),
        (f"ALTER TABLE {table} RENAME COLUMN {column} TO {other}",),
        (f"ALTER TABLE {table} RENAME TO {rng.choice((*_TABLES, 'lost'))}",),
        (f"ALTER TABLE {table} RENAME TO t_{table}", f"CREATE VIEW {table} AS SELECT * FROM t_{table}"),
        (f"CREATE TABLE t_{table} AS SELECT * FROM {table}", f"DROP TABLE {table}", f"ALTER TABLE t_{table} RENAME TO {table}"),
        (f"ALTER TABLE {table} RENAME COLUMN {column} TO x_{column}",
         f"ALTER TABLE {table} ADD COLUMN {column} {rng.choice(('TEXT', 'INTEGER', 'BLOB', ''))} GENERATED ALWAYS AS "
         + rng.choice((f"(x_{column})", "(abs(-9223372036854775807 - 1))", f"(json_extract(x_{column}, '$'))", "(zeroblob(1000))", f"(x_{column} || x_{column})")) + " VIRTUAL"),
        (f"CREATE TRIGGER tr_{table} AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END",),
        (f"ALTER TABLE {table} RENAME TO t_{table}", f"CREATE VIRTUAL TABLE {table} USING fts5(id, {other}, title)"),
        (f"ALTER TABLE {table} ADD COLUMN {other} {rng.choice(('TEXT', 'REAL DEFAULT 5', 'INTEGER', 'BLOB', 'ANY'))}",),
        (f"ALTER TABLE {table} ADD COLUMN " + rng.choice(('"a""b"', '"<private>"', '"select"', '"ü"', '" "', '"a.b"')) + " TEXT",),
        (f"CREATE INDEX i_{column} ON {table}({column})", "PRAGMA writable_schema=ON",
         f"UPDATE sqlite_master SET sql = {_cell_value(rng)} WHERE name = 'i_{column}' OR tbl_name = '{table}'"),
        ("PRAGMA writable_schema=ON", f"UPDATE sqlite_master SET rootpage = {rng.randint(0, 90)} WHERE name = '{table}'"),
        ("PRAGMA writable_schema=ON", f"UPDATE sqlite_master SET {rng.choice(('type', 'name', 'tbl_name'))} = {_cell_value(rng)} WHERE name = '{table}'"),
        ("PRAGMA encoding", f"PRAGMA journal_mode={rng.choice(('DELETE', 'WAL', 'TRUNCATE'))}", "VACUUM",
         f"PRAGMA user_version={rng.randint(0, 1 << 30)}"),
    )[kind]  # fmt: skip
    for statement in statements:
        _try(connection, statement)
    if kind == 14 and rng.random() < 0.5:
        _as_utf16(connection)
    return statements[0].split("(")[0][:40].lower()


def _as_utf16(connection: sqlite3.Connection) -> None:
    """The same tables in UTF-16."""
    path = Path(connection.execute("PRAGMA database_list").fetchone()[2].decode())
    copy = path.with_name("utf16.db")
    other = sqlite3.connect(copy, isolation_level=None)
    try:
        _try(other, "PRAGMA synchronous=OFF")
        _try(other, "PRAGMA encoding='UTF-16le'")
        _try(other, "BEGIN")
        for table in _tables(connection):
            columns = _columns(connection, table)
            _try(other, f"CREATE TABLE {table} ({', '.join(columns)})")
            for row in _try(connection, f"SELECT {', '.join(columns)} FROM {table}"):
                cells = tuple(cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell for cell in row)
                _try(other, f"INSERT INTO {table} VALUES ({','.join('?' * len(cells))})", cells)
        _try(other, "COMMIT")
    finally:
        other.close()
    path.write_bytes(copy.read_bytes())
    copy.unlink()


def _damage(folder: Path, rng: random.Random) -> str:
    """Damage the files themselves, past SQLite."""
    ends = [end for end in ("", "-wal") if (folder / f"claude-mem.db{end}").is_file()]
    end = rng.choice(ends)
    path = folder / f"claude-mem.db{end}"
    data = bytearray(path.read_bytes())
    kind = rng.randrange(9)
    match kind:
        case 0 | 1:
            for _ in range(rng.choice((1, 3, 50))):
                if data:
                    data[rng.randrange(len(data))] = rng.randrange(256)
        case 2:
            for _ in range(rng.choice((1, 3))):
                if len(data) > 100:
                    data[rng.randrange(16, 100)] = rng.randrange(256)
        case 3:
            del data[rng.randint(0, len(data)) :]
        case 4:
            data += rng.randbytes(rng.choice((1, 512, 4096, 10_000)))
        case 5 if len(data) > 8192:
            pages = len(data) // 4096
            one, other = rng.randrange(pages) * 4096, rng.randrange(pages) * 4096
            data[one : one + 4096] = rng.choice((bytes(4096), bytes(data[other : other + 4096]), rng.randbytes(4096)))
        case 6 if not end:
            (folder / "claude-mem.db-wal").write_bytes(
                rng.choice((b"", rng.randbytes(5000), b"\x37\x7f\x06\x82" + rng.randbytes(60)))
            )
        case 7 if not end:
            (folder / "claude-mem.db-journal").write_bytes(rng.choice((b"", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + rng.randbytes(600), rng.randbytes(100))))  # fmt: skip
        case _:
            # The top of a b-tree page: its kind, free blocks, cell count and cell pointers.
            pages = max(1, len(data) // 4096)
            at = rng.randrange(pages) * 4096 + rng.randrange(40)
            if at < len(data):
                data[at] = rng.randrange(256)
    path.write_bytes(data)
    return f"damage {kind}{end}"


def is_bare(path: Path, word: str) -> bool:
    """True when SQLite itself reads `word` without a tag before it: then damage has destroyed the span."""
    bare = False
    start = re.compile(r"(?i)<\s*(?:private|claude-mem-context|system-reminder)")
    try:
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        connection.text_factory = lambda cell: cell.decode("utf-8", "replace")
        try:
            for table in _TABLES:
                columns = _columns_as_text(connection, table)
                for row in _try(connection, f"SELECT {', '.join(columns) or 'NULL'} FROM {table}"):
                    bare |= any(
                        isinstance(cell, str) and word in cell and not start.search(cell.partition(word)[0])
                        for cell in row
                    )
        finally:
            connection.close()
    except sqlite3.Error:
        return True
    return bare


def _columns_as_text(connection: sqlite3.Connection, table: str) -> list[str]:
    return [
        f"CAST({row[1]} AS TEXT)"
        for row in _try(connection, f"PRAGMA table_xinfo({table})")
        if re.fullmatch(r"\w+", row[1])
    ]
