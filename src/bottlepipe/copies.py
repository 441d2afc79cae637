"""Private copies of a database that cannot be read where it lies, and what a killed reader left of them.

A copy lies in a folder of its own in the temporary folder, which only this user can enter, and which its reader keeps
locked for as long as it lives: so whoever gets the lock of such a folder knows that its reader is dead.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "bottlepipe-db-"
# What `mkdtemp` makes of it.
_OURS = re.compile(rf"{PREFIX}[a-z0-9_]{{8}}")
_NAME = "copy.db"
_FILES = frozenset(_NAME + suffix for suffix in ("", "-wal", "-journal", "-shm"))
LIMIT = 1 << 30
# Two writes within one tick of the file system's clock leave the same mtime: nothing younger than this is trusted.
_SETTLED_S = 0.05
_TRIES = 8


class TooLarge(Exception):
    """The files are larger than what is copied."""


class KeptChanging(Exception):
    """Somebody wrote to the files each time that they were copied."""


def wal_of(database: Path) -> Path:
    """The write-ahead log beside a database."""
    return database.with_name(database.name + "-wal")


def journal_of(database: Path) -> Path:
    """The rollback journal beside a database."""
    return database.with_name(database.name + "-journal")


@contextlib.contextmanager
def private_copy(database: Path, *, with_wal: bool) -> Iterator[Path]:
    """A copy of the database, its rollback journal and its `-wal` (never its `-shm`). Raises OSError too."""
    # A rollback journal undoes what was never committed: without it the copy would show that.
    sources = [database, journal_of(database), *([wal_of(database)] if with_wal else [])]
    remove_leftovers()
    with _locked_folder() as folder:
        for _ in range(_TRIES):
            before = [_fingerprint(source) for source in sources]
            if sum(state[1] for state in before if state) > LIMIT:
                raise TooLarge
            for source in sources:
                copy = folder / source.name.replace(database.name, _NAME, 1)
                copy.unlink(missing_ok=True)
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(source, copy)
            if before[0] and before == [_fingerprint(source) for source in sources] and _is_settled(before):
                break
            time.sleep(_SETTLED_S)
        else:
            raise KeptChanging
        yield folder / _NAME


def _fingerprint(path: Path) -> tuple[int, int, int, bool] | None:
    """Which file this is, its size, its mtime, and whether that was long enough ago."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    is_settled = abs(time.time_ns() - about.st_mtime_ns) > _SETTLED_S * 1e9
    return about.st_ino, about.st_size, about.st_mtime_ns, is_settled


def _is_settled(states: list[tuple[int, int, int, bool] | None]) -> bool:
    return all(state[3] for state in states if state)


@contextlib.contextmanager
def _locked_folder() -> Iterator[Path]:
    if os.name == "nt":
        # A folder cannot be locked there; what a killed reader leaves is the system's to clean.
        with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    import fcntl

    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        # Until it is locked, another process may take it for abandoned and remove it: then there is no folder of this
        # name, or another one.
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        # Where folders cannot be locked, nobody can take them for abandoned either.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(folder, follow_symlinks=False)):
                break
        os.close(descriptor)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def remove_leftovers() -> None:
    """Remove the copies whose readers are dead: this user's own folders, never through a link, never one in use."""
    if os.name == "nt":
        return
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if _OURS.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(entry.path)


def _remove_if_abandoned(folder: str) -> None:
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        about = os.fstat(descriptor)
        if about.st_uid != os.geteuid() or stat.S_IMODE(about.st_mode) != 0o700:
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # By the open folder, not by its path, which might name another one by now.
        names = os.listdir(descriptor)
        if not _FILES.issuperset(names):
            return  # a folder of somebody else's that happens to have such a name
        for name in names:
            os.unlink(name, dir_fd=descriptor)
        os.rmdir(folder)
    finally:
        os.close(descriptor)
