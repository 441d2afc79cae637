"""Makes claude-mem databases, in claude-mem 13.25's shape and with its indexes. Run it in a process of its own.

Python's sqlite3 and DuckDB's scanner are two SQLite libraries, and must never meet on one file in one process.

    python benchmarks/database.py 1000000 claude-mem.db --transcript session.jsonl

makes the observations of many sessions, and prints the truth about three of them, id and number of observations:
`plain` is a session like any other, `orphans` one whose observations are reached by every recovery step, a few by each;
`transcript` is the session of the file named, its prompts stored as claude-mem stores them.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PLAIN = "11111111-1111-4111-8111-111111111111"
ORPHANS = "22222222-2222-4222-8222-222222222222"
PER_SESSION = 50
_START_MS = 1_750_000_000_000
_SCHEMA = Path(__file__).parent.parent / "src" / "bottlepipe" / "demo" / "claude-mem.sql"
# One step of the recovery is for a community edition, whose observations name the session themselves.
_COMMUNITY = "ALTER TABLE observations ADD COLUMN content_session_id TEXT"
_INDEXES = """
CREATE INDEX idx_sdk_sessions_claude_id ON sdk_sessions (content_session_id);
CREATE INDEX idx_sdk_sessions_sdk_id ON sdk_sessions (memory_session_id);
CREATE INDEX idx_sdk_sessions_project ON sdk_sessions (project);
CREATE INDEX idx_sdk_sessions_started ON sdk_sessions (started_at_epoch DESC);
CREATE INDEX idx_user_prompts_session ON user_prompts (session_db_id);
CREATE INDEX idx_user_prompts_claude_session ON user_prompts (content_session_id);
CREATE INDEX idx_user_prompts_created ON user_prompts (created_at_epoch DESC);
CREATE INDEX idx_user_prompts_lookup ON user_prompts (session_db_id, prompt_number);
CREATE INDEX idx_user_prompts_content_lookup ON user_prompts (content_session_id, prompt_number);
CREATE INDEX idx_observations_sdk_session ON observations (memory_session_id);
CREATE INDEX idx_observations_project ON observations (project);
CREATE INDEX idx_observations_type ON observations (type);
CREATE INDEX idx_observations_created ON observations (created_at_epoch DESC);
CREATE INDEX idx_observations_content_session ON observations (content_session_id);
CREATE INDEX idx_session_summaries_sdk_session ON session_summaries (memory_session_id);
CREATE INDEX idx_session_summaries_project ON session_summaries (project);
CREATE INDEX idx_session_summaries_created ON session_summaries (created_at_epoch DESC);
CREATE INDEX idx_tool_uses_memory_session ON tool_uses (memory_session_id);
CREATE INDEX idx_tool_uses_content_session ON tool_uses (content_session_id);
CREATE INDEX idx_tool_uses_observation_id ON tool_uses (observation_id);
"""
_TYPES = ("bugfix", "feature", "refactor", "change", "discovery", "decision")
_WORDS = "tide offset harbour table station zone summer clock test patch hour moon cache parser".split()
# Where an observation of ORPHANS says whose it is, and how many say it so.
_STEPS = {
    "session row": 10,
    "id of the session": 10,
    "gemini": 10,
    "openrouter": 5,
    "own column": 5,
    "tool use, by observation": 5,
    "tool use, by observer": 5,
}


class _Filler:
    """Rows with ids that count up, and times that go with them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.chance = random.Random(1)
        self.observations = 0
        self.project = "tidepool"
        words = [self.chance.choice(_WORDS) for _ in range(4_000)]
        self.prose = ". ".join(" ".join(words[at : at + 14]).capitalize() for at in range(0, len(words), 14))

    def words(self, length: int) -> str:
        at = self.chance.randrange(len(self.prose) - length)
        return self.prose[at : at + length]

    def insert(self, table: str, rows: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> None:
        rows = list(rows)
        if rows:
            names = list(rows[0])
            sql = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
            self.connection.executemany(sql, [tuple(row.values()) for row in rows])

    def session(self, content_id: str, memory_id: str | None, started_ms: int) -> None:
        row = {"content_session_id": content_id, "memory_session_id": memory_id, "project": self.project}
        self.insert("sdk_sessions", [{**row, "started_at": _iso(started_ms), "started_at_epoch": started_ms}])

    def prompts(self, content_id: str, texts: list[tuple[str, int]]) -> None:
        self.insert(
            "user_prompts",
            [
                {"content_session_id": content_id, "prompt_number": n, "prompt_text": text, **_created(at_ms)}
                for n, (text, at_ms) in enumerate(texts, start=1)
            ],
        )

    def observe(self, memory_id: str, at_ms: int, number: int, content_id: str | None = None) -> dict[str, Any]:
        self.observations += 1
        return {
            "id": self.observations,
            "memory_session_id": memory_id,
            "content_session_id": content_id,
            "project": self.project,
            "type": _TYPES[self.observations % len(_TYPES)],
            "title": f"{self.words(40)} {self.observations}",
            "subtitle": self.words(60),
            "narrative": self.words(500),
            "facts": json.dumps([self.words(60), self.words(60)]),
            "files_modified": '["src/tides.py"]',
            "prompt_number": number,
            **_created(at_ms),
        }

    def summary(self, memory_id: str, at_ms: int) -> None:
        row = {"memory_session_id": memory_id, "project": self.project, "request": self.words(80), "prompt_number": 1}
        self.insert(
            "session_summaries", [{**row, "learned": self.words(300), "next_steps": self.words(90), **_created(at_ms)}]
        )

    def tool_use(self, content_id: str, call: str, observation: int | None, memory_id: str | None, at_ms: int) -> None:
        row = {"tool_use_id": call, "content_session_id": content_id, "observation_id": observation}
        self.insert(
            "tool_uses",
            [{**row, "memory_session_id": memory_id, "project": self.project, "tool_name": "Bash", **_created(at_ms)}],
        )

    def ordinary(self, content_id: str, observations: int, started_ms: int) -> None:
        """A session whose row is there."""
        memory_id = f"observer-{content_id}"
        self.session(content_id, memory_id, started_ms)
        self.prompts(content_id, [(self.words(120), started_ms + n * 60_000) for n in range(5)])
        rows = [self.observe(memory_id, started_ms + n * 6_000, 1 + n // 10) for n in range(observations)]
        self.insert("observations", rows)
        for row in rows[::10]:
            self.tool_use(content_id, f"toolu_{row['id']}", row["id"], memory_id, row["created_at_epoch"])
        self.summary(memory_id, started_ms + 400_000)

    def orphans(self, started_ms: int) -> None:
        """A session of which every recovery step finds a part."""
        self.session(ORPHANS, "observer-of-orphans", started_ms)
        self.prompts(ORPHANS, [(self.words(120), started_ms + n * 60_000) for n in range(5)])
        owners = {
            "session row": "observer-of-orphans",
            "id of the session": ORPHANS,
            "gemini": f"gemini-{ORPHANS}-1750000000000",
            "openrouter": f"openrouter-{ORPHANS}-1750000000001",
            "own column": "observer-forgotten",
            "tool use, by observation": "observer-lost",
            "tool use, by observer": "observer-of-tools",
        }
        for step, count in _STEPS.items():
            content_id = ORPHANS if step == "own column" else None
            rows = [self.observe(owners[step], started_ms + n * 6_000, 1 + n // 2, content_id) for n in range(count)]
            self.insert("observations", rows)
            self.summary(owners[step], started_ms + 400_000)
            if step == "tool use, by observation":
                for row in rows:
                    self.tool_use(ORPHANS, f"toolu_{row['id']}", row["id"], None, row["created_at_epoch"])
        self.tool_use(ORPHANS, "toolu_of_orphans", None, owners["tool use, by observer"], started_ms)

    def of_transcript(self, path: Path) -> tuple[str, int]:
        """The session of a transcript: every prompt typed, and an observation for every second tool call."""
        prompts, calls = _read_transcript(path)
        content_id = path.name.split(".jsonl")[0]
        memory_id = f"observer-{content_id}"
        self.session(content_id, memory_id, prompts[0][1])
        self.prompts(content_id, prompts)
        rows, number = [], 0
        for call, at_ms in calls[::2]:
            while number < len(prompts) and prompts[number][1] <= at_ms:
                number += 1
            row = self.observe(memory_id, at_ms + 200, number)
            rows.append(row)
            if len(rows) % 4:
                self.tool_use(content_id, call, row["id"], memory_id, at_ms)
        self.insert("observations", rows)
        return content_id, len(rows)


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _created(at_ms: int) -> dict[str, Any]:
    return {"created_at": _iso(at_ms), "created_at_epoch": at_ms}


def _read_transcript(path: Path) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """(text as claude-mem stores it, Unix milliseconds) of the prompts, (tool use id, milliseconds) of the calls."""
    prompts, calls = [], []
    with open(path, "rb") as file:
        for line in file:
            entry = json.loads(line)
            if entry["type"] not in ("user", "assistant"):
                continue
            at_ms = round(datetime.fromisoformat(entry["timestamp"]).timestamp() * 1000)
            content = entry["message"]["content"]
            if entry.get("promptSource"):
                text = content if isinstance(content, str) else content[0]["text"]
                text = re.sub(r"<private>.*?</private>", "", text, flags=re.DOTALL).strip()
                prompts.append((text if len(text) <= 4000 else text[:3999] + "…", at_ms + 50))
            elif entry["type"] == "assistant" and content[0]["type"] == "tool_use":
                calls.append((content[0]["id"], at_ms))
    return prompts, calls


def make_database(path: Path, observations: int, transcript: Path | None = None) -> dict[str, dict[str, Any]]:
    """Write a database of about so many observations; return the truth about the sessions that can be read from it."""
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -200000;")
    tables = re.findall(r"^CREATE TABLE .*?^\);", _SCHEMA.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    connection.executescript("\n".join(tables))
    connection.execute(_COMMUNITY)
    filler = _Filler(connection)
    sessions = max(observations // PER_SESSION, 3)
    for number in range(sessions):
        # The ones that are asked for stand in the middle.
        started_ms = _START_MS + number * 600_000
        filler.project = f"tidepool-{number % 40}"
        if number == sessions // 2:
            filler.orphans(started_ms)
        else:
            content_id = PLAIN if number == sessions // 2 - 1 else f"{number:08x}-0000-4000-8000-00000000feed"
            filler.ordinary(content_id, PER_SESSION, started_ms)
    truths: dict[str, dict[str, Any]] = {
        "plain": {"id": PLAIN, "observations": PER_SESSION},
        "orphans": {"id": ORPHANS, "observations": sum(_STEPS.values())},
    }
    if transcript is not None:
        content_id, count = filler.of_transcript(transcript)
        truths["transcript"] = {"id": content_id, "observations": count}
    connection.executescript(_INDEXES)
    connection.commit()
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    return truths


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a claude-mem database.")
    parser.add_argument("observations", type=int)
    parser.add_argument("path", type=Path)
    parser.add_argument("--transcript", type=Path, help="a generated transcript whose session is to be stored too")
    choices = parser.parse_args()
    print(json.dumps(make_database(choices.path, choices.observations, choices.transcript)))


if __name__ == "__main__":
    main()
