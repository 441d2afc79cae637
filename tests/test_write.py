"""Whole or not at all: what stands in the folder after a write, after a failed one, and who may read it."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bottlepipe.errors import WriteFailed
from bottlepipe.write import KEPT_FULL, KEPT_NEWER, WRITTEN, Standing, Written, read_standing, write_bottle, write_file

ID = "5e55"
NOW = 1_788_264_000_000
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)

# A child writes one bottle, under whatever limits its first argument sets, and says what came of it.
_CHILD = """
import sys
from pathlib import Path
from bottlepipe.errors import WriteFailed
from bottlepipe.write import Standing, write_bottle
exec(sys.argv[1])
try:
    written = write_bottle(Path(sys.argv[2]), sys.argv[3], [sys.argv[4].encode()] * int(sys.argv[5]), Standing("full", 1, 1), 1)
except WriteFailed as error:
    print(error, error.hint, sep="\\n")
else:
    print(written.outcome)
"""


def a_bottle(
    mode: str = "full", turns: int = 1, source_bytes: int = 10, body: str = "words"
) -> tuple[list[bytes], Standing]:
    """The pieces of a bottle, and its standing."""
    pieces = [
        f"# Session bottle — {ID}\nproject: /p · started: unknown · rendered: now\nmode: {mode}\n",
        f"contents: {turns:,} user turns, 0 assistant messages, 0 observations\n",
        f"source: {source_bytes} bytes of transcript\n\n---\n{body}\n",
    ]
    return [piece.encode() for piece in pieces], Standing(mode, turns, source_bytes)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "bottles"


@pytest.fixture
def write(folder: Path) -> Callable[..., Written]:
    """Write a bottle of the given standing into `folder`."""

    def put(transcript: Path | None = None, now_ms: int = NOW, **standing: object) -> Written:
        pieces, state = a_bottle(**standing)  # type: ignore[arg-type]
        return write_bottle(folder, ID, pieces, state, now_ms, transcript)

    return put


@pytest.fixture
def umask() -> Iterator[Callable[[int], None]]:
    before = os.umask(0o022)
    os.umask(before)
    yield lambda mask: os.umask(mask) and None
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def run_child(folder: Path, body: str = "new ", count: int = 1, limit: str = "", session: str = ID) -> list[str]:
    arguments = [sys.executable, "-c", _CHILD, limit, str(folder), session, body, str(count)]
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.splitlines()


def as_plain_user(command: list[str]) -> list[str]:
    """The command that runs so that modes count for it, also when these tests run as root."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return command
    if shutil.which("setpriv") is None:
        pytest.skip("root can write anywhere, and nothing here takes that from it")
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o277, 0o777])
def test_only_the_user_can_read_what_is_written(
    folder: Path, write: Callable[..., Written], umask: Callable[[int], None], mask: int
) -> None:
    """Bottles are 0600 and folders 0700 under any umask, the archive too."""
    umask(mask)
    write(turns=2)
    archived = write(turns=1).archived
    write_file(folder / "copy.md", [b"text"])

    assert archived is not None
    assert [0o600] * 3 == [mode_of(path) for path in (folder / f"{ID}.md", archived, folder / "copy.md")]
    assert [0o700] * 3 == [mode_of(path) for path in (folder.parent, folder, folder / "archive")]


def test_a_write_leaves_the_bottle_and_nothing_else(folder: Path, write: Callable[..., Written]) -> None:
    """No lock and no temporary file stays, and the bytes are the pieces."""
    written = write(body="a\r\nb\u2028é")

    assert Written(folder / f"{ID}.md", WRITTEN) == written
    assert [f"{ID}.md"] == files(folder)
    assert b"".join(a_bottle(body="a\r\nb\u2028é")[0]) == written.path.read_bytes()


def test_a_bottle_is_replaced_by_a_new_file(folder: Path, write: Callable[..., Written]) -> None:
    """Who reads the old bottle at that moment goes on reading the old one, whole."""
    path = write(body="old").path
    with path.open() as reader:
        write(body="new")

        assert reader.read().endswith("old\n")
    assert path.read_text().endswith("new\n")


def test_pieces_that_fail_leave_the_old_bottle(folder: Path, write: Callable[..., Written]) -> None:
    """A render that breaks off half-way has written nothing."""
    old = write(body="old").path.read_bytes()

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError("broke off")

    with pytest.raises(RuntimeError, match="broke off"):
        write_bottle(folder, ID, pieces(), Standing("full", 1, 10), NOW)
    assert old == (folder / f"{ID}.md").read_bytes()
    assert [f"{ID}.md"] == files(folder)


def test_a_file_over_the_size_limit_is_one_clear_error(folder: Path, write: Callable[..., Written]) -> None:
    """The old bottle stays whole and no half file is left."""
    old = write(body="old").path.read_bytes()
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"

    assert [
        f"{folder / ID}.md: cannot be written: File too large",
        "raise the file size limit; the bottle that was there is unchanged",
    ] == run_child(folder, "x" * 1000, 1000, limit)
    assert old == (folder / f"{ID}.md").read_bytes()
    assert [f"{ID}.md"] == files(folder)


def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    """On a real file system without room: the old bottle stays whole and no half file is left."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        assert [WRITTEN] == run_child(disk, "old")
        assert [
            f"{disk / ID}.md: cannot be written: No space left on device",
            "free some space; the bottle that was there is unchanged",
        ] == run_child(disk, "x" * 1000, 100)
        assert "old" == (disk / f"{ID}.md").read_text()
        assert [f"{ID}.md"] == files(disk)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@needs_root
def test_an_unwritable_folder_is_one_clear_error(tmp_path: Path) -> None:
    """Another user's folder: said once, with what to do."""
    folder = tmp_path / "bottles"
    run_child(folder, "old")
    folder.chmod(0o755)

    assert [
        f"{ID}.md: cannot be written: Permission denied",
        "check the folder and its permissions, or print it with `-o -`",
    ] == run_child(Path("."), limit=f"import os; os.chdir({str(folder)!r}); os.setuid(65534)")
    assert "old" == (folder / f"{ID}.md").read_text()
    assert [f"{ID}.md"] == files(folder)


def test_a_file_where_the_folder_should_be_is_one_clear_error(tmp_path: Path) -> None:
    """The file stays as it is."""
    (tmp_path / "bottles").write_text("mine")

    with pytest.raises(WriteFailed, match=rf"{ID}\.md: cannot be written: Not a directory"):
        write_bottle(tmp_path / "bottles", ID, [b"x"], Standing("full", 1, 1), NOW)
    assert "mine" == (tmp_path / "bottles").read_text()


def test_a_symlinked_data_folder_is_followed(tmp_path: Path, folder: Path, write: Callable[..., Written]) -> None:
    """A data folder on another disk is where the user wants it."""
    (tmp_path / "elsewhere").mkdir()
    folder.parent.symlink_to(tmp_path / "elsewhere")
    write()

    assert (tmp_path / "elsewhere" / "bottles" / f"{ID}.md").is_file()
    assert folder.parent.is_symlink()


@pytest.mark.parametrize("exists", [True, False])
def test_a_symlink_at_the_bottles_path_is_replaced(
    tmp_path: Path, folder: Path, write: Callable[..., Written], exists: bool
) -> None:
    """Its target is neither written nor read, whether it is there or not."""
    target = tmp_path / "target.md"
    if exists:
        target.write_bytes(b"".join(a_bottle(turns=9)[0]))
    folder.mkdir(parents=True)
    (folder / f"{ID}.md").symlink_to(target)

    assert Written(folder / f"{ID}.md", WRITTEN) == write()
    assert not (folder / f"{ID}.md").is_symlink()
    assert exists == target.exists()
    if exists:
        assert b"".join(a_bottle(turns=9)[0]) == target.read_bytes()


@pytest.mark.parametrize("plant", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_at_the_bottles_path_is_one_clear_error(
    folder: Path, write: Callable[..., Written], plant: Callable[[Path], None]
) -> None:
    """A folder or a pipe is not waited for, not replaced, and has no standing."""
    folder.mkdir(parents=True)
    plant(folder / f"{ID}.md")

    with pytest.raises(WriteFailed, match=rf"{ID}\.md: cannot be written: something that is no file has its name"):
        write()
    assert read_standing(folder / f"{ID}.md") is None
    assert [f"{ID}.md"] == files(folder)


def test_a_symlink_planted_as_the_lock_is_not_followed(
    tmp_path: Path, folder: Path, write: Callable[..., Written]
) -> None:
    """It is removed, its target is not made, and the bottle is written."""
    folder.mkdir(parents=True)
    (folder / f".{ID}~.lock").symlink_to(tmp_path / "target")

    assert WRITTEN == write().outcome
    assert not (tmp_path / "target").exists()
    assert [f"{ID}.md"] == files(folder)


@pytest.mark.parametrize("outcome", [WRITTEN, KEPT_FULL])
def test_what_a_killed_writer_left_is_cleaned_by_the_next(
    folder: Path, write: Callable[..., Written], outcome: str
) -> None:
    """Its temporary files and locks go, whichever session it wrote, also when the next has nothing to write."""
    write()
    for name in (f".{ID}~0123abcd.tmp", f".{ID}~.lock", ".0ther~0123abcd.tmp", ".0ther~.lock"):
        (folder / name).write_text("half")

    assert outcome == write(mode="full" if outcome == WRITTEN else "reconstructed").outcome
    assert [f"{ID}.md"] == files(folder)


def test_what_a_living_writer_holds_is_left_to_it(folder: Path, write: Callable[..., Written]) -> None:
    """The lock and the new text of another session that is being written stay, as do hidden files of the user's."""
    import fcntl

    names = [".0ther~.lock", ".0ther~0123abcd.tmp"]
    folder.mkdir(parents=True)
    others = [
        ".dropbox.cache.lock",
        ".gitignore",
        ".notes~mine.tmp",
        ".my notes~.lock",
        ".pipe~.lock",
        ".sync-client.lock",
    ]
    for name in others:
        (folder / name).write_text("mine") if "pipe" not in name else os.mkfifo(folder / name)
    with (folder / names[0]).open("w") as lock, (folder / names[1]).open("w") as text:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fcntl.flock(text, fcntl.LOCK_EX)
        write()

        assert sorted([*names, *others, f"{ID}.md"]) == files(folder)


@pytest.mark.parametrize("refusal", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_where_files_cannot_be_locked_bottles_are_written_all_the_same(
    folder: Path, write: Callable[..., Written], monkeypatch: pytest.MonkeyPatch, refusal: int
) -> None:
    """Some network file systems refuse every lock. Nobody can tell there what is left over, so nothing is removed."""
    import fcntl

    def flock(*_: object) -> None:
        raise OSError(refusal, os.strerror(refusal))

    folder.mkdir(parents=True)
    (folder / ".0ther~0123abcd.tmp").write_text("perhaps being written")
    monkeypatch.setattr(fcntl, "flock", flock)

    assert [WRITTEN, WRITTEN] == [write().outcome, write().outcome]
    assert [".0ther~0123abcd.tmp", f"{ID}.md"] == files(folder)


def test_a_lock_that_fails_leaves_no_new_file(
    folder: Path, write: Callable[..., Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that is no refusal, on the new text: the bottle that was there stays, and nothing else."""
    import fcntl

    write()
    before = (folder / f"{ID}.md").read_bytes()
    flock = fcntl.flock

    def failing(descriptor: int, operation: int) -> None:
        if any(os.path.samestat(os.fstat(descriptor), text.stat()) for text in folder.glob(".*.tmp")):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", failing)
    with pytest.raises(WriteFailed, match="Input/output error"):
        write(turns=9)

    assert before == (folder / f"{ID}.md").read_bytes()
    assert [f"{ID}.md"] == files(folder)


def test_two_processes_that_write_one_session_leave_one_whole_bottle(folder: Path) -> None:
    """Many at once: each succeeds, the last wins whole, nothing else is left."""
    outcomes: list[list[str]] = []
    bodies = [f"# Session bottle — {ID}\nproject: x\nmode: full\n\n{letter}" for letter in "abc"]
    children = [
        threading.Thread(target=lambda body=body: outcomes.append(run_child(folder, body * 100, 100)))
        for body in bodies
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()

    assert [[WRITTEN]] * 3 == outcomes
    assert (folder / f"{ID}.md").read_text() in [body * 10_000 for body in bodies]
    assert [f"{ID}.md"] == files(folder)


def test_a_writer_waits_for_the_lock(folder: Path) -> None:
    """While another process holds the lock nothing is written; when it ends, the bottle is."""
    import fcntl

    folder.mkdir(parents=True)
    with (folder / f".{ID}~.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        writer = threading.Thread(target=write_bottle, args=(folder, ID, [b"x"], Standing("full", 1, 1), NOW))
        writer.start()
        writer.join(0.3)

        assert writer.is_alive()
        assert not (folder / f"{ID}.md").exists()
    writer.join()
    assert [f"{ID}.md"] == files(folder)


def test_a_full_bottle_is_never_replaced_by_a_reconstructed_one(folder: Path, write: Callable[..., Written]) -> None:
    """Not even by one with more turns: the answers are in the full one only."""
    old = write(turns=1).path.read_bytes()

    assert Written(folder / f"{ID}.md", KEPT_FULL) == write(mode="reconstructed", turns=5)
    assert old == (folder / f"{ID}.md").read_bytes()
    assert [f"{ID}.md"] == files(folder)


def test_a_reconstructed_bottle_is_replaced_by_a_full_one(write: Callable[..., Written]) -> None:
    """A transcript that comes back has more to say."""
    write(mode="reconstructed", turns=1)

    assert WRITTEN == write(turns=1).outcome


def test_a_bottle_with_more_turns_is_archived_first(folder: Path, write: Callable[..., Written]) -> None:
    """It may be the only record left of them; the name tells when and whose."""
    old = write(turns=1_234).path.read_bytes()
    written = write(turns=1_233)

    assert folder / "archive" / f"{NOW}-{ID}.md" == written.archived
    assert old == written.archived.read_bytes()
    assert b"contents: 1,233 user" in written.path.read_bytes()
    assert [f"{ID}.md", "archive", f"archive/{NOW}-{ID}.md"] == files(folder)


def test_an_archived_bottle_is_never_overwritten(folder: Path, write: Callable[..., Written]) -> None:
    """Two in one millisecond get two names."""
    for turns in (3, 2, 1):
        write(turns=turns)

    assert [f"{NOW}-{ID}.md", f"{NOW + 1}-{ID}.md"] == files(folder / "archive")
    assert b"contents: 3 user" in (folder / "archive" / f"{NOW}-{ID}.md").read_bytes()


def test_a_bottle_with_as_many_turns_is_not_archived(folder: Path, write: Callable[..., Written]) -> None:
    """The common case, a refresh, leaves no copies."""
    write(turns=2)

    assert write(turns=2).archived is None
    assert write(turns=3).archived is None
    assert [f"{ID}.md"] == files(folder)


def test_an_older_state_never_wins(tmp_path: Path, write: Callable[..., Written]) -> None:
    """A slow writer that read less of the transcript than the bottle holds gives way, also when the file is gone."""
    transcript = tmp_path / "t.jsonl"
    transcript.write_bytes(b"x" * 20)
    write(source_bytes=20, body="later")

    assert KEPT_NEWER == write(transcript, source_bytes=10).outcome
    transcript.unlink()
    assert KEPT_NEWER == write(transcript, source_bytes=10).outcome
    transcript.write_bytes(b"x" * 10)
    assert WRITTEN == write(transcript, source_bytes=10).outcome, "the transcript itself is shorter now"


@pytest.mark.parametrize(
    "text", ["", "notes of mine\nmode: full\n", "# Session bottle — x\nno mode\n\nmode: full\n", "\ufffd" * 100_000]
)
def test_a_file_that_is_no_bottle_has_no_standing(tmp_path: Path, text: str) -> None:
    """Only a header counts, never the words below it."""
    (tmp_path / "x.md").write_text(text)

    assert read_standing(tmp_path / "x.md") is None
    assert read_standing(tmp_path / "missing.md") is None


def test_the_standing_of_a_bottle_is_in_its_header(tmp_path: Path) -> None:
    """What was written is what is read, and absurd numbers are no reason to fail."""
    pieces, standing = a_bottle("reconstructed", 1_234, 10**12)
    (tmp_path / "x.md").write_bytes(b"".join(pieces))
    (tmp_path / "y.md").write_bytes(b"".join(pieces).replace(b"1,234", b"9" * 5000))

    assert standing == read_standing(tmp_path / "x.md")
    assert Standing("reconstructed", 0, 10**12) == read_standing(tmp_path / "y.md")


def test_a_named_file_is_written_whole_and_never_archived(tmp_path: Path) -> None:
    """What the user names is replaced, with nothing beside it."""
    for body in ("old", "new"):
        write_file(tmp_path / "out.md", [f"{body} ".encode(), b"text"])

    assert "new text" == (tmp_path / "out.md").read_text()
    assert ["out.md"] == files(tmp_path)


def test_a_name_as_long_as_names_can_be_is_written(tmp_path: Path) -> None:
    """The temporary sibling's name is not longer than the file's own."""
    name = "é" * 126 + ".m"
    write_file(tmp_path / name, [b"x"])

    assert [name] == files(tmp_path)


@pytest.mark.parametrize("exists", [True, False])
def test_a_named_symlink_is_followed(tmp_path: Path, exists: bool) -> None:
    """The user chose the link; the file behind it is written and the link stays."""
    (tmp_path / "real").mkdir()
    if exists:
        (tmp_path / "real" / "out.md").write_text("old")
    (tmp_path / "link.md").symlink_to(tmp_path / "real" / "out.md")
    write_file(tmp_path / "link.md", [b"new"])

    assert (tmp_path / "link.md").is_symlink()
    assert "new" == (tmp_path / "real" / "out.md").read_text()


@pytest.mark.parametrize("name", ["", "missing/out.md"])
def test_a_name_that_cannot_be_written_is_one_clear_error(tmp_path: Path, name: str) -> None:
    """A folder, or a folder that is not there."""
    with pytest.raises(WriteFailed, match=r"cannot be written: (Is a directory|No such file or directory)"):
        write_file(tmp_path / name, [b"x"])
    assert [] == files(tmp_path)


def test_a_pipe_gets_the_text(tmp_path: Path) -> None:
    """What reads from a pipe reads every piece, and the pipe stays a pipe."""
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_file(tmp_path / "pipe", [b"a", b"b"])
    reader.join()

    assert ["ab"] == read
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="no /dev/stdout here")
def test_standard_output_by_name_gets_the_text(tmp_path: Path) -> None:
    """As a pipe, and as a file that already holds something."""
    code = "from pathlib import Path; from bottlepipe.write import write_file; write_file(Path('/dev/stdout'), [b'a', b'b'])"
    (tmp_path / "log").write_text("before ")
    with (tmp_path / "log").open("a") as log:
        subprocess.run([sys.executable, "-c", code], stdout=log, check=True)

    assert b"ab" == subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout
    assert "before ab" == (tmp_path / "log").read_text()
    assert ["log"] == files(tmp_path)


@pytest.mark.parametrize("less", [{"assistant_messages": 1}, {"observations": 0}])
def test_a_bottle_with_more_of_anything_is_archived_first(folder: Path, less: dict[str, int]) -> None:
    """Fewer answers or observations are a loss as well as fewer turns."""

    def put(**counts: int) -> Written:
        said = f"{counts['assistant_messages']} assistant messages, {counts['observations']} observations"
        text = f"# Session bottle — {ID}\nproject: x\nmode: full\ncontents: 2 user turns, {said}\n\n---\n"
        return write_bottle(folder, ID, [text.encode()], Standing("full", 2, 10, **counts), NOW)

    put(assistant_messages=5, observations=5)

    assert put(assistant_messages=5, observations=5).archived is None
    assert put(**{"assistant_messages": 5, "observations": 5, **less}).archived is not None


def test_what_is_no_readable_bottle_is_kept_too(folder: Path, write: Callable[..., Written]) -> None:
    """A file at the bottle's path that nobody can judge may still be somebody's only copy."""
    folder.mkdir(parents=True)
    (folder / f"{ID}.md").write_text("notes of mine")

    archived = write().archived

    assert archived is not None
    assert archived.read_text() == "notes of mine"


def test_a_symlink_as_the_archive_is_not_followed(folder: Path, write: Callable[..., Written], tmp_path: Path) -> None:
    """Words do not go where somebody else points; the bottle stays whole."""
    write(turns=2)
    before = (folder / f"{ID}.md").read_bytes()
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    (folder / "archive").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(WriteFailed, match="symbolic link"):
        write(turns=1)
    assert [] == list((tmp_path / "elsewhere").iterdir())
    assert before == (folder / f"{ID}.md").read_bytes()


def test_what_a_killed_writer_of_a_named_file_left_goes(tmp_path: Path) -> None:
    """What belongs to another file, or is still being written, or is the user's, stays."""
    import fcntl

    names = [".other.md~0123abcd.tmp", ".out.md~01234567.tmp", ".out.md~backup.tmp", ".out.md~89abcdef.tmp"]
    for name in names:
        (tmp_path / name).write_text("half")
    with (tmp_path / names[1]).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write_file(tmp_path / "out.md", [b"text"])

    assert [*names[:3], "out.md"] == files(tmp_path)


def test_a_folder_that_may_be_written_but_not_listed_takes_a_named_file(tmp_path: Path) -> None:
    """A drop box of the user's."""
    code = "import sys; from pathlib import Path; from bottlepipe.write import write_file; write_file(Path(sys.argv[1]), [b'text'])"
    box = tmp_path / "box"
    box.mkdir()
    box.chmod(0o300)
    done = subprocess.run(as_plain_user([sys.executable, "-c", code, str(box / "out.md")]), check=False)
    box.chmod(0o700)

    assert done.returncode == 0
    assert ["out.md"] == files(box)


def test_an_archived_bottle_that_still_stands_is_not_archived_twice(
    folder: Path, write: Callable[..., Written]
) -> None:
    """A writer was killed between archiving and renaming: the next finds its copy."""
    old = write(turns=2).path.read_bytes()
    (folder / "archive").mkdir()
    (folder / "archive" / f"17-{ID}.md").hardlink_to(folder / f"{ID}.md")

    assert folder / "archive" / f"17-{ID}.md" == write(turns=1).archived
    assert [f"17-{ID}.md"] == files(folder / "archive")
    assert old == (folder / "archive" / f"17-{ID}.md").read_bytes()


@needs_root
def test_a_bottle_that_cannot_be_linked_is_copied_into_the_archive(folder: Path) -> None:
    """Linux refuses links to other people's files; elsewhere a file system may know none."""
    protected = Path("/proc/sys/fs/protected_hardlinks")
    if not protected.exists() or protected.read_text().strip() != "1":
        pytest.skip("links to other people's files are allowed here")
    folder.mkdir(parents=True)
    for above in (folder, folder.parent):
        os.chown(above, 65534, 65534)
    old = b"".join(a_bottle(turns=9)[0])
    (folder / f"{ID}.md").write_bytes(old)
    (folder / f"{ID}.md").chmod(0o644)
    limit = f"import fcntl, os; os.chdir({str(folder)!r}); os.setgid(65534); os.setuid(65534)"

    assert [WRITTEN] == run_child(Path("."), limit=limit)
    assert [f"{ID}.md", "archive", f"archive/1-{ID}.md"] == files(folder)
    assert old == (folder / "archive" / f"1-{ID}.md").read_bytes()
    assert (folder / "archive" / f"1-{ID}.md").stat().st_ino != (folder / f"{ID}.md").stat().st_ino
