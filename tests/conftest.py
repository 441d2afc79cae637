"""What the tests share: a home of their own, real databases, and the corpus where there is one."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"
CORPUS = Path(os.environ.get("BOTTLEPIPE_CORPUS") or ROOT.parent / "shared" / "corpus")

_BUILD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.executescript(sys.stdin.read())
connection.commit()
connection.close()
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="Accept what is rendered now as the golden bottles.")
    parser.addoption("--kills", type=int, default=200, help="How often a writer is killed at a random moment.")
    parser.addoption("--fuzz-seconds", type=float, default=0, help="Fuzz this long, on seeds never played before.")
    parser.addoption("--fuzz-seed", type=int, help="Play this one case of the fuzz tests.")
    parser.addoption("--differential", type=int, default=200, help="How many sessions the plain reader reads too.")
    parser.addoption("--differential-seed", type=int, help="The one invented session that it reads.")
    parser.addoption("--differential-size", default="5MB", help="Size of the benchmarks' transcript that it reads.")
    parser.addoption("--kill-seed", type=int, help="Seed of those moments; a new one each time without it.")
    parser.addoption("--db-seconds", type=float, default=1.2, help="How long a database is read while it is disturbed.")
    parser.addoption("--db-seed", type=int, help="Seed of the disturbances; a new one each time without it.")


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own, in UTC; nothing of the user's or of DuckDB's is seen."""
    folder = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(("CLAUDE", "BOTTLEPIPE", "SOURCE_DATE", "COLUMNS", "PYTHONUNBUFFERED")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder / ".claude"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("NO_COLOR", "1")
    return folder


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder of this test and of its processes."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def make_database(tmp_path: Path) -> Callable[..., Path]:
    """Build a real SQLite database from SQL, in a process of its own: two SQLite libraries must not share a file."""

    def make(sql: str, path: Path | None = None) -> Path:
        path = path or tmp_path / "claude-mem.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-c", _BUILD, str(path)], input=sql, text=True, check=True)
        return path

    return make


@pytest.fixture
def run_cli() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line as a real process."""

    def run(*arguments: str | Path, **choices: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "bottlepipe", *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False, **choices
        )  # type: ignore[call-overload,no-any-return]

    return run


@pytest.fixture
def unchanged() -> Iterator[Callable[[Path], None]]:
    """Watch files: at the end of the test their bytes, mtime, mode and inode must be as they were."""
    watched: dict[Path, tuple[object, ...]] = {}

    def watch(*paths: Path) -> None:
        for path in paths:
            watched[path] = _state(path)

    yield watch
    for path, state in watched.items():
        assert state == _state(path), f"{path} was changed"


def _state(path: Path) -> tuple[object, ...]:
    about = path.stat()
    return path.read_bytes(), about.st_mtime_ns, stat.S_IMODE(about.st_mode), about.st_ino


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real transcripts and databases; skipped where there is none."""
    if not CORPUS.is_dir():
        pytest.skip("no corpus of real sessions here (BOTTLEPIPE_CORPUS names one)")
    return CORPUS
