"""What is read of claude-mem's database, whatever its age and state, and that reading leaves it as it was."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import duckdb_extension_sqlite_scanner
import pytest
from open_files import open_files

from bottlepipe.database import Database
from bottlepipe.memory import Memory, read_memory, read_observation, read_stored_sessions

CASES = sorted((Path(__file__).parent / "cases" / "memory").glob("*.sql"))
NOBODY = 65534
TABLES = """
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, content_session_id TEXT, memory_session_id TEXT, project TEXT,
  started_at TEXT, started_at_epoch INTEGER);
CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, content_session_id TEXT, prompt_number INTEGER, prompt_text TEXT,
  created_at TEXT, created_at_epoch INTEGER);
CREATE TABLE observations (id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, type TEXT, title TEXT,
  narrative TEXT, prompt_number INTEGER, created_at TEXT, created_at_epoch INTEGER);
"""
SCHEMA = f"""{TABLES}
CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, memory_session_id TEXT, request TEXT, created_at TEXT,
  created_at_epoch INTEGER);
INSERT INTO sdk_sessions VALUES (1, 's1', 'm1', 'kiln', '2026-03-02T10:00:00Z', 1772445600000);
INSERT INTO user_prompts VALUES (1, 's1', 1, 'Glaze the pots', '2026-03-02T10:00:00Z', 1772445600000);
"""
OBSERVED = """
INSERT INTO observations VALUES (1, 'm1', 'kiln', 'change', 'Glazed', NULL, 1, '2026-03-02T10:01:00Z', 1772445660000);
"""
MakeDatabase = Callable[..., Path]
Watch = Callable[..., None]

# Runs SQL and is killed in the middle of its work, so nothing is checkpointed; or holds on until it is killed.
_WRITER = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA wal_autocheckpoint = 0")
for statement in ";".join(sys.argv[3:]).split(";"):
    connection.execute(statement)
print("ready", flush=True)
if sys.argv[2] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.readline()
connection.execute("COMMIT")
print("done", flush=True)
sys.stdin.readline()
"""
_BUSY_WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA synchronous = OFF")
for number in range(1, 1000000):
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO user_prompts VALUES (?, 's1', 1, 'p', '', 1772445600000)", [number])
    connection.execute("INSERT INTO observations (id, memory_session_id) VALUES (?, 'm1')", [number])
    connection.execute("COMMIT")
    if number == 1:
        print("ready", flush=True)
"""
# Everything is imported while the process may still read every folder; then it becomes a user who may not.
_READ_AS_NOBODY = """
import json, os, sys
from pathlib import Path
from bottlepipe.memory import read_memory
read_memory(Path(sys.argv[1]), ["s1"])
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(int(sys.argv[3]))
    os.setuid(int(sys.argv[3]))
memory = read_memory(Path(sys.argv[2]), ["s1"])
print(json.dumps([memory.problem, memory.notes, memory.observations.get_column("title").to_list()]))
"""
_READ = """
import json, sys
from pathlib import Path
from bottlepipe.memory import read_memory
memory = read_memory(Path(sys.argv[1]), ["s1"])
print(json.dumps([memory.problem, memory.prompts.height]))
"""


def titles(memory: Memory) -> list[str]:
    return memory.observations.get_column("title").to_list()


def write_and_die(database: Path, *statements: str) -> None:
    """Write in a process of its own that is killed, so that its `-wal` stays behind."""
    killed = subprocess.run(
        [sys.executable, "-c", _WRITER, database, "die", *statements], stdout=subprocess.PIPE, check=False
    )
    assert -signal.SIGKILL == killed.returncode


class Holder:
    """A process that holds a transaction open on a database until `commit` or the end of the test."""

    def __init__(self, database: Path, *statements: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, database, "hold", *statements],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert "ready\n" == self.process.stdout.readline()

    def commit(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert "done\n" == self.process.stdout.readline()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def hold() -> Iterator[Callable[..., Holder]]:
    holders: list[Holder] = []

    def start(database: Path, *statements: str) -> Holder:
        holders.append(Holder(database, *statements))
        return holders[-1]

    yield start
    for holder in holders:
        holder.end()


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user can enter; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="bottlepipe-test-"))
    folder.chmod(0o755)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755)
    shutil.rmtree(folder)


# --- generations -------------------------------------------------------------------------------------------------


def test_there_are_cases_of_every_generation() -> None:
    """A folder that lost its cases would make every test over them pass."""
    assert 7 == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_every_generation_gives_its_rows(case: Path, make_database: MakeDatabase, unchanged: Watch) -> None:
    """Each expected session has exactly its prompts, observations, summaries and session rows, preferred row first."""
    database = make_database(case.read_text())
    unchanged(database)
    expected = [
        json.loads(line.removeprefix("-- expect: "))
        for line in case.read_text().splitlines()
        if line.startswith("-- expect: ")
    ]

    assert expected
    for session in expected:
        assert session == rows_of(read_memory(database, [session["session"]]), session["session"])
    together = read_memory(database, [session["session"] for session in expected])
    assert expected == [rows_of(together, session["session"]) for session in expected], "a batch of N is not N singles"


def rows_of(memory: Memory, session_id: str) -> dict[str, object]:
    assert "" == memory.problem

    def ids(frame_name: str, column: str) -> list[int]:
        frame = getattr(memory, frame_name)
        return sorted(frame.filter(frame["session_id"] == session_id).get_column(column).to_list())

    return {
        "session": session_id,
        "prompts": ids("prompts", "prompt_id"),
        "observations": ids("observations", "observation_id"),
        "summaries": ids("summaries", "summary_id"),
        "rows": memory.row_ids.get(session_id, []),
        "project": memory.projects.get(session_id),
    }


def case_database(make_database: MakeDatabase, name: str) -> Path:
    return make_database(next(case for case in CASES if case.stem == name).read_text())


def test_rows_of_other_platforms_keep_their_session_row(make_database: MakeDatabase) -> None:
    """Prompt numbers restart in every session row, so each prompt says which it belongs to; Claude's is the default."""
    memory = read_memory(case_database(make_database, "v13.25"), ["now-1"])

    assert [(1, 2), (2, 1), (3, 2)] == memory.prompts.select("prompt_id", "session_db_id").rows()
    assert [(1, 2), (2, 1), (3, 2), (4, 2)] == memory.observations.select("observation_id", "session_db_id").rows()
    assert [("toolu_1", None), ("toolu_2", 4), ("toolu_3", 4)] == memory.tool_uses.drop("session_id").rows()


def test_orphans_are_guessed_only_when_asked(make_database: MakeDatabase) -> None:
    """By project and time span only what nobody else can own is taken, and it is marked."""
    database = case_database(make_database, "v13.15-orphans")

    assert "Lost" not in titles(read_memory(database, ["fifteen-1"]))
    guessed = read_memory(database, ["fifteen-1"], guess_orphans=True).observations
    assert ["Lost"] == guessed.filter(guessed["is_guess"]).get_column("title").to_list()
    known = guessed.filter(~guessed["is_guess"]).get_column("title").to_list()
    assert ["Own id", "Gemini", "OpenRouter", "Joined"] == known


def test_stored_sessions_are_listed_once_with_their_last_activity(make_database: MakeDatabase) -> None:
    """Two platform rows of one session are one session of Claude's project, with the prompts of both."""
    stored, problem = read_stored_sessions(case_database(make_database, "v13.25"))

    assert "" == problem
    assert [
        {"session_id": "now-1", "project": "kiln", "prompts": 3, "at_ms": 1789892400000},
        {"session_id": "observer-lost", "project": "kiln", "prompts": 0, "at_ms": 1789891200000},
    ] == sorted(stored, key=lambda row: row["session_id"])


def test_stored_sessions_of_the_oldest_shape_are_listed(make_database: MakeDatabase) -> None:
    """Without a user_prompts table the start of a session is its last known activity."""
    stored, _ = read_stored_sessions(case_database(make_database, "v4.0"))

    assert [("old-1", 0, 1760860800000), ("old-2", 0, 1760864400000)] == [
        (row["session_id"], row["prompts"], row["at_ms"]) for row in stored
    ]


def test_one_observation_comes_whole(make_database: MakeDatabase) -> None:
    """`show` gets every column, lists as they are stored even where they are broken JSON; an unknown id is no error."""
    database = case_database(make_database, "v13.25")

    row, problem = read_observation(database, 1)
    assert ("", "Joined", '["a"') == (problem, row and row["title"], row and row["facts"])
    assert (None, "") == read_observation(database, 99)


# --- odd cells ---------------------------------------------------------------------------------------------------


def test_seconds_become_milliseconds_and_text_is_the_fallback(make_database: MakeDatabase) -> None:
    """A few old rows count in seconds; an epoch that is no time at all gives way to the ISO text, else to nothing."""
    stored = ["1772445660", "1772445660000", "'abc'", "1e30", "0", "NULL", "-5", "9e18", "x'ff'"]
    rows = ",".join(
        f"({number}, 'm1', 'kiln', 'change', 't', NULL, 1, '2026-03-02T10:01:00Z', {epoch})"
        for number, epoch in enumerate(stored, start=1)
    )
    database = make_database(
        f"{SCHEMA} INSERT INTO observations VALUES {rows}, (99, 'm1', 'kiln', 'x', 't', NULL, 1, 'noon', NULL);"
    )

    times = dict(read_memory(database, ["s1"]).observations.select("observation_id", "at_ms").iter_rows())
    assert {**dict.fromkeys(range(1, len(stored) + 1), 1772445660000), 99: None} == times


def test_mistyped_cells_cost_nothing_but_themselves(make_database: MakeDatabase) -> None:
    """SQLite lets any column hold anything: a number that is none is nothing, a blob is read as text."""
    rows = [
        "1, 'm1', 'kiln', 'change', 'word', NULL, 'abc'",
        "2, 'm1', 'kiln', 'change', 'real', NULL, 2.0",
        "3, 'm1', 'kiln', 'change', x'626c6f62', NULL, x'31'",
        "4, 'm1', 'kiln', 5, 7, NULL, 1e300",
        "5, 'm1', 'kiln', NULL, NULL, NULL, NULL",
    ]
    values = ",".join(f"({row}, '2026-03-02T10:01:00Z', 177244566000{number})" for number, row in enumerate(rows))
    memory = read_memory(make_database(f"{SCHEMA} INSERT INTO observations VALUES {values};"), ["s1"])

    assert "" == memory.problem
    assert [("word", None), ("real", 2), ("blob", 1), ("7", None), (None, None)] == memory.observations.select(
        "title", "prompt_number"
    ).rows()


def test_undecodable_text_is_replaced_and_the_rest_is_kept(make_database: MakeDatabase, unchanged: Watch) -> None:
    """One cell that is no UTF-8 fails a whole query in DuckDB; it must not cost other rows, nulls or empty texts."""
    database = make_database(
        f"""{SCHEMA} {OBSERVED}
        INSERT INTO observations VALUES
          (2, 'm1', 'kiln', 'change', CAST(x'61ff62' AS TEXT), '', 1, '', 1772445661000),
          (3, 'm1', 'kiln', 'change', x'fe', 'ü€🎉', 1, '', 1772445662000);
        INSERT INTO user_prompts VALUES (2, 's1', 2, CAST(x'c3' AS TEXT), '', 1772445670000);"""
    )
    unchanged(database)
    memory = read_memory(database, ["s1"])

    assert "" == memory.problem
    assert [("Glazed", None), ("a\ufffdb", ""), ("\ufffd", "ü€🎉")] == memory.observations.select(
        "title", "narrative"
    ).rows()
    assert ["Glaze the pots", "\ufffd"] == memory.prompts.get_column("text").to_list()
    assert ("\ufffd", "") == ((read_observation(database, 3)[0] or {})["title"], read_observation(database, 3)[1])


def test_text_after_a_nul_is_kept(make_database: MakeDatabase) -> None:
    """A NUL in a cell ends nothing."""
    database = make_database(f"{SCHEMA} {OBSERVED} UPDATE observations SET title = 'a' || char(0) || 'b';")

    assert ["a\0b"] == titles(read_memory(database, ["s1"]))


def test_missing_late_columns_are_nothing(make_database: MakeDatabase) -> None:
    """Any column but the ids may be missing; a database rebuilt by an older claude-mem has lost some."""
    database = make_database(
        """CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, content_session_id TEXT);
        CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, content_session_id TEXT);
        CREATE TABLE observations (id INTEGER PRIMARY KEY, memory_session_id TEXT);
        CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, memory_session_id TEXT);
        CREATE TABLE tool_uses (id INTEGER PRIMARY KEY, content_session_id TEXT);
        INSERT INTO sdk_sessions VALUES (1, 's1'); INSERT INTO user_prompts VALUES (1, 's1');
        INSERT INTO observations VALUES (1, 's1'); INSERT INTO session_summaries VALUES (1, 's1');
        INSERT INTO tool_uses VALUES (1, 's1');"""
    )
    memory = read_memory(database, ["s1"], guess_orphans=True)

    assert ("", 1, 1, 1) == (
        memory.problem,
        memory.prompts.height,
        memory.observations.height,
        memory.summaries.height,
    )
    assert ([{"session_id": "s1", "project": None, "prompts": 1, "at_ms": None}], "") == read_stored_sessions(database)


@pytest.mark.parametrize(
    "hostile", ["' OR 1=1 --", '"; DROP TABLE observations; --', "%", "_1", "s1\0", "", "💥", '["s1"]']
)
def test_a_hostile_session_id_finds_nothing(hostile: str, make_database: MakeDatabase, unchanged: Watch) -> None:
    """Ids are bound values: no quote, wildcard or SQL in one finds another session's rows or breaks the query."""
    database = make_database(SCHEMA + OBSERVED)
    unchanged(database)
    memory = read_memory(database, [hostile])

    assert ("", 0, 0, {}) == (memory.problem, memory.prompts.height, memory.observations.height, memory.row_ids)
    assert ["Glazed"] == titles(read_memory(database, [hostile, "s1"]))


def test_no_sessions_are_no_problem(make_database: MakeDatabase) -> None:
    """Asking for nothing gives nothing; a database without any session says that it is empty."""
    database = make_database(SCHEMA)
    assert ("", False, 0) == (lambda m: (m.problem, m.is_empty, m.prompts.height))(read_memory(database, []))
    empty = make_database("DELETE FROM sdk_sessions", database)
    assert read_memory(empty, ["s1"]).is_empty


@pytest.mark.parametrize("name", ["it's here", 'a "quoted" name', "spaces and ü€🎉", "semi;colon--", "100%{x}"])
def test_any_folder_name_will_do(name: str, tmp_path: Path, make_database: MakeDatabase) -> None:
    """Quotes, spaces and non-ASCII letters in the path of a database are part of the path."""
    database = make_database(SCHEMA + OBSERVED, tmp_path / name / f"{name}.db")

    assert ["Glazed"] == titles(read_memory(database, ["s1"]))


def test_a_relative_path_and_a_link_are_followed(
    tmp_path: Path, make_database: MakeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The `-wal` lies beside the real file, not beside the link to it."""
    database = make_database(f"PRAGMA journal_mode = WAL; {SCHEMA}", tmp_path / "real" / "claude-mem.db")
    write_and_die(database, OBSERVED)
    (tmp_path / "link.db").symlink_to(database)
    monkeypatch.chdir(tmp_path)

    assert ["Glazed"] == titles(read_memory(Path("link.db"), ["s1"]))


# --- other processes ---------------------------------------------------------------------------------------------


def test_rows_that_are_only_in_the_wal_are_read(tmp_path: Path, make_database: MakeDatabase, unchanged: Watch) -> None:
    """A killed claude-mem leaves rows in its `-wal`; they are read, and both files stay as they were."""
    database = make_database(f"PRAGMA journal_mode = WAL; {SCHEMA}")
    write_and_die(database, OBSERVED)
    wal = tmp_path / "claude-mem.db-wal"
    assert wal.stat().st_size
    unchanged(database, wal)

    assert ["Glazed"] == titles(read_memory(database, ["s1"]))
    (tmp_path / "claude-mem.db-shm").unlink()
    assert ["Glazed"] == titles(read_memory(database, ["s1"])), "without the -shm"


def test_a_database_whose_base_file_is_empty_is_read_from_its_wal(tmp_path: Path, unchanged: Watch) -> None:
    """A fresh database can have everything in the `-wal`."""
    database = tmp_path / "claude-mem.db"
    write_and_die(database, "PRAGMA journal_mode = WAL", SCHEMA, OBSERVED)
    unchanged(database, tmp_path / "claude-mem.db-wal")

    assert database.stat().st_size <= 4096
    assert ["Glazed"] == titles(read_memory(database, ["s1"]))


def test_a_writer_is_neither_seen_half_way_nor_disturbed(
    make_database: MakeDatabase, hold: Callable[..., Holder]
) -> None:
    """While another process is inside a transaction its rows are not there yet; it can commit afterwards."""
    database = make_database(f"PRAGMA journal_mode = WAL; {SCHEMA}")
    writer = hold(database, "BEGIN IMMEDIATE", OBSERVED)

    assert ("", []) == (lambda m: (m.problem, titles(m)))(read_memory(database, ["s1"]))
    writer.commit()
    assert ["Glazed"] == titles(read_memory(database, ["s1"]))


def test_one_read_sees_one_state_of_a_database_that_is_being_written(make_database: MakeDatabase) -> None:
    """Prompt and observation are written together; a reader never sees one without the other."""
    database = make_database(f"PRAGMA journal_mode = WAL; {SCHEMA} DELETE FROM user_prompts;")
    with subprocess.Popen([sys.executable, "-c", _BUSY_WRITER, database], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert "ready\n" == writer.stdout.readline()
        seen = [read_memory(database, ["s1"]) for _ in range(3)]
        writer.kill()

    assert ["", "", ""] == [memory.problem for memory in seen]
    assert 0 < seen[0].prompts.height < seen[2].prompts.height
    assert [memory.prompts.height for memory in seen] == [memory.observations.height for memory in seen]


@pytest.mark.parametrize(
    "lock",
    [
        ["BEGIN EXCLUSIVE", OBSERVED],
        [
            "PRAGMA journal_mode = WAL",
            "PRAGMA locking_mode = EXCLUSIVE",
            OBSERVED,
            "BEGIN IMMEDIATE",
            "DELETE FROM user_prompts",
        ],
    ],
    ids=["rollback journal", "wal"],
)
def test_a_lock_is_waited_for_but_not_for_long(
    lock: list[str], make_database: MakeDatabase, hold: Callable[..., Holder]
) -> None:
    """However many sessions are asked for, a locked database costs about two seconds, once; then it says why."""
    database = make_database(SCHEMA)
    hold(database, *lock)
    started = time.monotonic()
    memory = read_memory(database, ["s1", *(f"other-{number}" for number in range(200))])

    assert "claude-mem's database stayed locked for 2 s" == memory.problem
    # Waited for once; 200 times would be 400 s.
    assert 1.5 < time.monotonic() - started < 60


def test_a_lock_that_goes_away_is_no_problem(make_database: MakeDatabase, hold: Callable[..., Holder]) -> None:
    """A short exclusive lock is waited out."""
    database = make_database(SCHEMA)
    writer = hold(database, "BEGIN EXCLUSIVE", OBSERVED)
    timer = threading.Timer(0.5, writer.commit)
    timer.start()
    memory = read_memory(database, ["s1"])
    timer.join()

    assert ("", ["Glazed"]) == (memory.problem, titles(memory))


def test_two_threads_read_one_database_at_the_same_time(make_database: MakeDatabase) -> None:
    """A resident process may render two sessions at once; each gets the whole of its own."""
    rows = ",".join(
        f"({number}, 'm{number % 4}', 'kiln', 'change', 't{number % 4}', NULL, 1, '', 1772445660000)"
        for number in range(400)
    )
    sessions = ",".join(f"({number + 10}, 's-{number}', 'm{number}', 'kiln', '', 0)" for number in range(4))
    # A rollback journal: there the lock on the file itself is what keeps a reader's state.
    database = make_database(
        f"""{SCHEMA} DELETE FROM sdk_sessions; INSERT INTO sdk_sessions VALUES {sessions};
        INSERT INTO observations VALUES {rows};"""
    )
    seen: list[tuple[str, str, list[str]]] = []

    def read(number: int) -> None:
        for _ in range(10):
            memory = read_memory(database, [f"s-{number}"])
            seen.append((f"t{number}", memory.problem, titles(memory)))

    threads = [threading.Thread(target=read, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 40 == len(seen)
    assert all(problem == "" and found == [title] * 100 for title, problem, found in seen)
    assert [] == open_files(database.parent), "something stays open between reads"


def test_a_writer_waits_for_no_reader_that_is_done(make_database: MakeDatabase, hold: Callable[..., Holder]) -> None:
    """Between reads no lock stays: another process can lock the whole database, and gets its turn at once."""
    database = make_database(SCHEMA + OBSERVED)

    assert ["Glazed"] == titles(read_memory(database, ["s1"]))
    hold(database, "PRAGMA busy_timeout = 0", "BEGIN EXCLUSIVE", "DELETE FROM user_prompts").commit()
    assert 0 == read_memory(database, ["s1"]).prompts.height


_LOAD_ONCE = """
import json, os, sys
from pathlib import Path
from bottlepipe.memory import read_memory
extension = Path(sys.argv[2])
answers = []
for database in sys.argv[3:]:
    extension.rename(f"{extension}.away")
    answers.append(read_memory(Path(database), ["s1"]).problem)
    os.rename(f"{extension}.away", extension)
    answers.append(read_memory(Path(database), ["s1"]).problem)
print(json.dumps(answers))
"""


def test_the_extension_is_loaded_once_and_a_refusal_is_not_for_ever(
    tmp_path: Path, make_database: MakeDatabase
) -> None:
    """Loading costs more than anything else, so a process does it once; but one that comes later is found."""
    import duckdb_extension_sqlite_scanner as package

    original = Path(next(iter(package.__path__)))
    shutil.copytree(original, tmp_path / original.name)
    (extension,) = (tmp_path / original.name).rglob("*.duckdb_extension")
    databases = [make_database(SCHEMA, tmp_path / name) for name in ("one.db", "two.db")]
    done = subprocess.run(
        [sys.executable, "-c", _LOAD_ONCE, "", extension, *databases],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    missing = "DuckDB's SQLite extension is not installed (package duckdb-extension-sqlite-scanner)"
    assert [missing, "", "", ""] == json.loads(done.stdout)


_POOL = """
import multiprocessing, sys
from pathlib import Path
from bottlepipe.memory import read_memory

def read(database):
    memory = read_memory(Path(database), ["s1"])
    return memory.problem, memory.observations.height

if __name__ == "__main__":
    assert ("", 1) == read(sys.argv[1])
    for method in ("forkserver", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(pool.map(read, [sys.argv[1]] * 4, chunksize=1) == [("", 1)] * 4)
"""


def test_a_pool_of_processes_reads_after_its_parent_has_read(tmp_path: Path, make_database: MakeDatabase) -> None:
    """Each worker makes its own engine; nothing of the parent's is used."""
    (tmp_path / "pool.py").write_text(_POOL)
    database = make_database(SCHEMA + OBSERVED)
    done = subprocess.run(
        [sys.executable, tmp_path / "pool.py", database], capture_output=True, text=True, timeout=100, check=True
    )

    assert ["True", "True"] == done.stdout.split()


# --- plans -------------------------------------------------------------------------------------------------------

# Every index that claude-mem's versions have had on the columns that are asked for.
INDEXES = {
    "13.25": """
        CREATE INDEX i1 ON sdk_sessions (content_session_id); CREATE INDEX i2 ON sdk_sessions (memory_session_id);
        CREATE INDEX i3 ON observations (memory_session_id); CREATE INDEX i4 ON observations (project);
        CREATE INDEX i5 ON observations (created_at_epoch DESC); CREATE INDEX i6 ON observations (type);
        CREATE INDEX i7 ON session_summaries (memory_session_id);
        CREATE INDEX i8 ON user_prompts (content_session_id); CREATE INDEX i9 ON user_prompts (prompt_number);
        CREATE INDEX i10 ON user_prompts (content_session_id, prompt_number);
        CREATE INDEX i11 ON tool_uses (content_session_id); CREATE INDEX i12 ON tool_uses (memory_session_id);
        CREATE INDEX i13 ON tool_uses (observation_id);""",
    "4.2": """
        CREATE INDEX i1 ON sdk_sessions (content_session_id); CREATE INDEX i2 ON sdk_sessions (memory_session_id);
        CREATE INDEX i3 ON observations (memory_session_id); CREATE INDEX i4 ON observations (project);
        CREATE INDEX i5 ON session_summaries (memory_session_id);
        CREATE INDEX i6 ON user_prompts (content_session_id); CREATE INDEX i7 ON user_prompts (prompt_number);""",
}
TOOL_USES = """
CREATE TABLE tool_uses (id INTEGER PRIMARY KEY, tool_use_id TEXT, content_session_id TEXT, memory_session_id TEXT,
  session_db_id INTEGER, observation_id INTEGER);
"""
# Sessions whose rows are found by every step: joined, own id, Gemini's id, only through a tool use.
MANY = """
WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 2010)
INSERT INTO observations SELECT i, CASE i % 4 WHEN 0 THEN 'm' || (i / 20) WHEN 1 THEN 's' || (i / 20)
  WHEN 2 THEN 'gemini-s' || (i / 20) || '-17' ELSE 'lost' || i END, 'kiln', 'change', 't', NULL, 1, '', 1772445660000 FROM n;
INSERT INTO sdk_sessions SELECT DISTINCT id / 20 + 10, 's' || (id / 20), 'm' || (id / 20), 'kiln', '', 0 FROM observations;
INSERT INTO user_prompts SELECT id, 's' || (id / 20), 1, 'p', '', 1772445600000 FROM observations;
INSERT INTO session_summaries SELECT id, memory_session_id, 'r', '', 0 FROM observations;
"""
MANY_TOOL_USES = """
INSERT INTO tool_uses SELECT id, 't' || id, 's' || (id / 20), NULL, NULL, id FROM observations WHERE id % 4 = 3;
"""


@pytest.mark.parametrize("analyzed", ["", "ANALYZE;"], ids=["no statistics", "statistics"])
@pytest.mark.parametrize("version", INDEXES)
def test_every_step_for_one_session_uses_an_index(
    version: str, analyzed: str, make_database: MakeDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No statement reads a whole table of a database of any size; SQLite itself says how it goes about each."""
    schema = SCHEMA + (TOOL_USES if version == "13.25" else "")
    tool_uses = MANY_TOOL_USES if version == "13.25" else ""
    database = make_database(schema + INDEXES[version] + MANY + tool_uses + analyzed)
    plans: list[str] = []
    run = Database._run

    def explain(self: Database, sql: str, values: Sequence[str | int] | None) -> list[tuple[str, ...]]:
        plans.extend(row[-1] for row in run(self, f"EXPLAIN QUERY PLAN {sql}", values))
        return run(self, sql, values)

    monkeypatch.setattr(Database, "_run", explain)
    memory = read_memory(database, ["s50"])

    assert ("", 20 if tool_uses else 15) == (memory.problem, memory.observations.height)
    scanned = {
        plan.split()[1]
        for plan in plans
        if plan.startswith("SCAN") and "VIRTUAL TABLE" not in plan and "SUBQUERY" not in plan
    }
    # The list of tables; what a step has found; and whether there is any session at all, which stops at the first.
    assert scanned <= {"m", "found", "first", "CONSTANT", "sdk_sessions"}, plans
    found = " ".join(plans)
    assert all(f"SEARCH {alias} USING" in found for alias in "spr")
    assert ("SEARCH t USING" in found) == bool(tool_uses)


def test_without_an_index_the_rows_are_the_same(make_database: MakeDatabase) -> None:
    """A database that somebody rebuilt may have lost its indexes: it is read slower, not worse."""
    sql = SCHEMA + TOOL_USES + MANY + MANY_TOOL_USES
    database = make_database(sql)
    indexed = make_database(sql + INDEXES["13.25"], database.with_name("indexed.db"))

    memory, expected = read_memory(database, ["s50"]), read_memory(indexed, ["s50"])
    assert 20 == memory.observations.height
    for name in ("prompts", "observations", "summaries", "tool_uses"):
        assert getattr(memory, name).equals(getattr(expected, name))


# --- databases that cannot be read -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "claude-mem has no database here"),
        (b"", "claude-mem's database is empty"),
        (b"# not SQLite\n" * 999, "claude-mem's database file is not a SQLite database"),
        (b"SQLite format 3\0" + b"\x07" * 9000, "claude-mem's database is damaged"),
        ("folder", "claude-mem's database is a folder"),
        ("fifo", "claude-mem's database is not a regular file"),
        ("loop", "claude-mem's database has a path that cannot be used"),
    ],
    ids=["missing", "empty", "text", "garbage", "folder", "pipe", "link to itself"],
)
def test_what_is_no_database_says_so(content: bytes | str | None, problem: str, tmp_path: Path) -> None:
    """Whatever stands in the database's place is named, and nothing is made or changed there."""
    database = tmp_path / "claude-mem.db"
    match content:
        case bytes():
            database.write_bytes(content)
        case "folder":
            database.mkdir()
        case "fifo":
            os.mkfifo(database)
        case "loop":
            database.symlink_to(database)
    before = sorted(path.name for path in tmp_path.iterdir())

    memory = read_memory(database, ["s1"])
    assert (problem, 0, 0) == (memory.problem, memory.prompts.height, memory.observations.height)
    assert ([], problem) == read_stored_sessions(database)
    assert (None, problem) == read_observation(database, 1)
    assert before == sorted(path.name for path in tmp_path.iterdir())


@pytest.mark.parametrize("path", ["nul\0in.db", "\udcff.db", "x" * 5000], ids=["nul", "no UTF-8", "too long"])
def test_an_impossible_path_is_a_problem_not_a_crash(path: str, tmp_path: Path) -> None:
    """A path out of a settings file may be anything."""
    assert "claude-mem" in read_memory(tmp_path / path, ["s1"]).problem


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE sessions (id INTEGER PRIMARY KEY); CREATE TABLE memories (id INTEGER PRIMARY KEY);",
        "CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, content_session_id TEXT);",
        "CREATE TABLE a (id INTEGER, content_session_id TEXT, memory_session_id TEXT);"
        " CREATE VIEW sdk_sessions AS SELECT * FROM a; CREATE VIEW observations AS SELECT * FROM a;",
        "CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, content_session_id TEXT);"
        " CREATE VIRTUAL TABLE observations USING fts5(id, memory_session_id);",
        "CREATE TABLE sdk_sessions (x TEXT); CREATE TABLE observations (y TEXT);",
    ],
    ids=["version 3", "half", "views", "virtual table", "other columns"],
)
def test_another_schema_is_refused(sql: str, make_database: MakeDatabase) -> None:
    """Only real tables with claude-mem's ids count; a view could run anything."""
    problem = read_memory(make_database(sql), ["s1"]).problem

    assert "this is no claude-mem database of version 4 or later (its tables are missing)" == problem


def many_rows(count: int) -> str:
    return f"""{SCHEMA}
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
    INSERT INTO observations
    SELECT i, 'm1', 'kiln', 'change', 'title', hex(randomblob(500)), 1, '', 1772445660000 + i FROM n;"""


def test_corrupt_pages_are_a_problem(make_database: MakeDatabase) -> None:
    """Damage in the middle of the file is found when it is read."""
    database = make_database(many_rows(50))
    content = bytearray(database.read_bytes())
    content[8 * 4096 :] = b"\xa5" * (len(content) - 8 * 4096)
    database.write_bytes(content)

    assert "claude-mem's database is damaged" == read_memory(database, ["s1"]).problem


def test_a_truncated_file_is_a_problem(make_database: MakeDatabase) -> None:
    """A database cut in the middle, as a full disk leaves it, is damaged."""
    database = make_database(many_rows(50))
    os.truncate(database, 6 * 4096)

    assert "claude-mem's database is damaged" == read_memory(database, ["s1"]).problem


def test_a_damaged_wal_leaves_what_was_checkpointed(
    tmp_path: Path, make_database: MakeDatabase, unchanged: Watch
) -> None:
    """Damage is often in the `-wal` alone: the base file is read without it, and a note says so."""
    database = make_database(f"PRAGMA journal_mode = WAL; {SCHEMA} {OBSERVED}")
    write_and_die(database, "UPDATE observations SET title = 'Fired'")
    wal = tmp_path / "claude-mem.db-wal"
    (tmp_path / "claude-mem.db-shm").unlink()
    wal.write_bytes(with_damaged_pages(wal.read_bytes()))
    unchanged(database, wal)
    memory = read_memory(database, ["s1"])

    assert ("", ["Glazed"]) == (memory.problem, titles(memory))
    assert ["claude-mem's write-ahead log is damaged; only what was checkpointed before could be read"] == memory.notes


def with_damaged_pages(wal: bytes) -> bytes:
    """A `-wal` whose pages are rubbish under valid checksums; SQLite itself would drop frames with invalid ones."""
    order = ">" if wal[3] & 1 else "<"
    page_size = struct.unpack(">I", wal[8:12])[0]

    def checksum(data: bytes, one: int, two: int) -> tuple[int, int]:
        words = struct.unpack(f"{order}{len(data) // 4}I", data)
        for first, second in zip(words[::2], words[1::2], strict=True):
            one = (one + first + two) & 0xFFFFFFFF
            two = (two + second + one) & 0xFFFFFFFF
        return one, two

    one, two = struct.unpack(">II", wal[24:32])
    frames = [wal[:32]]
    for start in range(32, len(wal), 24 + page_size):
        head = wal[start : start + 16]
        page = b"\xa5" * page_size
        one, two = checksum(page, *checksum(head[:8], one, two))
        frames.append(head + struct.pack(">II", one, two) + page)
    return b"".join(frames)


# --- permissions, the extension, the network ---------------------------------------------------------------------


def read_as_nobody(readable: Path, database: Path, scratch: Path) -> tuple[str, list[str], list[str]]:
    # Nobody may not be able to enter the folder that the extension is installed in: a copy lies where anybody can.
    packages = scratch.parent / "packages"
    if not packages.exists():
        (installed,) = duckdb_extension_sqlite_scanner.__path__
        shutil.copytree(installed, packages / "duckdb_extension_sqlite_scanner", copy_function=shutil.copyfile)
        packages.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", _READ_AS_NOBODY, readable, database, str(NOBODY)],
        env={**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=True,
    )
    problem, notes, found = json.loads(done.stdout)
    return problem, notes, found


def test_a_folder_that_cannot_be_written_is_read_through_a_private_copy(
    public_folder: Path, make_database: MakeDatabase, unchanged: Watch
) -> None:
    """SQLite cannot make its `-shm` there; a copy of `.db` and `-wal` is read instead, and nothing of it is left."""
    scratch = public_folder / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)
    database = make_database(f"PRAGMA journal_mode = WAL; {SCHEMA}", public_folder / "data" / "claude-mem.db")
    write_and_die(database, OBSERVED)
    wal = database.with_name("claude-mem.db-wal")
    database.with_name("claude-mem.db-shm").unlink()
    for path in (database, wal):
        path.chmod(0o444)
    database.parent.chmod(0o555)
    unchanged(database, wal)
    readable = make_database(SCHEMA)

    assert ("", [], ["Glazed"]) == read_as_nobody(readable, database, scratch)
    assert [] == list(scratch.iterdir())
    assert ["claude-mem.db", "claude-mem.db-wal"] == sorted(path.name for path in database.parent.iterdir())


def test_a_database_that_may_not_be_read_says_so(public_folder: Path, make_database: MakeDatabase) -> None:
    """Without the right to read the file there is a reason, not a crash."""
    database = make_database(SCHEMA, public_folder / "claude-mem.db")
    database.chmod(0)
    readable = make_database(SCHEMA)

    expected = "claude-mem's database may not be read: permission denied"
    assert (expected, [], []) == read_as_nobody(readable, database, public_folder)
    assert 0 == stat.S_IMODE(database.stat().st_mode)


def without_extension(folder: Path) -> dict[str, str]:
    """An environment in which the extension's package is not found: an empty one of its name stands before it."""
    package = folder / "duckdb_extension_sqlite_scanner"
    package.mkdir()
    (package / "__init__.py").write_text("")
    return {**os.environ, "PYTHONPATH": str(folder)}


def read_in_child(database: Path, environment: dict[str, str]) -> tuple[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", _READ, database], env=environment, capture_output=True, text=True, check=True
    )
    problem, prompts = json.loads(done.stdout)
    return problem, prompts


def test_a_missing_extension_is_a_problem_and_asks_no_network(
    tmp_path: Path, make_database: MakeDatabase, home: Path
) -> None:
    """DuckDB would fetch the extension by itself. A listening proxy sees that it does not even try."""
    database = make_database(SCHEMA)
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(0.1)
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        environment = without_extension(tmp_path)
        environment |= dict.fromkeys(["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"], address)
        problem, prompts = read_in_child(database, environment)

        assert "DuckDB's SQLite extension is not installed (package duckdb-extension-sqlite-scanner)" == problem
        assert 0 == prompts
        with pytest.raises(TimeoutError):
            proxy.accept()
    assert [] == [path for path in home.rglob("*") if path.is_file()]


def test_a_tampered_extension_is_refused(tmp_path: Path, make_database: MakeDatabase) -> None:
    """One changed byte breaks the signature: nothing of it runs, and the bottle says why it has no observations."""
    import duckdb_extension_sqlite_scanner as package

    original = Path(next(iter(package.__path__)))
    copy = tmp_path / original.name
    shutil.copytree(original, copy)
    (extension,) = copy.rglob("*.duckdb_extension")
    with open(extension, "r+b") as file:
        file.seek(1_000_000)
        byte = file.read(1)
        file.seek(1_000_000)
        file.write(bytes([byte[0] ^ 1]))

    problem, prompts = read_in_child(make_database(SCHEMA), {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert problem.startswith("DuckDB's SQLite extension was refused: ")
    assert 0 == prompts


# --- real databases ----------------------------------------------------------------------------------------------

# session rows, prompts, observations and summaries that sessions can reach, tool uses
_REAL = {
    "v13.25.3-store": (6, 12, 12, 3, 7),
    "v13.25.3-worker": (3, 20, 6, 2, 5),
    "v13.25.3-upgraded-from-v4.2.1": (5, 15, 14, 4, 0),
    "v13.15.3": (5, 12, 12, 3, 0),
    "v13.15.3-orphans": (5, 13, 13, 4, 0),
    "v13.10.3-community-edge": (5, 12, 12, 3, 0),
    "v12.4.7": (4, 12, 12, 3, 0),
    "v9.1.0": (4, 12, 12, 3, 0),
    "v8.2.5": (4, 11, 12, 3, 0),
    "v4.2.1": (4, 13, 12, 3, 0),
    "v4.0.2": (4, 0, 12, 3, 0),
}


@pytest.mark.parametrize("name", _REAL)
def test_real_databases_are_read_whole(name: str, corpus: Path, tmp_path: Path, unchanged: Watch) -> None:
    """Every row that claude-mem itself wrote is found; lost sessions' observations only by a guess, which is off."""
    for source in (corpus / "claude-mem" / name).iterdir():
        shutil.copyfile(source, tmp_path / source.name)
    database = tmp_path / "claude-mem.db"
    unchanged(*tmp_path.iterdir())
    stored, problem = read_stored_sessions(database)
    ids = [row["session_id"] for row in stored]
    memory = read_memory(database, ids)
    counts = (
        sum(map(len, memory.row_ids.values())),
        memory.prompts.height,
        memory.observations.height,
        memory.summaries.height,
        memory.tool_uses.height,
    )

    assert ("", "", []) == (problem, memory.problem, memory.notes)
    if name == "v13.15.3-orphans":
        rows, prompts, observations, summaries, tool_uses = _REAL[name]
        assert (rows, prompts, observations - 9, summaries - 3, tool_uses) == counts
        guessed = read_memory(database, ids, guess_orphans=True).observations
        assert (observations, 9) == (guessed.height, guessed.get_column("is_guess").sum())
    else:
        assert _REAL[name] == counts
    assert 0 == memory.observations.get_column("at_ms").null_count()


@pytest.mark.parametrize("part", ["column", "table", "schema"])
def test_a_name_that_is_no_utf8_is_no_endless_loop(make_database: MakeDatabase, part: str) -> None:
    """One bad byte in the schema costs at most the observations."""
    database = make_database(SCHEMA + "CREATE TABLE spare_table (spare_column TEXT);" + OBSERVED)
    data = database.read_bytes()
    old, new = {
        "column": (b"spare_column", b"spare\xffcolumn"),
        "table": (b"spare_table", b"spare\xfftable"),
        "schema": (b"CREATE TABLE sdk_sessions", b"CREATE \xffABLE sdk_sessions"),
    }[part]
    assert old in data
    database.write_bytes(data.replace(old, new))

    memory = read_memory(database, ["s1"])

    assert ["Glazed"] == titles(memory) or "" != memory.problem
