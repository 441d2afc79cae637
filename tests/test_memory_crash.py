"""Databases that others write, lock, move and delete while they are read, and what killed processes leave behind.

Real processes with Python's own SQLite write; what is read must be one state that was committed as a whole.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_memory import TABLES
from test_pipeline import SESSION, transcript

from bottlepipe.copies import PREFIX, KeptChanging, private_copy
from bottlepipe.memory import Memory, read_memory

NOBODY = 65534
MakeDatabase = Callable[..., Path]
Watch = Callable[..., None]
SCHEMA = f"""{TABLES}
CREATE INDEX i1 ON observations (memory_session_id);
CREATE INDEX i2 ON user_prompts (content_session_id);
INSERT INTO sdk_sessions VALUES (1, 's1', 'm1', '0', '', 1772445600000);
"""

# Commits states that can be told from one another: in state n there are n % 30 prompts and observations, and each row
# says n. The page cache is so small that a transaction reaches the files before its end.
_WRITER = """
import os, random, sqlite3, sys, time
path, schema = sys.argv[1], sys.argv[2]
deeds, rng = sys.argv[3].split(), random.Random(int(sys.argv[4]))

def connect(path):
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    connection.execute("PRAGMA cache_size = 8")
    connection.execute("PRAGMA synchronous = OFF")
    return connection

def commit(number):
    connection.execute("BEGIN IMMEDIATE")
    if number % 30 == 0:
        connection.execute("DELETE FROM user_prompts")
        connection.execute("DELETE FROM observations")
    else:
        connection.execute("INSERT INTO user_prompts VALUES (?, 's1', 1, '', '', 1772445600000)", [number])
        connection.execute("INSERT INTO observations VALUES (?, 'm1', '', '', '', '', 1, '', 1772445600000)", [number])
    connection.execute("UPDATE user_prompts SET prompt_text = ?", [str(number)])
    connection.execute("UPDATE observations SET title = ?, narrative = hex(randomblob(1500))", [str(number)])
    connection.execute("UPDATE sdk_sessions SET project = ?", [str(number)])
    if rng.random() < 0.3:
        time.sleep(rng.random() / 100)
    connection.execute("COMMIT")

def disturb(deed):
    global connection
    if deed == "checkpoint":
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    elif deed == "lock":
        connection.execute("BEGIN EXCLUSIVE")
        time.sleep(rng.random() / 10)
        connection.execute("COMMIT")
    elif deed == "vacuum":
        connection.execute("VACUUM")
    elif deed == "journal":
        connection.execute("PRAGMA journal_mode = " + rng.choice(["DELETE", "WAL", "TRUNCATE", "PERSIST"]))
    elif deed == "pause":
        time.sleep(rng.random() / 5)
    elif deed in ("replace", "delete"):
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        if os.path.exists(path + ".new"):
            os.unlink(path + ".new")
        connection.execute("VACUUM INTO ?", [path + ".new"])
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        other = connect(path + ".new")
        other.execute("PRAGMA journal_mode = " + mode)
        other.close()
        for end in ("-wal", "-shm", "-journal"):
            if os.path.exists(path + end):
                os.unlink(path + end)
        if deed == "delete":
            os.unlink(path)
            time.sleep(rng.random() / 50)
        os.replace(path + ".new", path)
        connection = connect(path)

connection = connect(path)
connection.execute("PRAGMA journal_mode = " + sys.argv[5])
connection.executescript(schema)
number = 0
while True:
    number += 1
    commit(number)
    time.sleep(rng.random() / 200)
    if number == 1:
        print("ready", flush=True)
    if deeds and rng.random() < 0.4:
        try:
            disturb(rng.choice(deeds))
        except sqlite3.OperationalError as error:
            if "lock" not in str(error):
                raise
"""


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed that a failed test shows."""
    chosen = request.config.getoption("--db-seed")
    value = random.SystemRandom().randrange(1 << 30) if chosen is None else int(chosen)
    print(f"--db-seed {value}")
    return value


@contextlib.contextmanager
def writing(
    database: Path, deeds: str, seed: int, journal: str = "WAL", schema: str = SCHEMA
) -> Iterator[subprocess.Popen[str]]:
    """A process that writes to `database` until it is killed at the end."""
    command = [sys.executable, "-c", _WRITER, str(database), schema, deeds, str(seed), journal]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            assert "ready\n" == writer.stdout.readline()
            yield writer
            assert writer.poll() in (None, -signal.SIGKILL), writer.stderr and writer.stderr.read()
        finally:
            writer.kill()


def copies(scratch: Path) -> set[Path]:
    """The private copies in it. SQLite's own temporary files of a writer that was killed may lie there too."""
    return {path for path in scratch.iterdir() if path.name.startswith(PREFIX)}


def committed_state(memory: Memory) -> int:
    """The number of the state that was read; fails unless every row says it."""
    number = int(memory.projects["s1"])
    rows = number % 30
    assert [str(number)] * rows == memory.prompts.get_column("text").to_list()
    assert [str(number)] * rows == memory.observations.get_column("title").to_list()
    return number


GONE = "claude-mem has no database here"
# Of a reader that was stopped for as long as it may wait: then the next thing that it saw is its last.
REPLACED = "claude-mem's database was replaced again and again"
CHANGING = "claude-mem's database kept changing while it was copied"


# --- while it is read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deeds", "journal", "problems"),
    [
        ("", "WAL", set()),
        ("", "DELETE", set()),
        ("checkpoint", "WAL", set()),
        ("lock", "DELETE", set()),
        ("vacuum", "DELETE", set()),
        ("vacuum checkpoint", "WAL", set()),
        ("journal", "WAL", {CHANGING}),
        ("replace", "WAL", {REPLACED, CHANGING}),
        ("delete", "DELETE", {GONE, REPLACED, CHANGING}),
        ("checkpoint lock vacuum journal replace delete pause", "WAL", {GONE, REPLACED, CHANGING}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_answer_is_one_committed_state(
    deeds: str, journal: str, problems: set[str], tmp_path: Path, seed: int, request: pytest.FixtureRequest
) -> None:
    """Whatever happens to the database during a read, the rows are those of one moment, or there is a reason for none."""
    database = tmp_path / "claude-mem.db"
    seen: list[int] = []
    with writing(database, deeds, seed, journal):
        deadline = time.monotonic() + float(request.config.getoption("--db-seconds"))
        while time.monotonic() < deadline or len(seen) < 5:
            assert time.monotonic() < deadline + 120, f"only {len(seen)} answers"
            memory = read_memory(database, ["s1"])
            if memory.problem and (memory.problem in problems or "stayed locked" in memory.problem):
                continue
            assert ("", []) == (memory.problem, memory.notes)
            seen.append(committed_state(memory))

    assert seen == sorted(seen)
    assert seen[0] < seen[-1], "nothing was written meanwhile"


def test_a_private_copy_is_one_committed_state(
    tmp_path: Path, scratch: Path, seed: int, request: pytest.FixtureRequest
) -> None:
    """Files that change while they are copied are copied again; a mixture of two states is never read."""
    database = tmp_path / "claude-mem.db"
    # So large that copying takes longer than the writer needs for its next state.
    ballast = "CREATE TABLE ballast (x); INSERT INTO ballast VALUES (zeroblob(8000000));"
    seen: list[int] = []
    with writing(database, "pause checkpoint checkpoint", seed, schema=SCHEMA + ballast):
        deadline = time.monotonic() + 2 * float(request.config.getoption("--db-seconds"))
        while time.monotonic() < deadline or not seen:
            assert time.monotonic() < deadline + 120, "no copy of a single state"
            with contextlib.suppress(KeptChanging), private_copy(database, with_wal=True) as copy:
                memory = read_memory(copy, ["s1"])
                assert "" == memory.problem
                seen.append(committed_state(memory))

    assert seen == sorted(seen)
    assert set() == copies(scratch)


# --- what killed writers leave -----------------------------------------------------------------------------------


@pytest.mark.parametrize("journal", ["WAL", "DELETE", "PERSIST"])
def test_what_a_killed_writer_leaves_is_read_and_left_alone(
    journal: str, tmp_path: Path, scratch: Path, seed: int
) -> None:
    """At any moment: a `-wal` with or without `-shm`, a rollback journal that was not rolled back."""
    rng = random.Random(seed)
    for number in range(5):
        database = tmp_path / f"{number}" / "claude-mem.db"
        database.parent.mkdir()
        with writing(database, "checkpoint" if journal == "WAL" else "", seed + number, journal) as writer:
            time.sleep(rng.random() / 5)
            writer.kill()
            writer.wait()
            before = state_of(database)
            first = committed_state(read_memory(database, ["s1"]))
            if number % 2:
                database.with_name("claude-mem.db-shm").unlink(missing_ok=True)
            assert first == committed_state(read_memory(database, ["s1"]))
            assert before == state_of(database)
    assert set() == copies(scratch)


def state_of(database: Path) -> dict[str, tuple[object, ...]]:
    """Bytes, time, mode and inode of a database and its `-wal` and journal."""
    found: dict[str, tuple[object, ...]] = {}
    for end in ("", "-wal", "-journal"):
        path = database.with_name(database.name + end)
        if path.exists():
            about = path.stat()
            found[end] = (path.read_bytes(), about.st_mtime_ns, about.st_mode, about.st_ino)
    return found


_DIES_IN_A_TRANSACTION = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode = DELETE")
connection.execute("PRAGMA cache_size = 5")
connection.executescript(sys.argv[2])
connection.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) INSERT INTO observations"
  " SELECT i, 'm1', '', '', 'before', hex(randomblob(500)), 1, '', 1772445600000 FROM n")
connection.execute("BEGIN")
connection.execute("UPDATE observations SET title = 'uncommitted'")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """A database whose writer was killed in a transaction that had reached the file: its journal must be rolled back."""
    database = tmp_path / "hot" / "claude-mem.db"
    database.parent.mkdir()
    killed = subprocess.run([sys.executable, "-c", _DIES_IN_A_TRANSACTION, database, SCHEMA], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert b"uncommitted" in database.read_bytes()
    assert database.with_name("claude-mem.db-journal").stat().st_size > 100_000
    return database


def test_a_transaction_that_was_cut_off_is_undone_in_a_copy(interrupted: Path, scratch: Path, unchanged: Watch) -> None:
    """What was never committed is not shown, and rolling it back is left to claude-mem."""
    unchanged(interrupted, interrupted.with_name("claude-mem.db-journal"))
    memory = read_memory(interrupted, ["s1"])

    assert ("", []) == (memory.problem, memory.notes)
    assert ["before"] * 300 == memory.observations.get_column("title").to_list()
    assert ["claude-mem.db", "claude-mem.db-journal"] == sorted(path.name for path in interrupted.parent.iterdir())
    assert set() == copies(scratch)


# --- what killed readers leave -----------------------------------------------------------------------------------

_HOLDS_A_COPY = """
import sys, time
from pathlib import Path
from bottlepipe.database import ask

def query(database):
    database.columns_of(["observations"])
    print("ready", flush=True)
    sys.stdin.readline()

ask(Path(sys.argv[1]), query, [])
"""
_READS = """
import sys
from pathlib import Path
from bottlepipe.memory import read_memory
for path in sys.argv[1:]:
    print(read_memory(Path(path), ["s1"]).problem or "read", flush=True)
"""


@pytest.fixture
def hold_a_copy(interrupted: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Start processes that read a private copy and stay in the middle of it."""
    readers: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        reader = subprocess.Popen(
            [sys.executable, "-c", _HOLDS_A_COPY, interrupted], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        readers.append(reader)
        assert reader.stdout is not None
        assert "ready\n" == reader.stdout.readline()
        return reader

    yield start
    for reader in readers:
        reader.kill()
        reader.communicate()


def test_a_copy_whose_reader_was_killed_goes_and_one_in_use_stays(
    scratch: Path, hold_a_copy: Callable[[], subprocess.Popen[str]], make_database: MakeDatabase, interrupted: Path
) -> None:
    """The next process that reads any database removes it; a living reader is left alone and ends well."""
    dead = hold_a_copy()
    (abandoned,) = copies(scratch)
    living = hold_a_copy()
    (used,) = copies(scratch) - {abandoned}
    assert 0o700 == abandoned.stat().st_mode & 0o777
    assert (abandoned / "copy.db").exists()
    dead.kill()
    dead.wait()
    sound = make_database(SCHEMA)

    done = subprocess.run([sys.executable, "-c", _READS, sound], capture_output=True, text=True, check=True)
    assert "read\n" == done.stdout
    assert {used} == copies(scratch)
    assert (used / "copy.db").exists()

    living.communicate("\n")
    assert 0 == living.returncode
    assert set() == copies(scratch)


def test_a_render_removes_what_a_killed_render_left(
    scratch: Path,
    hold_a_copy: Callable[[], subprocess.Popen[str]],
    make_database: MakeDatabase,
    tmp_path: Path,
    run_cli: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """The command line is enough; nobody has to know of the temporary folder."""
    dead = hold_a_copy()
    dead.kill()
    dead.wait()
    assert copies(scratch)
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(transcript([("user", "hi")]))

    result = run_cli("render", path, "-o", "-", "--db", make_database(SCHEMA))

    assert 0 == result.returncode, result.stderr
    assert set() == copies(scratch)


def test_readers_killed_at_random_moments_leave_nothing_after_the_next(
    scratch: Path, interrupted: Path, seed: int, unchanged: Watch
) -> None:
    """While the folder is made, locked, filled, read or removed."""
    unchanged(interrupted, interrupted.with_name("claude-mem.db-journal"))
    rng = random.Random(seed)
    left = 0
    for _ in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", _READS, *[interrupted] * 500], stdout=subprocess.PIPE, text=True
        ) as reader:
            assert reader.stdout is not None
            assert "read\n" == reader.stdout.readline()
            time.sleep(rng.random() / 10)
            reader.kill()
        left += len(copies(scratch))
    assert left, "no reader was killed while it had a copy"

    memory = read_memory(interrupted, ["s1"])
    assert ("", 300) == (memory.problem, memory.observations.height)
    assert set() == copies(scratch)


def test_nothing_of_anybody_else_is_removed(scratch: Path, make_database: MakeDatabase, tmp_path: Path) -> None:
    """Only this user's own closed folders of that name: no link is followed, no other user's folder is touched."""

    def ours(word: str) -> Path:
        """A path whose name a copy's folder could have."""
        return scratch / f"{PREFIX}{word:_<8}"

    def letter_in(folder: Path, mode: int = 0o700) -> Path:
        folder.mkdir(mode=mode)
        (folder / "copy.db").write_text("dear")
        return folder / "copy.db"

    letters = [
        letter_in(tmp_path / "precious"),
        letter_in(ours("open"), 0o755),
        letter_in(scratch / "bottlepipe-other"),
    ]
    ours("link").symlink_to(tmp_path / "precious")
    ours("file").write_text("a file of that name")
    abandoned = ours("left")
    abandoned.mkdir(mode=0o700)
    (abandoned / "copy.db").symlink_to(letters[0])
    (abandoned / "copy.db-wal").symlink_to(tmp_path / "precious")
    if os.getuid() == 0:
        letters.append(letter_in(ours("foreign")))
        os.chown(ours("foreign"), NOBODY, NOBODY)
    expected = {path.name for path in scratch.iterdir()} - {abandoned.name}

    subprocess.run([sys.executable, "-c", _READS, make_database(SCHEMA)], capture_output=True, check=True)

    assert expected == {path.name for path in scratch.iterdir()}
    assert ["dear"] * len(letters) == [letter.read_text() for letter in letters]


def test_a_full_temporary_folder_is_a_reason_and_leaves_nothing(interrupted: Path, scratch: Path) -> None:
    """A copy that finds no place is no crash: the bottle comes without observations and says why."""
    script = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n{_READS}"
    done = subprocess.run([sys.executable, "-c", script, interrupted], capture_output=True, text=True, check=True)

    assert "claude-mem's database cannot be read: File too large\n" == done.stdout
    assert set() == copies(scratch)
