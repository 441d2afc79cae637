"""The commands, each as a whole process with everything that it imports, and what a right answer of each has."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from measure import HERE, Process, WrongAnswer, run

_BUNDLED = HERE.parent / "src" / "bottlepipe" / "demo"
_OBSERVATION = "SELECT id, title FROM observations WHERE title <> '' ORDER BY id LIMIT 1"
FLOOR = "python -c pass"


@dataclass(frozen=True, slots=True)
class Command:
    """What is typed after `bottlepipe`, and patterns that its output, or the bottle it writes, has in this order."""

    arguments: Sequence[str]
    patterns: Sequence[str]
    writes: Path | None = None

    def check(self, done: Process) -> None:
        """Raise WrongAnswer unless the command did its work."""
        wanted = ".*".join(self.patterns)
        found = done.out
        if not done.code and self.writes is not None:
            found = self.writes.read_text(encoding="utf-8")
        if done.code or not re.search(wanted, found, re.DOTALL):
            raise WrongAnswer(
                f"bottlepipe {' '.join(self.arguments)}: exit code {done.code}, no {wanted!r} in {found!r}\n{done.err}"
            )


class Home:
    """A home with the bundled session and its database in it, and the commands that can be given there."""

    def __init__(self, folder: Path) -> None:
        (bundled,) = _BUNDLED.glob("*.jsonl")
        shutil.rmtree(folder, ignore_errors=True)
        project = folder / ".claude" / "projects" / "-home-ada-src-tidepool"
        stored, temporary = folder / ".claude-mem", folder / "tmp"
        for each in (project, stored, temporary):
            each.mkdir(parents=True)
        transcript = project / bundled.name
        shutil.copyfile(bundled, transcript)
        shutil.copyfile(_BUNDLED / "claude-mem.db", stored / "claude-mem.db")
        self.environment: Mapping[str, str] = {
            **os.environ,
            "HOME": str(folder),
            "CLAUDE_CONFIG_DIR": str(folder / ".claude"),
            "CLAUDE_MEM_DATA_DIR": str(stored),
            # The demo leaves its bottle there.
            "TMPDIR": str(temporary),
        }
        self.commands = _commands(transcript, stored / "bottles" / f"{bundled.stem}.md")

    def run(self, name: str) -> Process:
        """One command, its answer checked."""
        command = self.commands[name]
        if command.writes is not None:
            command.writes.unlink(missing_ok=True)
        done = run([sys.executable, "-m", "bottlepipe", *command.arguments], self.environment)
        command.check(done)
        return done

    def floor(self) -> Process:
        """The interpreter alone."""
        return run([sys.executable, "-c", "pass"], self.environment)

    def measure(self, names: Sequence[str], rounds: int) -> dict[str, tuple[list[Process], list[Process]]]:
        """Per command its runs, and those of the bare interpreter directly before each."""
        found: dict[str, tuple[list[Process], list[Process]]] = {name: ([], []) for name in names}
        for _ in range(rounds):
            for name, (runs, floors) in found.items():
                floors.append(self.floor())
                runs.append(self.run(name))
        return found


def _commands(transcript: Path, written: Path) -> dict[str, Command]:
    with closing(sqlite3.connect(f"file:{_BUNDLED / 'claude-mem.db'}?mode=ro", uri=True)) as connection:
        number, title = connection.execute(_OBSERVATION).fetchone()
    with open(transcript, encoding="utf-8") as file:
        entry = next(entry for entry in map(json.loads, file) if "promptSource" in entry)
    prompt = re.escape(entry["message"]["content"].partition("\n")[0])
    session = re.escape(transcript.stem)
    size = rf" {transcript.stat().st_size / 1000:.1f} kB "
    start, *end = [
        rf"\A# Session bottle — {session}\n",
        rf"\n\*\*User\*\* \([^)]*\)\n{prompt}\n",
        r"\n\*\*Assistant\*\* ",
    ]
    with_line = [start, end[0], rf"\n- \[#{number}\] {re.escape(title)} ", end[1]]
    return {
        "--version": Command(["--version"], [rf"\Abottlepipe {re.escape(version('bottlepipe'))}\n\Z"]),
        "--help": Command(["--help"], [r"\AUsage: bottlepipe", *(f"\n +{name} " for name in ("demo", "list", "show"))]),
        "list": Command(["list"], [rf"\A{session} ", size]),
        f"show {number}": Command(["show", f"{number}"], [rf"\Aid: {number}\n", f"\ntitle: {re.escape(title)}\n"]),
        "render ID": Command(["render", transcript.stem], with_line, written),
        "render FILE -o -": Command(["render", str(transcript), "-o", "-"], with_line),
        "render FILE --no-db -o -": Command(["render", str(transcript), "--no-db", "-o", "-"], [start, *end]),
        "demo": Command(["demo"], [*with_line, r"\nCurrent task: \w"]),
    }
