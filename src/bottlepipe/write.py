"""Stage `write`: pieces of markdown in, a file out: whole or not at all.

A bottle may be the only record left of a conversation, so what is there is never replaced by less: a full bottle never
by a reconstructed one, a newer state never by an older, and one with more user turns is archived first.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bottlepipe.errors import WriteFailed

ARCHIVE = "archive"
_LOCK_WAIT_S = 10.0
_ABANDONED_S = 3600
_HEADER_LIMIT = 64 * 1024

# What became of a bottle, and the words for what did not become one.
WRITTEN = "written"
KEPT_FULL = "kept_full"
KEPT_NEWER = "kept_newer"
REASONS = {
    KEPT_FULL: "kept: the full bottle that is there has more than a reconstruction",
    KEPT_NEWER: "kept: the bottle that is there was rendered from a later state of the transcript",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """What the header of a bottle says of it. `source_bytes` is how much of the transcript it was rendered from."""

    mode: str
    user_turns: int
    source_bytes: int
    assistant_messages: int = 0
    observations: int = 0

    def has_more_than(self, other: Standing) -> bool:
        """True when something of this bottle is not in the other: it must not be replaced without a copy."""
        return (
            self.user_turns > other.user_turns
            or self.assistant_messages > other.assistant_messages
            or self.observations > other.observations
        )


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a bottle: `outcome` is WRITTEN, KEPT_FULL or KEPT_NEWER; `archived` is where the old one went."""

    path: Path
    outcome: str
    archived: Path | None = None


def write_bottle(
    folder: Path,
    session_id: str,
    pieces: Iterable[str],
    standing: Standing,
    now_ms: int,
    transcript: Path | None = None,
) -> Written:
    """Write `<folder>/<session_id>.md` under the session's lock, unless what is there holds more.

    Raises WriteFailed, with the old bottle whole, when the folder cannot be written or the disk is full.
    """
    path = folder / f"{session_id}.md"
    with _explain(path):
        _make_private(folder)
        with _locked(folder / f".{session_id}.lock"):
            if os.path.lexists(path) and not (path.is_symlink() or path.is_file()):
                raise FileExistsError(errno.EEXIST, "something that is no file has its name")
            old = read_standing(path)
            if old is not None:
                if old.mode == "full" and standing.mode != "full":
                    return Written(path, KEPT_FULL)
                if _is_overtaken(old, standing, transcript):
                    return Written(path, KEPT_NEWER)
            _remove_stale(folder, session_id)
            archived = None
            with _replacing(path, f".{session_id}~", pieces):
                if old.has_more_than(standing) if old is not None else _is_file(path):
                    archived = _archive(path, session_id, now_ms)
            return Written(path, WRITTEN, archived)


def write_file(path: Path, pieces: Iterable[str]) -> None:
    """Write to a path the user named: whole or not at all, mode 0600, nothing archived. Raises WriteFailed."""
    with _explain(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        target = Path(os.path.realpath(path))
        if (path.exists() and not path.is_file()) or os.fspath(path).startswith(("/dev/std", "/dev/fd/", "/proc/")):
            # A pipe, a device, or an open file such as /dev/stdout: to replace it would miss who reads it. Appending
            # takes nothing from a file that standard output already goes to.
            with open(path, "a", encoding="utf-8", newline="") as stream:
                stream.writelines(pieces)
            return
        prefix = f".{target.name[:50]}~"
        _remove_abandoned(target.parent, prefix)
        with _replacing(target, prefix, pieces):
            pass


@contextlib.contextmanager
def _replacing(target: Path, prefix: str, pieces: Iterable[str]) -> Iterator[None]:
    """Write a temporary sibling, let the caller act while the old file still stands, then rename it into place."""
    temporary = _write_temporary(target.parent, prefix, (piece.encode() for piece in pieces))
    try:
        yield
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(target.parent)


def read_standing(path: Path) -> Standing | None:
    """The standing of the bottle at `path`; None for none, for a symlink, and for a file that is no bottle."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        head = os.read(descriptor, _HEADER_LIMIT).decode("utf-8", "replace").partition("\n\n")[0]
    finally:
        os.close(descriptor)
    mode = re.search(r"^mode: (full|reconstructed)\b", head, re.MULTILINE)
    if not head.startswith("# Session bottle") or mode is None:
        return None

    def count(pattern: str) -> int:
        found = re.search(pattern, head, re.MULTILINE)
        return int(found.group(1).replace(",", "")) if found else 0

    return Standing(
        mode.group(1),
        user_turns=count(r"^contents: ([\d,]{1,20}) user"),
        source_bytes=count(r"^source: (\d{1,20}) bytes"),
        assistant_messages=count(r"^contents: .*?([\d,]{1,20}) assistant message"),
        observations=count(r"^contents: .*?([\d,]{1,20}) observation"),
    )


def _is_file(path: Path) -> bool:
    """True for a file whose standing cannot be told: unreadable, or not a bottle. It is kept as well."""
    try:
        return stat.S_ISREG(os.stat(path, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _is_overtaken(old: Standing, new: Standing, transcript: Path | None) -> bool:
    """True when another process rendered a later state meanwhile: ours is shorter than the file now is."""
    if transcript is None or old.source_bytes <= new.source_bytes:
        return False
    try:
        return transcript.stat().st_size > new.source_bytes
    except OSError:
        return True  # the transcript is gone: nobody will see that later state again


def _make_private(folder: Path) -> None:
    """Make a folder (and what is missing above it) that only this user can enter, under any umask.

    One that is there already is closed to others, if it is this user's.
    """
    if folder.is_dir():
        if os.name != "nt" and (about := folder.stat()).st_mode & 0o077 and about.st_uid == os.geteuid():
            folder.chmod(0o700)
    else:
        if not folder.parent.is_dir():
            _make_private(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            folder.chmod(0o700)


def _write_temporary(folder: Path, prefix: str, pieces: Iterable[bytes]) -> str:
    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=".tmp", dir=folder)
    try:
        os.chmod(name, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return name


def _remove_abandoned(folder: Path, prefix: str) -> None:
    """Remove what a killed writer of a named file left an hour ago or more: nobody writes for so long."""
    for abandoned in folder.glob(f"{glob.escape(prefix)}*.tmp"):
        with contextlib.suppress(OSError):
            if abandoned.stat().st_mtime < time.time() - _ABANDONED_S:
                abandoned.unlink()


def _remove_stale(folder: Path, session_id: str) -> None:
    """Remove what a killed writer of this session left. `~` cannot stand in an id, and the lock is ours."""
    for stale in (*folder.glob(f".{session_id}~*.tmp"), *(folder / ARCHIVE).glob(f".{session_id}~*.tmp")):
        with contextlib.suppress(OSError):
            stale.unlink()


def _archive(path: Path, session_id: str, now_ms: int) -> Path:
    """Keep the old bottle: a hard link where the file system has them, so that nothing is missing at any moment."""
    folder = path.parent / ARCHIVE
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "its archive folder is a symbolic link")
    _make_private(folder)
    while (target := folder / f"{now_ms}-{session_id}.md").exists():
        now_ms += 1
    try:
        os.link(path, target, follow_symlinks=False)
    except (OSError, NotImplementedError):
        os.replace(_write_temporary(folder, f".{session_id}~", [path.read_bytes()]), target)
    _sync_folder(folder)
    return target


def _sync_folder(folder: Path) -> None:
    """Make a rename last. It has happened by now, so where a folder cannot be synced that is no failure."""
    if os.name == "nt":
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`, and leave none behind. A symlink in its place is removed, never followed."""
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        if path.is_symlink():
            path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            if _try_lock(descriptor):
                # The holder before us may have removed the file that we opened: then this lock guards nothing.
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False)):
                        break
                os.close(descriptor)
                continue
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if time.monotonic() >= deadline:
            raise OSError(errno.EAGAIN, f"another process has held its lock for {_LOCK_WAIT_S:g} s")
        time.sleep(0.02)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    if os.name == "nt":
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _explain(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        hint = {
            errno.ENOSPC: "free some space; the bottle that was there is unchanged",
            errno.EDQUOT: "free some space; the bottle that was there is unchanged",
            errno.EFBIG: "raise the file size limit; the bottle that was there is unchanged",
        }.get(error.errno or 0, "check the folder and its permissions, or print it with `-o -`")
        raise WriteFailed(f"{path}: cannot be written: {reason}", hint=hint) from error
