"""Private copies of a database: each has a folder of its own, and only what such a reader made is ever removed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bottlepipe.copies import PREFIX, private_copy, remove_leftovers

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked on Windows")

_TIDY = """
from bottlepipe.copies import remove_leftovers
print("ready", flush=True)
while True:
    remove_leftovers()
"""


@pytest.fixture
def tidying(scratch: Path) -> Iterator[None]:
    """Two processes that do nothing but remove what they take for left over."""
    command = [sys.executable, "-c", _TIDY]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert "ready\n" == process.stdout.readline()
    yield
    for process in processes:
        assert process.poll() is None, "the other process failed"
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("tidying")
def test_a_copy_is_made_while_others_remove_what_is_left_over(tmp_path: Path) -> None:
    """A folder is empty and unlocked for a moment, and may be gone in it: then another one is made."""
    database = tmp_path / "claude-mem.db"
    database.write_bytes(b"glaze" * 100)

    for _ in range(300):
        with private_copy(database, with_wal=True) as copy:
            assert database.read_bytes() == copy.read_bytes()


@pytest.mark.parametrize(
    ("folder", "file"), [("mine", "notes.txt"), ("my_notes", "notes.txt"), ("my_notes", "copy.db.txt")]
)
def test_a_folder_of_the_user_with_such_a_name_stays(scratch: Path, folder: str, file: str) -> None:
    """Not even with the mode and a name that a copy's folder has."""
    path = scratch / f"{PREFIX}{folder}" / file
    path.parent.mkdir(mode=0o700)
    path.write_text("precious")

    remove_leftovers()

    assert "precious" == path.read_text()


@pytest.mark.parametrize("files", [[], ["copy.db"], ["copy.db", "copy.db-wal"], ["copy.db-journal"]])
def test_a_copy_of_a_dead_reader_goes_however_far_it_came(scratch: Path, files: list[str]) -> None:
    """Also one that somebody was removing when he was killed himself."""
    folder = scratch / f"{PREFIX}a1b2c3_4"
    folder.mkdir(mode=0o700)
    for name in files:
        (folder / name).write_text("x")

    remove_leftovers()

    assert not folder.exists()
