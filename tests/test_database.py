"""One DuckDB serves a process: a bad database, or a read that was stopped, costs the next read nothing."""

from __future__ import annotations

import gc
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import duckdb
import pytest
from open_files import open_files

from bottlepipe import database as module
from bottlepipe.memory import read_memory

SCHEMA = """
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, content_session_id TEXT, memory_session_id TEXT, project TEXT);
CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, content_session_id TEXT, prompt_number INTEGER, prompt_text TEXT);
CREATE TABLE observations (id INTEGER PRIMARY KEY, memory_session_id TEXT, title TEXT, prompt_number INTEGER);
CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, memory_session_id TEXT);
INSERT INTO sdk_sessions VALUES (1, 's1', 'm1', 'kiln');
INSERT INTO observations VALUES (1, 'm1', 'Glazed', 1);
"""
MakeDatabase = Callable[..., Path]


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[duckdb.DuckDBPyConnection]:
    """Every DuckDB that is made in the test. The first read makes one."""
    made: list[duckdb.DuckDBPyConnection] = []
    connect = module._connect

    def watched() -> duckdb.DuckDBPyConnection:
        made.append(connect())
        return made[-1]

    monkeypatch.setattr(module, "_ENGINE", module._Engine())
    monkeypatch.setattr(module, "_connect", watched)
    return made


def no_claude_mem(make_database: MakeDatabase, path: Path) -> None:
    make_database("CREATE TABLE letters (body TEXT)", path)


def damaged(make_database: MakeDatabase, path: Path) -> None:
    make_database(SCHEMA, path)
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 4000)


def no_database(_: MakeDatabase, path: Path) -> None:
    path.write_text("dear diary")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (no_claude_mem, "this is no claude-mem database of version 4 or later (its tables are missing)"),
        (damaged, "claude-mem's database is damaged"),
        (no_database, "claude-mem's database file is not a SQLite database"),
    ],
)
def test_a_bad_database_does_not_cost_the_next_read_a_new_engine(
    make: Callable[[MakeDatabase, Path], None],
    problem: str,
    make_database: MakeDatabase,
    engines: list[duckdb.DuckDBPyConnection],
    tmp_path: Path,
) -> None:
    """Loading the extension takes a quarter of a second: once in a process, whatever its databases are like."""
    sound, bad = make_database(SCHEMA), tmp_path / "bad.db"
    make(make_database, bad)

    assert [problem] * 3 == [read_memory(bad, ["s1"]).problem for _ in range(3)]

    memory = read_memory(sound, ["s1"])
    assert ("", 1) == (memory.problem, memory.observations.height)
    assert 1 == len(engines)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no timers that interrupt on Windows")
def test_an_interrupted_read_says_so_and_the_next_one_is_right(
    make_database: MakeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Ctrl-C at any moment is a KeyboardInterrupt, with no other words, and breaks nothing."""
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    database = make_database(SCHEMA)
    read_memory(database, ["s1"])
    started = time.perf_counter()
    read_memory(database, ["s1"])
    usual_s = time.perf_counter() - started
    rng = random.Random(1)
    interrupted = 0

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.random() * usual_s + 1e-5)
                read_memory(database, ["s1"])
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
            assert [] == open_files(database.parent), "what was interrupted keeps a lock"
            assert 1 == read_memory(database, ["s1"]).observations.height
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    gc.collect()
    assert interrupted
    assert [] == ignored
