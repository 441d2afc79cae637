"""Stage `write`: pieces of markdown in UTF-8 in, a file out: whole or not at all.

A bottle may be the only record left of a conversation, so what is there is never replaced by less: a full bottle never
by a reconstructed one, a newer state never by an older, and one with more user turns is archived first.

Each session has a lock of its own beside its bottle while that is written. What a writer that was killed left there
goes with the next write into the folder, whichever session it was of.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bottlepipe.errors import WriteFailed
from bottlepipe.folder import Folder, opened

ARCHIVE = "archive"
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
    pieces: Iterable[bytes],
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
        with opened(folder) as place, place.locked(f".{session_id}~.lock"):
            # No session id has a `~`, and other programs keep hidden files too.
            place.remove_abandoned(r"\.[A-Za-z0-9_][A-Za-z0-9._-]*~([0-9a-f]{8}\.tmp|\.lock)")
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
            with place.temporary(f".{session_id}~", pieces) as temporary:
                if is_kept:
                    archived = _archive(place, session_id, now_ms)
                place.rename(temporary, name)
            return Written(path, WRITTEN, archived)


def write_file(path: Path, pieces: Iterable[bytes]) -> None:
    """Write to a path the user named: whole or not at all, mode 0600, nothing archived. Raises WriteFailed."""
    with _explain(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        target = Path(os.path.realpath(path))
        if (path.exists() and not path.is_file()) or os.fspath(path).startswith(("/dev/std", "/dev/fd/", "/proc/")):
            # A pipe, a device, or an open file such as /dev/stdout: to replace it would miss who reads it. Appending
            # takes nothing from a file that standard output already goes to.
            with open(path, "ab") as stream:
                stream.writelines(pieces)
            return
        prefix = f".{target.name[:50]}~"
        with opened(target.parent) as place:
            place.remove_abandoned(rf"{re.escape(prefix)}[0-9a-f]{{8}}\.tmp")
            with place.temporary(prefix, pieces) as temporary:
                place.rename(temporary, target.name)


def read_standing(path: Path) -> Standing | None:
    """The standing of the bottle at `path`; None for none, for a symlink, and for a file that is no bottle."""
    return _read_standing(Folder(path.parent), path.name)


def _read_standing(folder: Folder, name: str) -> Standing | None:
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


def _read(folder: Folder, name: str, limit: int = -1) -> bytes:
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


def _archive(folder: Folder, session_id: str, now_ms: int) -> Path | None:
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
    with opened(path) as archive:
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
            with folder.temporary(f".{session_id}~", [_read(folder, name)]) as temporary:
                folder.rename(temporary, target, archive)
        else:
            archive.sync()
    return path / target


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
