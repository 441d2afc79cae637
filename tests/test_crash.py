"""Killed, full, read-only, moved away, raced: what stands afterwards is a whole bottle, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from bottle_parser import parse_bottle
from crash_writer import NAMED, Writer, standing_of, text_of, whole_text, write_one
from test_write import as_plain_user
from transcripts import SESSION, as_file, as_line, numbered, stamp, user

from bottlepipe.bottle import Bottle
from bottlepipe.errors import WriteFailed
from bottlepipe.locate import ref_of_file
from bottlepipe.pipeline import Options, render_sessions
from bottlepipe.settings import read_settings
from bottlepipe.write import read_standing, write_bottle, write_file

Run = Callable[..., "subprocess.CompletedProcess[str]"]


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
    number = standing_of(folder, session)
    if number:
        path = folder / f"{session}.md"
        assert whole_text(session, number, archives) == path.read_bytes(), f"{path} is torn"
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
    started = time.monotonic()
    write_one(folder.parent / "timed", "a", 1, archives)
    window = 1.5 * (time.monotonic() - started)

    for _ in range(kills):
        first = max(stood.values()) + 1
        writer.start(folder=folder, sessions=sessions, archives=archives, first=first)
        time.sleep(moments.uniform(0, window))
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
    assert left["text half-way"] * 10 >= kills, f"too few kills hit a write: {left}"


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
            for name in (".killed~0123abcd.tmp", ".killed~.lock", f".{NAMED}.md~0123abcd.tmp"):
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
        assert [".killed~.lock", ".killed~0123abcd.tmp"] * (session == NAMED) == hidden(folder)
    else:
        pytest.fail("the write does not end")
    assert now == 4
    assert at_line > 40, "the kills were not in the write"
    print(f"{scene}: killed before each of {at_line - 1} lines")


def test_a_kill_does_not_disturb_the_living(folder: Path, writer: Writer) -> None:
    """While one process writes a session, the next runs of others tidy up after the killed, and only after them."""
    with Writer() as other:
        other.start(folder=folder, sessions=["living"], first=1)
        for number in range(2, 40, 2):
            writer.start(folder=folder, sessions=["a"], first=number)
            time.sleep(0.01)
            writer.kill()
            write_one(folder, "b", number, False)
            assert [] == [name for name in hidden(folder) if not name.startswith(".living")]
        said = other.kill()

    assert [f"wrote living {number}" for number in range(1, len(said) + 1)] == said
    assert len(said) > 3


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    """A session of 200 kB of text."""
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(as_file(user(f"{number} " + "word " * 2000) for number in range(20)))
    return path


def test_a_killed_render_leaves_a_whole_bottle(run_cli: Run, transcript: Path, home: Path) -> None:
    """The command itself, killed when it has begun to write or a moment later, over no bottle, leftovers, and a bottle."""
    transcript.write_bytes(as_file(user(f"{number} " + "word " * 2000) for number in range(500)))
    bottle = home / ".claude-mem" / "bottles" / f"{SESSION}.md"
    command = [sys.executable, "-m", "bottlepipe", "render", str(transcript), "--no-db"]
    left: Counter[str] = Counter()
    possible: set[int | None] = {None}
    bottle.parent.mkdir(parents=True)
    # Four at least, and on an odd machine until one hit.
    for number in range(20):
        possible.add(transcript.stat().st_size)
        before = set(hidden(bottle.parent))
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and not any(
                name.endswith(".tmp") and name not in before for name in os.listdir(bottle.parent)
            ):
                time.sleep(0.0003)
            time.sleep(0.003 * (number % 2))
            process.kill()
        left["text half-way" if set(hidden(bottle.parent)) - before else "nothing"] += 1
        found = read_standing(bottle)
        assert (found.source_bytes if found else None) in possible
        if found:
            assert found.user_turns == len(parse_bottle(bottle.read_text()).messages)
        if number % 2:
            assert run_cli("render", transcript, "--no-db").returncode == 0
            assert [bottle] == list(bottle.parent.iterdir())
            assert found is None or found.user_turns <= len(parse_bottle(bottle.read_text()).messages)
            possible = {transcript.stat().st_size}
        with transcript.open("ab") as file:
            file.write(as_line(user(f"later {number}", uuid=f"l{number}", timestamp=stamp(1000 + number))))
        if number >= 3 and left["text half-way"]:
            break
    print(f"kills of `render` left {dict(left)}")
    assert left["text half-way"], "no kill hit a write: nothing was tested"


def test_a_full_or_read_only_disk_is_one_clear_error(tmp_path: Path) -> None:
    """Whatever the write was about to do: no page or no inode for the lock, the text, the archive. What was there stays."""
    disk = tmp_path / "disk"
    disk.mkdir()
    private = ["unshare", "--user", "--map-root-user", "--mount"]
    probe = [*private, "mount", "-t", "tmpfs", "tmpfs", str(disk)]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    script = Path(__file__).parent / "small_disk.py"

    done = subprocess.run([*private, sys.executable, script, disk], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    assert [] == [case for case in cases if case[-1]]
    errors = Counter((what, error.split(": ")[-1]) for what, *_, error, _ in cases if error)
    full = "No space left on device; free some space; the bottle that was there is unchanged"
    read_only = "Read-only file system; check the folder and its permissions, or print it with `-o -`"
    # Of the 4 kinds of write: the long text always and the short one without a page; no inode, one for the lock only,
    # one or two too few to archive.
    assert {("space", full): 5 * 4, ("inodes", full): 4 + 3 + 1 + 1, ("right to write", read_only): 4} == errors


def test_a_render_over_the_size_limit_fails_with_one_clear_error(run_cli: Run, transcript: Path, home: Path) -> None:
    """Exit code 1, the old bottle, nothing else."""
    bottle = home / ".claude-mem" / "bottles" / f"{SESSION}.md"
    bottle.parent.mkdir(parents=True)
    bottle.write_text("old")
    command = f"ulimit -f 100; {shlex.join([sys.executable, '-m', 'bottlepipe', 'render', str(transcript), '--no-db'])}"

    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert [
        f"bottlepipe: {bottle}: cannot be written: File too large",
        "hint: raise the file size limit; the bottle that was there is unchanged",
    ] == done.stderr.splitlines()
    assert bottle.read_text() == "old"
    assert [bottle] == list(bottle.parent.iterdir())


@pytest.mark.parametrize("mode", [0o500, 0o555])
def test_a_read_only_folder_is_one_clear_error(transcript: Path, home: Path, mode: int) -> None:
    """It stays read-only, and the old bottle stays."""
    command = as_plain_user([sys.executable, "-m", "bottlepipe", "render", str(transcript), "--no-db"])
    bottle = home / ".claude-mem" / "bottles" / f"{SESSION}.md"
    bottle.parent.mkdir(parents=True)
    bottle.write_text("old")
    bottle.parent.chmod(mode)

    done = subprocess.run(command, capture_output=True, text=True, check=False)
    now = stat.S_IMODE(bottle.parent.stat().st_mode)
    bottle.parent.chmod(0o700)

    assert done.returncode == 1
    assert [
        f"bottlepipe: {bottle}: cannot be written: Permission denied",
        "hint: check the folder and its permissions, or print it with `-o -`",
    ] == done.stderr.splitlines()
    assert now == 0o500
    assert bottle.read_text() == "old"
    assert [bottle] == list(bottle.parent.iterdir())


def pieces_and(deed: Callable[[], object], text: list[bytes]) -> Iterator[bytes]:
    """The pieces of a text; half-way something happens."""
    yield from text[:2]
    deed()
    yield from text[2:]


@pytest.mark.parametrize("archives", [False, True])
@pytest.mark.parametrize("instead", ["nothing", "a folder", "a symlink", "a file"])
def test_a_folder_that_is_moved_away_during_the_write(folder: Path, instead: str, archives: bool) -> None:
    """One clear error; it keeps the old bottle and nothing else, and what is in its place gets nothing."""
    write_one(folder, "a", 2, archives)
    moved, elsewhere = folder.parent / "moved", folder.parent / "elsewhere"
    elsewhere.mkdir()

    def move() -> None:
        folder.rename(moved)
        if instead == "a folder":
            folder.mkdir()
        elif instead == "a symlink":
            folder.symlink_to(elsewhere)
        elif instead == "a file":
            folder.write_text("mine")

    text, state = text_of("a", 4, 1)
    with pytest.raises(WriteFailed, match=r"a\.md: cannot be written: its folder was moved or replaced meanwhile"):
        write_bottle(folder, "a", pieces_and(move, text), state, 4)

    assert standing(moved, "a", archives) == 2
    assert {"a.md", "archive"} >= {path.name for path in moved.iterdir()}
    assert [] == [*elsewhere.iterdir(), *(folder.iterdir() if folder.is_dir() else [])]


def test_a_folder_that_is_moved_and_linked_to_is_still_the_folder(folder: Path) -> None:
    """The user moves the bottles to another disk and leaves a symlink: the write goes on there."""
    moved = folder.parent / "moved"
    text, state = text_of("a", 4)

    def move() -> None:
        folder.rename(moved)
        folder.symlink_to(moved)

    write_bottle(folder, "a", pieces_and(move, text), state, 4)

    assert standing(moved, "a", False) == 4
    assert ["a.md"] == [path.name for path in moved.iterdir()]


def test_a_folder_that_is_removed_during_the_write(folder: Path) -> None:
    """One clear error for a bottle and for a named file, and the folder is not made again."""
    text, state = text_of("a", 4)
    for name in ("a", NAMED):
        folder.mkdir(parents=True)
        pieces = pieces_and(lambda: shutil.rmtree(folder), text)
        with pytest.raises(WriteFailed, match="cannot be written: its folder was moved or replaced meanwhile"):
            write_file(folder / f"{NAMED}.md", pieces) if name == NAMED else write_bottle(
                folder, name, pieces, state, 4
            )
        assert not folder.exists()


@pytest.mark.parametrize("archives", [False, True])
@pytest.mark.parametrize("instead", ["a folder", "a symlink", "a pipe", "nothing"])
def test_a_bottle_that_is_replaced_during_the_write(folder: Path, instead: str, archives: bool) -> None:
    """A folder in its place is one clear error; anything else gives way to the new bottle and is not followed."""
    write_one(folder, "a", 2, archives)
    path, target = folder / "a.md", folder.parent / "target"
    target.write_text("mine")

    def replace() -> None:
        path.unlink()
        if instead == "a folder":
            path.mkdir()
        elif instead == "a symlink":
            path.symlink_to(target)
        elif instead == "a pipe":
            os.mkfifo(path)

    text, state = text_of("a", 4, 1)
    pieces = pieces_and(replace, text)
    if instead == "a folder":
        with pytest.raises(WriteFailed, match=r"a\.md: cannot be written: Is a directory"):
            write_bottle(folder, "a", pieces, state, 4)
    else:
        write_bottle(folder, "a", pieces, state, 4)
        assert standing(folder, "a", False) == 4
        assert not path.is_symlink()
    assert target.read_text() == "mine"
    assert {"a.md", "archive"} >= {path.name for path in folder.iterdir()}
    assert [] == hidden(folder)


_RENDER_AGAIN = """
import sys
from bottlepipe.cli import run
for _ in range(int(sys.argv[2])):
    code = run(["render", sys.argv[1], "--no-db", "--json"])
    if code:
        sys.exit(code)
"""


@pytest.mark.parametrize("count", [2, 8])
def test_processes_that_render_one_growing_session_agree(tmp_path: Path, home: Path, run_cli: Run, count: int) -> None:
    """At every moment a whole bottle stands, never an older one than before, and in the end the newest."""
    times = {2: 5, 8: 2}[count]
    transcript = tmp_path / f"{SESSION}.jsonl"
    bottle = home / ".claude-mem" / "bottles" / f"{SESSION}.md"
    command = [sys.executable, "-c", _RENDER_AGAIN, str(transcript), str(times)]
    entries = numbered(user(f"message {number}") for number in range(100_000))
    seen = [0]
    with transcript.open("ab", buffering=0) as growing:
        growing.write(as_line(entries[0]))
        children = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(count)
        ]
        told = [ThreadPoolExecutor(1).submit(child.communicate) for child in children]
        for entry in entries[1:]:
            growing.write(as_line(entry))
            with contextlib.suppress(FileNotFoundError):
                parsed = parse_bottle(bottle.read_text())
                bytes_read = int(parsed.header["source"].split()[0])
                assert bytes_read >= seen[-1]
                assert [("user", f"message {number}") for number in range(len(parsed.messages))] == parsed.messages
                seen.append(bytes_read)
            if all(future.done() for future in told):
                break
            time.sleep(0.02)

    facts = []
    for future in told:
        words, complaints = future.result()
        assert words.count('"outcome"') == times, complaints
        facts += [int(line.split(": ")[1].rstrip(",")) for line in words.splitlines() if '"source_bytes"' in line]
    assert len(set(seen)) > 2, "the bottle did not grow while it was looked at"
    standing = read_standing(bottle)
    assert standing is not None
    assert standing.source_bytes == max(facts)
    assert run_cli("render", transcript, "--no-db").returncode == 0
    assert parse_bottle(bottle.read_text()).header["source"] == f"{transcript.stat().st_size} bytes of transcript"
    assert [bottle] == list(bottle.parent.iterdir())


COUNT = 250
SHRANK = "ends lost while the file shrank"
Deed = Callable[[Path, Path], None]


def lines_of(kind: str) -> bytes:
    """A transcript of 2.5 MB: lines, one array, or a subagent's lines, which are read twice."""
    more = {"isSidechain": True, "agentId": "a1"} if kind == "subagent" else {}
    entries = numbered(user(f"message {number}", toolUseResult="x" * 10_000, **more) for number in range(COUNT))
    if kind == "array":
        return json.dumps(entries, indent=1).encode()
    return b"".join(map(as_line, entries))


def grow(path: Path, _: Path) -> None:
    with path.open("ab") as file:
        file.write(as_line(user("later")))


def shrink(path: Path, _: Path) -> None:
    os.truncate(path, 1_700_000)


def empty(path: Path, _: Path) -> None:
    os.truncate(path, 0)


def rewrite(path: Path, _: Path) -> None:
    path.write_bytes(as_file(user(f"other {number}", toolUseResult="y" * 9_000) for number in range(COUNT)))


def replace(path: Path, other: Path) -> None:
    other.write_bytes(as_file([user("another session")]))
    other.replace(path)


def delete(path: Path, _: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("kind", ["lines", "array", "subagent"])
@pytest.mark.parametrize("deed", [grow, shrink, empty, rewrite, replace, delete])
@pytest.mark.parametrize("after_bytes", [1, 1 << 40])
def test_a_transcript_that_changes_during_the_read(
    tmp_path: Path, kind: str, deed: Deed, after_bytes: int, home: Path
) -> None:
    """A bottle of what was there, with the loss counted, or one clear error; and the file is as the other left it."""
    path, kept = tmp_path / f"{SESSION}.jsonl", tmp_path / "kept"
    path.write_bytes(lines_of(kind))
    size = path.stat().st_size
    os.link(path, kept)
    after: list[tuple[bytes, os.stat_result]] = []

    def meddle(done: int, total: int) -> None:
        assert total == size
        if not after and done >= min(after_bytes, size):
            deed(path, tmp_path / "other")
            after.append((kept.read_bytes(), kept.stat()))

    (bottle,) = render_sessions([ref_of_file(path)], read_settings(), Options(progress=meddle), datetime.now(UTC))

    assert after, "nothing happened during the read"
    assert kept.read_bytes() == after[0][0]
    assert (kept.stat().st_mtime_ns, kept.stat().st_mode) == (after[0][1].st_mtime_ns, after[0][1].st_mode)
    if deed is empty and kind == "subagent":
        assert "no conversation in it" in str(bottle)  # it was empty when it was read the second time
        return
    assert isinstance(bottle, Bottle), bottle
    words = [text.split()[0] for _, text in parse_bottle(bottle.text).messages]
    numbers = [int(text.split()[1]) for _, text in parse_bottle(bottle.text).messages]
    if deed in (grow, replace, delete) or (after_bytes > size and kind != "subagent"):
        assert [("message", number) for number in range(COUNT)] == list(zip(words, numbers, strict=True))
        assert bottle.left_out.get(SHRANK, 0) == 0
        assert bottle.source_bytes == size
    else:
        assert bottle.left_out[SHRANK] == 1
        # A file that is rewritten in place may be read as the first part of one and the last part of the other.
        assert words == sorted(words)
        assert deed is rewrite or list(range(len(numbers))) == numbers
        assert numbers == sorted(set(numbers))
        assert deed is rewrite or len(words) < COUNT


# What is asked of each command, and its exit code when everybody listens.
COMMANDS = {
    "--version": 0,
    "--help": 0,
    "demo": 0,
    "list --json": 0,
    "render FILE --no-db": 0,
    "render FILE --no-db -o -": 0,
    "nonsense": 2,
}


def words_of(command: str, transcript: Path) -> list[str]:
    words = [str(transcript) if word == "FILE" else word for word in command.split()]
    return [sys.executable, "-m", "bottlepipe", *words]


def run_shell(command: str, redirect: str, transcript: Path) -> subprocess.CompletedProcess[str]:
    line = f"{shlex.join(words_of(command, transcript))} {redirect}"
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "demo"])
def test_a_command_that_nobody_can_hear_fails_without_a_traceback(command: str, transcript: Path, home: Path) -> None:
    """Data that cannot be written is an error with one line and a hint; words that cannot be said are none."""
    folder = home / ".claude" / "projects" / "-p"
    folder.mkdir(parents=True)
    shutil.copy(transcript, folder / transcript.name)
    expected = COMMANDS[command]

    full = run_shell(command, "> /dev/full", transcript)
    assert full.returncode == (expected or 1), full.stderr
    assert [("bottlepipe", "hint")] == [tuple(line.split(": ")[0] for line in full.stderr.splitlines()[-2:])]
    assert "Traceback" not in full.stderr
    assert expected or "put: No space left on device\n" in full.stderr
    closed = run_shell(command, ">&-", transcript)
    assert closed.returncode in (expected, 1), closed.stderr
    assert not any(word in closed.stderr for word in ("Traceback", "Exception ignored", "unexpected"))
    for redirect in ("2> /dev/full", "2>&-"):
        silent = run_shell(command, redirect, transcript)
        assert silent.returncode == expected, redirect
        assert bool(silent.stdout) == (not expected)


@pytest.mark.parametrize("command", [command for command, code in COMMANDS.items() if not code])
def test_a_reader_that_goes_away_ends_a_command_quietly(command: str, transcript: Path, home: Path) -> None:
    """`bottlepipe … | true`: exit code 0 and no complaint about the pipe, whatever is said on stderr."""
    folder = home / ".claude" / "projects" / "-p"
    folder.mkdir(parents=True)
    shutil.copy(transcript, folder / transcript.name)
    with subprocess.Popen(
        words_of(command, transcript), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, complaints = process.communicate(timeout=60)

    assert process.returncode == 0, complaints
    assert not any(word in complaints for word in ("Traceback", "Broken pipe", "Exception ignored"))
