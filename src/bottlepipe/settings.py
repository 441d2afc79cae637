"""Where things are: the environment and claude-mem's settings.json in, `Settings` out.

The only module that reads the environment; everything else gets what it needs as an argument.
"""

from __future__ import annotations

import fnmatch
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path

DATABASE_NAME = "claude-mem.db"
_EXCLUDED = "CLAUDE_MEM_EXCLUDED_PROJECTS"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a render depends on beside its sources.

    `zone` None means the system's time zone. `source_date_ms` is SOURCE_DATE_EPOCH in Unix milliseconds.
    """

    home: Path
    config_dir: Path
    data_dir: Path
    excluded_projects: tuple[str, ...] = ()
    runtime: str = "worker"
    zone: tzinfo | None = None
    source_date_ms: int | None = None
    problem: str = ""

    @property
    def database(self) -> Path:
        """claude-mem's database. Never found by a glob: backups lie beside it."""
        return self.data_dir / DATABASE_NAME

    @property
    def projects_dir(self) -> Path:
        """Where Claude Code keeps transcripts, one folder per project."""
        return self.config_dir / "projects"

    @property
    def bottles_dir(self) -> Path:
        """Where bottles go."""
        return self.data_dir / "bottles"

    def is_excluded(self, *names: str | None) -> bool:
        """True when one of a session's folders or project names matches CLAUDE_MEM_EXCLUDED_PROJECTS.

        A pattern is a glob for a whole path, for a folder above it, or for the base name of either. Of a lost
        transcript only the base name of the project is known: there a pattern's own base name decides, in doubt against
        the session.
        """
        patterns = [_expand(pattern, self.home).removesuffix("/**").rstrip("/") for pattern in self.excluded_projects]
        for name in filter(None, names):
            path = Path(name.rstrip("/") or "/")
            folders = (path, *path.parents)
            forms = [*(str(one) for one in folders), *(one.name for one in folders if one.name)]
            for pattern in patterns:
                if any(fnmatch.fnmatchcase(form, pattern) for form in forms):
                    return True
                if "/" not in name and fnmatch.fnmatchcase(name, Path(pattern).name):
                    return True
        return False


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from an environment (default: the process's own). A broken settings.json is named in `problem`."""
    environ = os.environ if environ is None else environ
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())
    default = home / ".claude-mem"
    stored, problem = _read_stored(default / "settings.json")

    def setting(name: str) -> str:
        return (environ.get(name) or stored.get(name) or "").strip()

    data_dir = Path(_expand(setting("CLAUDE_MEM_DATA_DIR"), home)) if setting("CLAUDE_MEM_DATA_DIR") else default
    if data_dir != default:
        # A moved data folder has a settings file of its own.
        moved, moved_problem = _read_stored(data_dir / "settings.json")
        stored, problem = {**stored, **moved}, problem or moved_problem
    config = (environ.get("CLAUDE_CONFIG_DIR") or "").strip()
    excluded = setting(_EXCLUDED)
    return Settings(
        home=home,
        config_dir=Path(_expand(config, home)) if config else home / ".claude",
        data_dir=data_dir,
        excluded_projects=tuple(part.strip() for part in excluded.split(",") if part.strip()),
        runtime=setting("CLAUDE_MEM_RUNTIME") or "worker",
        source_date_ms=_source_date(environ.get("SOURCE_DATE_EPOCH")),
        problem=problem,
    )


def render_time(settings: Settings) -> datetime:
    """The moment that `rendered:` shows: SOURCE_DATE_EPOCH where it is set, else now."""
    if settings.source_date_ms is not None:
        return datetime.fromtimestamp(settings.source_date_ms / 1000, UTC)
    return datetime.now(UTC)


def _expand(path: str, home: Path) -> str:
    return str(home) + path[1:] if path == "~" or path.startswith("~/") else path


def _read_stored(path: Path) -> tuple[dict[str, str], str]:
    """claude-mem's own settings: flat, or in older files under `env`; may start with a byte order mark.

    A file that cannot be understood but speaks of excluded projects excludes all: in doubt nothing is stored.
    """
    if not path.is_file():
        return {}, ""
    data = b""
    try:
        data = path.read_bytes()
        value = json.loads(data.decode("utf-8-sig"))
        if not isinstance(value, dict):
            raise ValueError("it holds no settings")
    except (OSError, ValueError, RecursionError) as error:
        stored = {_EXCLUDED: "*"} if _EXCLUDED.encode() in data else {}
        return stored, f"{path} cannot be used: {str(error).splitlines()[0]}"
    nested = value.get("env")
    flat = {**nested, **value} if isinstance(nested, dict) else value
    stored = {key: item for key, item in flat.items() if isinstance(item, str)}
    excluded = flat.get(_EXCLUDED)
    if isinstance(excluded, list):
        stored[_EXCLUDED] = ",".join(str(pattern) for pattern in excluded)
    elif excluded is not None and not isinstance(excluded, str):
        stored[_EXCLUDED] = "*"
    return stored, ""


def _source_date(text: str | None) -> int | None:
    try:
        moment = int(text or "") * 1000
        datetime.fromtimestamp(moment / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment
