"""One session out of a database, once the extension is loaded: the first read, which loads it, does not count.

    python benchmarks/lookups.py claude-mem.db SESSION-ID PLAIN-ID --rounds 20

Run as a worker, in a process of its own. Its floor, directly before each read, is one bare indexed query through DuckDB,
for the observations of a session that has its row. With `--sqlite` the same query through Python's sqlite3 is measured
instead of all that: it must never meet DuckDB's scanner on one file in one process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable
from pathlib import Path

from engines import Work, measure_in_turns, peak_bytes

FLOOR = "one bare query"
_QUERY = "SELECT id, type, title, narrative FROM observations WHERE memory_session_id = ?"


def _through_bottlepipe(path: Path, session_id: str, plain_id: str, guess: bool) -> dict[str, Callable[[], int]]:
    import duckdb
    import duckdb_extension_sqlite_scanner as package
    import polars as pl

    from bottlepipe.memory import read_memory

    extension = Path(package.__path__[0]) / "extensions" / f"v{duckdb.__version__}" / "sqlite_scanner.duckdb_extension"
    connection = duckdb.connect(
        config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "threads": "1"}
    )
    connection.execute(f"LOAD '{extension}'")

    def read() -> int:
        found = read_memory(path, [session_id], guess_orphans=guess)
        assert not found.problem, found.problem
        return found.observations.height

    def bare() -> int:
        connection.execute(f"ATTACH '{path}' AS claude_mem (TYPE sqlite, READ_ONLY)")
        try:
            relation = connection.sql(
                "SELECT * FROM sqlite_query('claude_mem', $sql, params=row($id))",
                params={"sql": _QUERY, "id": f"observer-{plain_id}"},
            )
            return pl.DataFrame(relation).height
        finally:
            connection.execute("DETACH claude_mem")

    return {"read_memory": read, FLOOR: bare}


def _through_sqlite(path: Path, plain_id: str) -> dict[str, Callable[[], int]]:
    import sqlite3

    def bare() -> int:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return len(connection.execute(_QUERY, [f"observer-{plain_id}"]).fetchall())

    return {f"sqlite3, {FLOOR}": bare}


def main() -> None:
    parser = argparse.ArgumentParser(description="Read one session out of a database, in turns with its floors.")
    parser.add_argument("database", type=Path)
    parser.add_argument("session_id", help="what is read")
    parser.add_argument("plain_id", help="what the floor asks for")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--sqlite", action="store_true", help="only the floor that Python's sqlite3 gives")
    parser.add_argument("--guess", action="store_true", help="also guess orphans by project and time")
    choices = parser.parse_args()
    if choices.sqlite:
        works = _through_sqlite(choices.database, choices.plain_id)
    else:
        works = _through_bottlepipe(choices.database, choices.session_id, choices.plain_id, choices.guess)
    # The first of each, which loads what it needs, does not count.
    for work in works.values():
        work()
    counted: dict[str, Work] = {name: (work, lambda rows: {"observations": rows}) for name, work in works.items()}
    found = measure_in_turns(counted, choices.rounds, works.get(FLOOR))
    print(json.dumps({"works": found, "peak": peak_bytes()}))


if __name__ == "__main__":
    main()
