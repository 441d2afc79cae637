"""Builders for invented transcript lines, and the reader of case files that hold them."""

from __future__ import annotations

import io
import json
import tomllib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bottlepipe.classify import Classified, classify_entries
from bottlepipe.read import Entry, Skipped, read_entries

SESSION = "0b0771e5-0000-4000-8000-000000000001"
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
_IN_TREE = ("user", "assistant", "system", "attachment", "progress")
CASES = Path(__file__).parent / "cases"


def stamp(seconds: float) -> str:
    """An ISO time so many seconds after the start, as Claude Code writes it."""
    return (START + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def user(text: Any, **fields: Any) -> dict[str, Any]:
    """A user entry; `text` is a string or a list of content blocks."""
    return {"type": "user", "message": {"role": "user", "content": text}, **fields}


def assistant(text: str, message_id: str | None = None, **fields: Any) -> dict[str, Any]:
    """An assistant entry with one text block."""
    message = {"id": message_id, "role": "assistant", "model": "claude-x", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "message": message, **fields}


def numbered(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give every entry what it does not say itself: a time, a session, and a place in a chain u1, u2, …"""
    complete = []
    last: str | None = None
    for number, entry in enumerate(entries, start=1):
        whole = {"timestamp": stamp(number), "sessionId": SESSION, **entry}
        if whole.get("type") in _IN_TREE:
            whole = {"parentUuid": last, "uuid": f"u{number}", **whole}
            last = whole["uuid"]
        complete.append(whole)
    return complete


def as_line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def as_file(entries: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(as_line(entry) for entry in numbered(entries))


def read_all(data: bytes, size: int | None = None) -> list[Entry | Skipped]:
    """What `read` makes of these bytes."""
    return list(read_entries(io.BytesIO(data), len(data) if size is None else size))


def classify_bytes(data: bytes) -> Classified:
    return classify_entries(read_entries(io.BytesIO(data), len(data)), SESSION)


def case_files(stage: str) -> list[Path]:
    """The case files of a stage; none at all is a failure of the checkout, not an empty success."""
    files = sorted((CASES / stage).glob("*.toml"))
    assert files, f"no case files in {CASES / stage}"
    return files


def read_case(path: Path) -> tuple[dict[str, Any], bytes]:
    """A case and the transcript in it. Its `lines` are JSON, one entry each, with the obvious fields left out."""
    case = tomllib.loads(path.read_text(encoding="utf-8"))
    return case, as_file(json.loads(line) for line in case["lines"].splitlines() if line.strip())
