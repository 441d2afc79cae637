"""Killed, full, read-only, moved away, raced: what stands afterwards is a whole bottle, and nothing else."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash_writer import NAMED, Writer, whole_text, write_one


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "bottles"


@pytest.fixture(scope="module")
def writer() -> Iterator[Writer]:
    with Writer() as process:
        yield process


@pytest.fixture
def memory_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder like `folder` where nobody waits for a disk: a killed process takes nothing along that it has written."""
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if os.access(shm, os.W_OK) else tmp_path) as above:
        yield Path(above) / "data" / "bottles"


def hidden(folder: Path) -> list[str]:
    """What no finished write leaves."""
    return sorted(path.name for path in folder.rglob(".*"))


def standing(folder: Path, session: str, archives: bool) -> int:
    """The number of the bottle that stands, 0 for none; it is whole to the last byte."""
    path = folder / f"{session}.md"
    if not path.exists():
        return 0
    text = path.read_bytes()
    number = int(text.split(b"project: ")[1].split(b" ")[0])
    assert whole_text(session, number, archives) == text, f"{path} is torn"
    return number


def archived(folder: Path, session: str) -> list[int]:
    """The numbers of the archived bottles; each is whole. Those that no longer stand as the bottle are removed."""
    numbers = []
    for path in (folder / "archive").glob(f"*-{session}.md"):
        text = path.read_bytes()
        numbers.append(int(text.split(b"project: ")[1].split(b" ")[0]))
        assert whole_text(session, numbers[-1], True) == text, f"{path} is torn"
        if path.stat().st_nlink == 1:
            path.unlink()
    assert len(numbers) == len(set(numbers)), "a bottle was archived twice"
    return numbers


SCENES = {
    "one session": (["a"], False),
    "sessions": (["a", "b", "c"], False),
    "archiving": (["a"], True),
    "a named file": ([NAMED], False),
}


@pytest.mark.parametrize("scene", SCENES)
def test_a_kill_at_any_moment_leaves_whole_bottles(
    folder: Path, writer: Writer, scene: str, request: pytest.FixtureRequest
) -> None:
    """The bottle is the one before or the next one, never gone or torn, and the next write tidies up."""
    sessions, archives = SCENES[scene]
    kills = max(1, request.config.getoption("--kills") // len(SCENES))
    seed = request.config.getoption("--kill-seed")
    seed = random.randrange(1 << 32) if seed is None else seed
    print(f"--kill-seed {seed}")
    moments = random.Random(seed)
    left: Counter[str] = Counter()
    stood = dict.fromkeys(sessions, 0)
    kept: set[int] = set()
    folder.mkdir(parents=True)

    for _ in range(kills):
        first = max(stood.values()) + 1
        writer.start(folder=folder, sessions=sessions, archives=archives, first=first)
        time.sleep(moments.uniform(0, 0.025))
        said = [words.split() for words in writer.kill()]
        assert all(word == "wrote" for word, *_ in said), said
        names = hidden(folder)
        left["text half-way" if any(name.endswith(".tmp") for name in names) else "lock" if names else "nothing"] += 1

        for session in sessions:
            told = [int(number) for _, name, number in said if name == session]
            now = standing(folder, session, archives)
            assert now in (told[-1:] or [stood[session]]) + [(told or [first - 1])[-1] + 1]
            left["the next one stands, untold"] += now != (told[-1] if told else stood[session])
            stood[session] = now
        if archives:
            kept.update(archived(folder, "a"))
            left["archived, not replaced"] += stood["a"] in kept
            assert {number for number in range(1, stood["a"]) if number % 4} <= kept
        session = moments.choice(sessions)
        stood[session] = max(stood.values()) + 1
        write_one(folder, session, stood[session], archives)

        assert [] == hidden(folder)
        assert stood == {session: standing(folder, session, archives) for session in sessions}

    print(f"{scene}: {kills} kills left {dict(left)}")
    assert left["text half-way"] * 4 >= kills, f"too few kills hit a write: {left}"


@pytest.mark.parametrize("scene", ["first", "replacing", "archiving", "a named file"])
def test_a_kill_before_any_line_leaves_whole_bottles(memory_folder: Path, writer: Writer, scene: str) -> None:
    """Every state that a write goes through, one after another, over what earlier kills left."""
    folder = memory_folder
    session, archives, before = (NAMED if scene == "a named file" else "a"), scene == "archiving", int(scene != "first")
    job = {"folder": folder, "sessions": [session], "archives": archives, "first": 4}
    for at_line in range(1, 1000):
        shutil.rmtree(folder.parent, ignore_errors=True)
        if session == NAMED:
            folder.mkdir(parents=True)
        if before:
            write_one(folder, session, before * 2, archives)
            for name in (".killed~0123abcd.tmp", ".killed.lock", f".{NAMED}.md~0123abcd.tmp"):
                (folder / name).write_text("half")
        writer.start(**job, at_line=at_line)
        said = writer.wait()
        now = standing(folder, session, archives)
        if said:
            assert [f"wrote {session} 4", f"lines {at_line - 1}"] == said
            break

        assert now in (before * 2, 4)
        assert now != 4 or not archives or [2] == archived(folder, session)
        write_one(folder, session, 8, archives)
        assert standing(folder, session, archives) == 8
        assert [".killed.lock", ".killed~0123abcd.tmp"] * (session == NAMED) == hidden(folder)
    else:
        pytest.fail("the write does not end")
    assert now == 4
    assert at_line > 40, "the kills were not in the write"
    print(f"{scene}: killed before each of {at_line - 1} lines")
