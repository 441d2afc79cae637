"""What the fuzz tests mutate: the transcripts, case lines and databases of the tree, and the corpus where there is one."""

from __future__ import annotations

import json
import random
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

_TESTS = Path(__file__).parent
_WINDOW = 200_000
_LONGEST_LINE = 100_000


@dataclass
class Sources:
    """Where the lines and databases come from; the corpus where there is one."""

    bases: Path
    corpus: Path | None = None
    transcripts: list[Path] = field(init=False)
    cases: list[Path] = field(init=False)
    databases: list[Path] = field(init=False)

    def __post_init__(self) -> None:
        package = _TESTS.parent / "src" / "bottlepipe" / "demo"
        found = [*(_TESTS.parent / "fixtures").rglob("*.jsonl"), *package.glob("*.jsonl")]
        found += (_TESTS / "golden").rglob("*.jsonl")
        self.databases = sorted(self.bases.glob("*.db")) + [package / "claude-mem.db"]
        if self.corpus is not None:
            found += [
                path for path in self.corpus.rglob("*.jsonl") if path.name not in ("hooks.jsonl", "journal.jsonl")
            ]
            self.databases += sorted(self.corpus.glob("claude-mem/*/claude-mem.db"))
        self.transcripts = sorted(path for path in found if path.stat().st_size)
        self.cases = sorted((_TESTS / "cases").glob("*/*.toml"))

    def lines(self, rng: random.Random) -> list[bytes]:
        """Some lines that stand together, with their line ends."""
        if rng.random() < 0.3:
            case = tomllib.loads(rng.choice(self.cases).read_text("utf-8"))
            if lines := [line.encode() + b"\n" for line in case.get("lines", "").splitlines() if line.strip()]:
                return _filled(lines, rng)
        path = rng.choice(self.transcripts)
        with open(path, "rb") as file:
            start = 0 if rng.random() < 0.4 else rng.randrange(path.stat().st_size)
            file.seek(start)
            lines = file.read(_WINDOW).split(b"\n")
        lines = [line + b"\n" for line in (lines[1:] if start else lines) if line and len(line) < _LONGEST_LINE]
        return lines[: rng.randint(1, 30)] or [b"\n"]


def _filled(lines: list[bytes], rng: random.Random) -> list[bytes]:
    """Case lines leave out the obvious fields: give them some."""
    filled, last = [], None
    for number, line in enumerate(lines):
        entry = json.loads(line)
        uuid = f"u{number}"
        about = {"sessionId": "s", "parentUuid": last, "uuid": uuid, "timestamp": f"2026-03-02T10:{number % 60:02}:00Z"}
        filled.append(json.dumps({**about, **entry} if rng.random() < 0.9 else entry).encode() + b"\n")
        last = uuid
    return filled
