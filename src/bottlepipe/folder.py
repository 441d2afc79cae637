"""A folder held open, and the hidden files that stand in it while something is written.

There are two kinds, and after a write none: a lock, and a new text before it is renamed into place. Each is locked as
long as its process lives, so one that can be locked was left by a process that was killed. Where the file system has no
locks, nothing is taken for left over, and of two writers at a time the last one counts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

LOCK_WAIT_S = 10.0
# No symlink is followed, and nobody waits for the other end of a pipe.
_FILES_ONLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class Folder(NamedTuple):
    """A folder held open: what is done in it stays in it, also when somebody moves it and puts another in its place.

    `descriptor` is None where it cannot be held (Windows, a folder that may not be listed): names are whole paths then.
    """

    path: Path
    descriptor: int | None = None

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

    def rename(self, name: str, target: str, folder: Folder | None = None) -> None:
        """Give a file another name, here or in another folder, and take the place of what has it there."""
        folder = folder or self
        os.replace(self.at(name), folder.at(target), src_dir_fd=self.descriptor, dst_dir_fd=folder.descriptor)
        folder.sync()

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

    @contextlib.contextmanager
    def temporary(self, prefix: str, pieces: Iterable[bytes]) -> Iterator[str]:
        """Write pieces to a new file, give its name, and remove it unless the caller has renamed it."""
        is_ours = False
        while not is_ours:
            name = f"{prefix}{os.urandom(4).hex()}.tmp"
            descriptor = self.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                # Somebody may see it before it is locked, and take it for left over.
                is_ours = self._lock(name, descriptor)
            except BaseException:
                with contextlib.suppress(OSError):
                    self.unlink(name)
                raise
        try:
            with open(descriptor, "wb") as file:
                os.chmod(self.at(name), 0o600, dir_fd=self.descriptor)
                file.writelines(pieces)
                file.flush()
                os.fsync(descriptor)
                if os.name == "nt":
                    file.close()  # an open file cannot be renamed there
                if not self.is_in_place():
                    raise OSError(errno.ENOENT, "its folder was moved or replaced meanwhile")
                yield name
        finally:
            with contextlib.suppress(OSError):
                self.unlink(name)

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold a lock file, and leave none behind. A symlink in its place is removed, never followed."""
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            about = self.stat(name)
            if about is not None and stat.S_ISLNK(about.st_mode):
                with contextlib.suppress(FileNotFoundError):
                    self.unlink(name)
            descriptor = self.open(name, os.O_RDWR | os.O_CREAT)
            # The holder before us may have removed the file that we opened: then this lock guards nothing.
            if self._lock(name, descriptor):
                break
            if time.monotonic() >= deadline:
                raise OSError(errno.EAGAIN, f"another process has held its lock for {LOCK_WAIT_S:g} s")
            time.sleep(0.02)
        try:
            yield
        finally:
            self._remove(name, descriptor)

    def remove_abandoned(self, pattern: str) -> None:
        """Remove the hidden regular files with such names that no living process has locked."""
        with contextlib.suppress(PermissionError):
            for name in self.names():
                about = self.stat(name) if name.startswith(".") and re.fullmatch(pattern, name) else None
                if about is not None and stat.S_ISREG(about.st_mode):
                    with contextlib.suppress(OSError):
                        descriptor = self.open(name, os.O_RDWR)
                        if self._lock(name, descriptor, where_none=False):
                            self._remove(name, descriptor)

    def _lock(self, name: str, descriptor: int, *, where_none: bool = True) -> bool:
        """True when we have the lock of this open file, and the file still has its name. Otherwise it is closed.

        `where_none` is the answer of a file system without locks.
        """
        try:
            if _try_lock(descriptor, where_none=where_none):
                about = self.stat(name)
                if about is not None and os.path.samestat(about, os.fstat(descriptor)):
                    return True
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return False

    def _remove(self, name: str, descriptor: int) -> None:
        """Remove a file of which we have the lock: before others can get it, but where no open file can be removed."""
        if os.name == "nt":
            os.close(descriptor)
        with contextlib.suppress(OSError):
            self.unlink(name)
        if os.name != "nt":
            os.close(descriptor)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Folder]:
    """Hold a folder open. Raises OSError when it is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except PermissionError:
        yield Folder(path)
        return
    try:
        yield Folder(path, descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, *, where_none: bool) -> bool:
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
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return where_none
        raise
    return True
