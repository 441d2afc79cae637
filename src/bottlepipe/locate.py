"""Stage 0, `locate`: an id, a prefix or a path in, a `SessionRef` out.

The decision this stage owns: is the id safe to become a file name, and which file is meant?
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bottlepipe.errors import NothingToRender, UsageError
from bottlepipe.settings import Settings

_SAFE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}\Z")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_OBSERVER_SUFFIX = "-claude-mem-observer-sessions"
_SHORTEST_PREFIX = 6


@dataclass(frozen=True, slots=True)
class SessionRef:
    """One session to render. `transcript` is None when only the database may know it.

    `bottle_id` names the bottle; `stored_id` is the id that claude-mem knows, "" when the file's content must tell.
    `others` counts further transcripts of the same id in other project folders.
    """

    bottle_id: str
    stored_id: str
    transcript: Path | None
    others: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """One transcript on disk: its size in bytes, last change in Unix milliseconds, and project folder name."""

    session_id: str
    path: Path
    bytes: int
    changed_ms: int
    folder: str


def check_id(session_id: str) -> str:
    """Return a session id that is safe as a file name; raises UsageError for any other."""
    if not is_safe_id(session_id):
        raise UsageError(
            f"{session_id[:80]!r} is not a session id",
            hint="an id has letters, digits, `.`, `_` and `-` only; `bottlepipe list` shows them",
        )
    return session_id


def is_safe_id(session_id: str) -> bool:
    """True for letters, digits, `.`, `_`, `-`, not starting with `.` or `-`: nothing a path could climb with."""
    return bool(_SAFE_ID.match(session_id))


def is_uuid(text: str) -> bool:
    """True for an id in the form that Claude Code gives."""
    return bool(_UUID.match(text))


def ref_of_file(path: Path) -> SessionRef:
    """A SessionRef for a transcript file anywhere. Its name is the session id when it looks like one."""
    stem = path.name.split(".jsonl")[0] or path.name
    bottle_id = re.sub(r"[^A-Za-z0-9._-]", "-", stem).lstrip(".-")[:128] or "transcript"
    return SessionRef(bottle_id, stem if is_uuid(stem) else "", path)


def find_transcripts(settings: Settings) -> list[Found]:
    """Every main transcript below the projects folder, newest first. Subagents' and observers' files do not count."""
    found = []
    for folder in _folders(settings.projects_dir):
        for path in folder.glob("*.jsonl"):
            if path.stem.startswith("agent-") or not _SAFE_ID.match(path.stem):
                continue
            try:
                about = path.stat()
            except OSError:
                continue
            if path.is_file():
                found.append(Found(path.stem, path, about.st_size, about.st_mtime_ns // 1_000_000, folder.name))
    return sorted(found, key=lambda one: (-one.changed_ms, one.session_id, one.folder))


def _folders(projects_dir: Path) -> Iterator[Path]:
    try:
        folders = sorted(projects_dir.iterdir())
    except OSError:
        return
    for folder in folders:
        if not folder.name.endswith(_OBSERVER_SUFFIX) and folder.is_dir():
            yield folder


def project_folder(cwd: str) -> str:
    """The folder name that Claude Code gives a working folder: everything but letters and digits becomes `-`."""
    return re.sub(r"[^A-Za-z0-9]", "-", cwd)


def locate_session(settings: Settings, wanted: str, stored_ids: Sequence[str] = ()) -> SessionRef:
    """The session that an id or a unique prefix of it (6 characters or more) names.

    `stored_ids` are the sessions that the database knows. Raises UsageError for an unsafe id or an ambiguous prefix,
    NothingToRender when nothing matches.
    """
    check_id(wanted)
    transcripts = find_transcripts(settings)
    ids = {one.session_id for one in transcripts} | {one for one in stored_ids if _SAFE_ID.match(one)}
    if wanted not in ids:
        matches = sorted(one for one in ids if one.startswith(wanted))
        if not matches:
            why = "no transcript, and nothing stored for it"
            hint = "`bottlepipe list` shows the sessions that can be rendered"
            raise NothingToRender(f"session {wanted}: {why}", hint=hint)
        if len(matches) > 1 or len(wanted) < _SHORTEST_PREFIX:
            shown = ", ".join(matches[:5]) + (f" and {len(matches) - 5} more" if len(matches) > 5 else "")
            why = "begins several session ids" if len(matches) > 1 else f"a prefix needs {_SHORTEST_PREFIX} characters"
            raise UsageError(f"{wanted}: {why}: {shown}", hint="give more of the id")
        wanted = matches[0]
    return _choose(wanted, [one for one in transcripts if one.session_id == wanted])


def locate_latest(settings: Settings, cwd: str) -> SessionRef:
    """The newest session of the current project, else of all. Raises NothingToRender when there is none."""
    transcripts = find_transcripts(settings)
    here = [one for one in transcripts if one.folder == project_folder(cwd)]
    if not transcripts:
        raise NothingToRender(
            f"no session below {settings.projects_dir}",
            hint="name a transcript file, or set CLAUDE_CONFIG_DIR to the folder that Claude Code uses",
        )
    newest = (here or transcripts)[0]
    return _choose(newest.session_id, [one for one in transcripts if one.session_id == newest.session_id])


def _choose(session_id: str, same: list[Found]) -> SessionRef:
    """Of several transcripts with one id the one with most main-chain entries, then the newest."""
    if len(same) > 1:
        same = sorted(same, key=lambda one: (-_count_entries(one.path), -one.changed_ms, one.folder))
    return SessionRef(session_id, session_id, same[0].path if same else None, others=max(0, len(same) - 1))


def _count_entries(path: Path) -> int:
    from bottlepipe.errors import BottlepipeError
    from bottlepipe.read import Entry, open_transcript, read_entries

    try:
        with open_transcript(path) as file:
            return sum(
                isinstance(entry, Entry) and entry.uuid is not None and not entry.is_sidechain
                for entry in read_entries(file, path.stat().st_size)
            )
    except (BottlepipeError, OSError):
        return 0
