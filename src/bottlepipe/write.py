"""Stage `write`: pieces of markdown in, a file out: whole or not at all.

A bottle may be the only record left of a conversation, so what is there is never replaced by less: a full bottle never
by a reconstructed one, a newer state never by an older, and one with more user turns is archived first.

Two kinds of hidden files stand beside a bottle while it is written, and none afterwards: the session's lock, and the
new text before it is renamed into place. Each is locked as long as its process lives, so one that can be locked was
left by a process that was killed; the next write into the folder removes it, whosesoever it was.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bottlepipe.errors import WriteFailed

ARCHIVE = "archive"
_LOCK_WAIT_S = 10.0
_HEADER_LIMIT = 64 * 1024
# No symlink is followed, and nobody waits for the other end of a pipe.
_FILES_ONLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

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


class _Folder(NamedTuple):
    """A folder held open: what is done in it stays in it, also when somebody moves it and puts another in its place.

    `descriptor` is None where it cannot be held (Windows, a folder that may not be listed): names are whole paths then.
    """

    path: Path
    descriptor: int | None

    def at(self, name: str) -> str:
        """What to call a file of this folder in a call that is given `descriptor` too."""
        return str(self.path / name) if self.descriptor is None else name

    def names(self) -> list[str]:
        return os.listdir(self.path if self.descriptor is None else self.descriptor)

    def stat(self, name: str) -> os.stat_result | None:
        """About the file of this name, a symlink itself; None when there is none."""
        try:
            return os.stat(self.at(name), dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self, name: str, flags: int) -> int:
        return os.open(self.at(name), flags | _FILES_ONLY, 0o600, dir_fd=self.descriptor)

    def unlink(self, name: str) -> None:
        os.unlink(self.at(name), dir_fd=self.descriptor)

    def rename(self, name: str, target: str, folder: _Folder) -> None:
        os.replace(self.at(name), folder.at(target), src_dir_fd=self.descriptor, dst_dir_fd=folder.descriptor)

    def is_in_place(self) -> bool:
        """True while the path still leads to this folder."""
        try:
            return self.descriptor is None or os.path.samestat(os.fstat(self.descriptor), self.path.stat())
        except OSError:
            return False

    def sync(self) -> None:
        """Make a rename last. It has happened by now, so where a folder cannot be synced that is no failure."""
        if self.descriptor is not None:
            with contextlib.suppress(OSError):
                os.fsync(self.descriptor)


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
    name = f"{session_id}.md"
    path = folder / name
    with _explain(path):
        _make_private(folder)
        with _opened(folder) as place, _locked(place, f".{session_id}.lock"):
            _remove_abandoned(place, r"\..+(~[0-9a-f]{8}\.tmp|\.lock)")
            about = place.stat(name)
            if about is not None and not (stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode)):
                raise FileExistsError(errno.EEXIST, "something that is no file has its name")
            old = _read_standing(place, name)
            if old is not None:
                if old.mode == "full" and standing.mode != "full":
                    return Written(path, KEPT_FULL)
                if _is_overtaken(old, standing, transcript):
                    return Written(path, KEPT_NEWER)
            # A file whose standing cannot be told, unreadable or no bottle, is kept as well.
            is_kept = old.has_more_than(standing) if old else about is not None and stat.S_ISREG(about.st_mode)
            archived = None
            with _temporary(place, f".{session_id}~", (piece.encode() for piece in pieces)) as temporary:
                if is_kept:
                    archived = _archive(place, session_id, now_ms)
                _put(place, temporary, name)
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
        with _opened(target.parent) as place:
            _remove_abandoned(place, rf"{re.escape(prefix)}[0-9a-f]{{8}}\.tmp")
            with _temporary(place, prefix, (piece.encode() for piece in pieces)) as temporary:
                _put(place, temporary, target.name)


def read_standing(path: Path) -> Standing | None:
    """The standing of the bottle at `path`; None for none, for a symlink, and for a file that is no bottle."""
    return _read_standing(_Folder(path.parent, None), path.name)


def _read_standing(folder: _Folder, name: str) -> Standing | None:
    try:
        head = _read(folder, name, _HEADER_LIMIT).decode("utf-8", "replace").partition("\n\n")[0]
    except OSError:
        return None
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


def _read(folder: _Folder, name: str, limit: int = -1) -> bytes:
    """The first `limit` bytes of a regular file, else all."""
    with open(folder.open(name, os.O_RDONLY), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        return file.read(limit)


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
            folder.chmod(about.st_mode & 0o700)
    else:
        if not folder.parent.is_dir():
            _make_private(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            folder.chmod(0o700)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[_Folder]:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except PermissionError:
        yield _Folder(path, None)
        return
    try:
        yield _Folder(path, descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _temporary(folder: _Folder, prefix: str, pieces: Iterable[bytes]) -> Iterator[str]:
    """Write pieces to a new file, give its name, and remove it unless the caller has renamed it."""
    while True:
        name = f"{prefix}{os.urandom(4).hex()}.tmp"
        descriptor = folder.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            is_ours = _try_lock(descriptor)
        except OSError:
            is_ours = True  # a file system without locks; there nobody can take it for abandoned
        if is_ours and _is_named(folder, name, descriptor):
            break
        os.close(descriptor)  # somebody saw it before it was locked, and has removed it
    try:
        with open(descriptor, "wb") as file:
            os.chmod(folder.at(name), 0o600, dir_fd=folder.descriptor)
            file.writelines(pieces)
            file.flush()
            os.fsync(descriptor)
            if os.name == "nt":
                file.close()  # an open file cannot be renamed there
            if not folder.is_in_place():
                raise OSError(errno.ENOENT, "its folder was moved or replaced meanwhile")
            yield name
    finally:
        with contextlib.suppress(OSError):
            folder.unlink(name)


def _put(folder: _Folder, temporary: str, name: str) -> None:
    folder.rename(temporary, name, folder)
    folder.sync()


def _archive(folder: _Folder, session_id: str, now_ms: int) -> Path | None:
    """Keep the old bottle: a hard link where the file system has them, so that nothing is missing at any moment.

    Returns where it went; None when it has gone meanwhile.
    """
    name = f"{session_id}.md"
    path = folder.path / ARCHIVE
    old = folder.stat(name)
    if old is None or not stat.S_ISREG(old.st_mode):
        return None
    if path.is_symlink():
        raise OSError(errno.ELOOP, "its archive folder is a symbolic link")
    _make_private(path)
    with _opened(path) as archive:
        if old.st_nlink > 1:
            # A writer may have been killed between archiving and renaming: then it is there already.
            for kept in archive.names():
                if kept.endswith(f"-{name}") and (about := archive.stat(kept)) and os.path.samestat(about, old):
                    return path / kept
        while archive.stat(target := f"{now_ms}-{name}") is not None:
            now_ms += 1
        descriptors = {"src_dir_fd": folder.descriptor, "dst_dir_fd": archive.descriptor}
        try:
            os.link(folder.at(name), archive.at(target), follow_symlinks=False, **descriptors)
        except (OSError, NotImplementedError):
            with _temporary(folder, f".{session_id}~", [_read(folder, name)]) as temporary:
                folder.rename(temporary, target, archive)
        archive.sync()
    return path / target


def _remove_abandoned(folder: _Folder, pattern: str) -> None:
    """Remove the files with such names that no living process has locked."""
    with contextlib.suppress(PermissionError):
        for name in folder.names():
            if name.startswith(".") and re.fullmatch(pattern, name):
                with contextlib.suppress(OSError):
                    descriptor = folder.open(name, os.O_RDWR)
                    try:
                        if _try_lock(descriptor) and _is_named(folder, name, descriptor):
                            folder.unlink(name)
                    finally:
                        os.close(descriptor)


@contextlib.contextmanager
def _locked(folder: _Folder, name: str) -> Iterator[None]:
    """Hold a lock file, and leave none behind. A symlink in its place is removed, never followed."""
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        about = folder.stat(name)
        if about is not None and stat.S_ISLNK(about.st_mode):
            with contextlib.suppress(FileNotFoundError):
                folder.unlink(name)
        descriptor = folder.open(name, os.O_RDWR | os.O_CREAT)
        try:
            is_free = _try_lock(descriptor)
            # The holder before us may have removed the file that we opened: then this lock guards nothing.
            if is_free and _is_named(folder, name, descriptor):
                break
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if is_free:
            continue
        if time.monotonic() >= deadline:
            raise OSError(errno.EAGAIN, f"another process has held its lock for {_LOCK_WAIT_S:g} s")
        time.sleep(0.02)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            folder.unlink(name)
        os.close(descriptor)


def _is_named(folder: _Folder, name: str, descriptor: int) -> bool:
    """True when the file that was opened by this name still has it."""
    about = folder.stat(name)
    return about is not None and os.path.samestat(about, os.fstat(descriptor))


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
