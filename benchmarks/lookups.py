"""One session out of a database, once the extension is loaded: the first read, which loads it, does not count.

    python benchmarks/lookups.py claude-mem.db SESSION-ID --rounds 20

Run as a worker, in a process of its own. Beside it two floors: one bare indexed query through DuckDB too, and with `--sqlite` instead of all that the
same query through Python's sqlite3, which must never meet DuckDB's scanner on one file in one process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engines import peak_bytes, timed

_QUERY = "SELECT id, type, title, narrative FROM observations WHERE memory_session_id = ?"


def _through_bottlepipe(path: Path, session_id: str, guess: bool) -> dict[str, Callable[[], int]]:
    import duckdb
    import duckdb_extension_sqlite_scanner as package
    import polars as pl

    from bottlepipe.memory import read_memory

    extension = Path(package.__path__[0]) / "extensions" / f"v{duckdb.__version__}" / "sqlite_scanner.duckdb_extension"
    choices = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "threads": "1"}
    connection = duckdb.connect(":memory:", config=choices)
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
                params={"sql": _QUERY, "id": f"observer-{session_id}"},
            )
            return pl.DataFrame(relation).height
        finally:
            connection.execute("DETACH claude_mem")

    return {"read_memory": read, "one bare query": bare}


def _through_sqlite(path: Path, session_id: str) -> dict[str, Callable[[], int]]:
    import sqlite3

    def bare() -> int:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return len(connection.execute(_QUERY, [f"observer-{session_id}"]).fetchall())

    return {"sqlite3, one bare query": bare}


def main() -> None:
    parser = argparse.ArgumentParser(description="Read one session out of a database, in turns with its floors.")
    parser.add_argument("database", type=Path)
    parser.add_argument("session_id")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--sqlite", action="store_true", help="only the floor that Python's sqlite3 gives")
    parser.add_argument("--guess", action="store_true", help="also guess orphans by project and time")
    choices = parser.parse_args()
    if choices.sqlite:
        works = _through_sqlite(choices.database, choices.session_id)
    else:
        works = _through_bottlepipe(choices.database, choices.session_id, choices.guess)
    found: dict[str, dict[str, Any]] = {name: {"cpu": [], "wall": []} for name in works}
    for name, work in works.items():
        found[name]["answer"] = {"observations": work()}
    for _ in range(choices.rounds):
        for name, work in works.items():
            rows, cpu, wall = timed(work)
            assert rows == found[name]["answer"]["observations"]
            found[name]["cpu"].append(cpu)
            found[name]["wall"].append(wall)
    print(json.dumps({"engines": found, "peak": peak_bytes()}))


if __name__ == "__main__":
    main()
