"""Measuring from outside: files in a folder, workers and whole processes in children of this one.

This process imports nothing heavy. On Linux a child's peak memory counts what its parent had when it was started.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SESSION = "be7c4a11-0000-4000-8000-000000000001"
MB = 1_000_000


class WrongAnswer(Exception):
    """What was measured did not do its work, so its time means nothing."""


class Missing(Exception):
    """An engine is not installed here."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The least CPU and wall seconds of several rounds, and what was found; the least CPU of the floor before it."""

    cpu: float
    wall: float
    answer: dict[str, int]
    floor: float = math.nan

    @property
    def ratio(self) -> float:
        return self.cpu / self.floor


@dataclass(frozen=True, slots=True)
class Process:
    """One run of a whole process: CPU and wall seconds, peak memory in bytes, exit code and output."""

    cpu: float
    wall: float
    peak: int
    code: int
    out: str
    err: str


class Files:
    """Transcripts and databases in one folder, each made when it is first asked for, by a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def transcript(self, size: int) -> tuple[Path, dict[str, int]]:
        """A transcript of at least `size` bytes, and the truth about it."""
        path = self.folder / f"{size}" / f"{SESSION}.jsonl"
        return path, self._made(path, "transcript.py", str(size), str(path))

    def long_prompt(self, size: int, emoji: bool) -> tuple[Path, dict[str, int]]:
        """A transcript of one prompt on one line."""
        path = self.folder / f"line-{size}{'-emoji' if emoji else ''}" / f"{SESSION}.jsonl"
        options = ["--long-prompt", *(["--emoji"] if emoji else [])]
        return path, self._made(path, "transcript.py", str(size), str(path), *options)

    def database(self, observations: int, transcript: Path | None = None) -> tuple[Path, dict[str, dict[str, Any]]]:
        """A database of so many observations, and the truth about its sessions; with that of a transcript if one is given."""
        of = f"-{transcript.parent.name}" if transcript else ""
        path = self.folder / f"observations-{observations}{of}" / "claude-mem.db"
        options = ["--transcript", str(transcript)] if transcript else []
        return path, self._made(path, "database.py", str(observations), str(path), *options)

    def _made(self, path: Path, script: str, *arguments: str) -> Any:
        truth = path.with_name("truth.json")
        if not truth.exists():
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)
            done = subprocess.run(
                [sys.executable, str(HERE / script), *arguments], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise RuntimeError(done.stderr)
            truth.write_text(done.stdout, encoding="utf-8")
        return json.loads(truth.read_text(encoding="utf-8"))


def run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> Process:
    """Run a whole process and wait for it. Its peak memory is that of the largest process in it."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.perf_counter()
        child = subprocess.Popen(
            [str(part) for part in command], stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=environment
        )
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        texts = [file.read().decode("utf-8", "replace") for file in (out, err)]
        return Process(usage.ru_utime + usage.ru_stime, wall, peak, child.returncode, texts[0], texts[1])


def work(
    script: str, *arguments: str | Path, environment: Mapping[str, str] | None = None
) -> tuple[dict[str, Timing], int]:
    """Run a worker; return the timing of each thing it measured, and its peak memory in bytes."""
    done = run([sys.executable, HERE / script, *arguments], environment)
    if "ModuleNotFoundError" in done.err:
        raise Missing(done.err.rstrip().rpartition("\n")[2])
    if done.code:
        raise RuntimeError(f"{script} {' '.join(map(str, arguments))}: exit code {done.code}\n{done.err}")
    found = json.loads(done.out)
    timings = {
        name: Timing(min(about["cpu"]), min(about["wall"]), about["answer"], min(about["floor"], default=math.nan))
        for name, about in found["works"].items()
    }
    return timings, found["peak"]


def check(name: str, answer: Mapping[str, int], truth: Mapping[str, int]) -> None:
    """Raise WrongAnswer unless everything in the answer that the truth knows is so."""
    shared = answer.keys() & truth.keys()
    wrong = {key: (answer[key], truth[key]) for key in shared if answer[key] != truth[key]}
    if wrong or not shared:
        raise WrongAnswer(f"{name}: found {dict(answer)}, which should be {dict(truth)}")
