"""Mutated transcripts and databases: no exception but our own, no private word, no changed source, no torn bottle, no hang.

What a mutation does is in mutated_*.py, what must hold is in fuzz_worker.py. An ordinary run plays the same seeds every
time, so that a red run says something about the change. Longer, on seeds of its own:

    pytest tests/test_fuzz.py --fuzz-seconds 3600 -s

and one case again, with its sources kept:

    pytest tests/test_fuzz.py --fuzz-seed 12345 --basetemp /tmp/fuzz
"""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import fuzz_guided
import fuzz_worker
import pytest
from conftest import CORPUS
from fuzz_sources import Sources
from mutated_transcripts import Transcript, mutate_transcript

TESTS = Path(__file__).parent
WORKERS = 2
CASES = 1440
# For a machine so slow that it plays fewer.
SECONDS = 60.0
# Far beyond the limit of processor time that a worker sets itself: this one is for a worker that waits for something.
SILENCE_S = 300.0
CASES_PER_WORKER = 2000
MakeDatabase = Callable[..., Path]


@dataclass
class Tally:
    """What all workers did."""

    cases: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: list[tuple[float, int, str]] = field(default_factory=list)
    peak: int = 0


class Worker:
    """A process that judges seeds. Its death and its silence are findings too."""

    def __init__(self, folder: Path, bases: Path) -> None:
        self.folder, self.bases = folder, bases
        self.scratch = folder / "case"
        self.log = folder / "stderr"
        self.process: subprocess.Popen[str] | None = None
        self.cases = 0

    def start(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.scratch.mkdir(parents=True)
        corpus = str(CORPUS) if CORPUS.is_dir() else ""
        command = [sys.executable, str(TESTS / "fuzz_worker.py"), "read", str(self.scratch), str(self.bases), corpus]
        # More threads would only take turns: every case is small.
        environ = {**os.environ, "POLARS_MAX_THREADS": "1", "HOME": str(self.folder)}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environ
            )
        self.cases = 0
        assert self._line() == {"ready": True}, self.log.read_text("utf-8", "replace")

    def judge(self, seed: int) -> dict[str, object]:
        """The outcome of a seed: findings, what was mutated, seconds of processor time, peak memory in bytes."""
        if self.process is None or self.cases >= CASES_PER_WORKER:
            self.stop()
            self.start()
        assert self.process is not None
        assert self.process.stdin is not None
        self.cases += 1
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()
        answer = self._line()
        if answer is None:
            self.stop()
            said = self.log.read_text("utf-8", "replace")[-3000:]
            answer = {"findings": [f"the process ended or hung: {said}"], "about": "", "cpu": 0.0, "peak": 0}
            answer["kept"] = self._keep(seed)
            self.process = None
        elif answer["findings"]:
            answer["kept"] = self._keep(seed)
            # What one case leaves behind, memory above all, is not held against the next.
            self.cases = CASES_PER_WORKER
        return answer

    def _line(self) -> dict[str, object] | None:
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], SILENCE_S)
        line = self.process.stdout.readline() if ready else ""
        return json.loads(line) if line else None

    def _keep(self, seed: int) -> str:
        kept = self.folder.parent / f"seed-{seed}"
        shutil.copytree(self.scratch, kept, dirs_exist_ok=True)
        return str(kept)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The databases that are mutated, where no corpus has more of them."""
    folder = tmp_path_factory.mktemp("bases")
    build = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.executescript(sys.stdin.read()); c.close()"
    for case in sorted((TESTS / "cases" / "memory").glob("*.sql")):
        command = [sys.executable, "-c", build, str(folder / f"{case.stem}.db")]
        subprocess.run(command, input=case.read_text(), text=True, check=True)
    return folder


def test_mutated_sources_break_nothing(
    bases: Path, tmp_path: Path, pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever stands in the sources: see the head of this file for what holds, and for how to run it longer."""
    only, seconds = pytestconfig.getoption("--fuzz-seed"), pytestconfig.getoption("--fuzz-seconds")
    if only is not None:
        seeds: Iterator[int] = iter([only])
    elif seconds:
        first = random.SystemRandom().randrange(1 << 40)
        seeds = count(first)
        with capsys.disabled():
            print(f"\nfuzz: seeds from {first}")
    else:
        seeds = iter(range(1, CASES + 1))
    tally = Tally()
    deadline = time.monotonic() + (seconds or SECONDS)
    lock = threading.Lock()

    def work(number: int) -> None:
        worker = Worker(tmp_path / f"worker-{number}", bases)
        try:
            while time.monotonic() < deadline and len(tally.faults) < 50:
                with lock:
                    seed = next(seeds, None)
                if seed is None:
                    return
                answer = worker.judge(seed)
                with lock:
                    _add(tally, seed, answer)
                    if seconds and answer["findings"]:
                        # A long run tells at once.
                        with capsys.disabled():
                            print(tally.faults[-1], flush=True)
                    if seconds and tally.cases % 1000 == 0:
                        with capsys.disabled():
                            print(f"fuzz: {tally.cases} cases, {len(tally.faults)} faults", flush=True)
        finally:
            worker.stop()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1 if only is not None else WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if seconds:
        with capsys.disabled():
            print(
                f"fuzz: {tally.cases} cases, {dict(tally.kinds)}, peak {tally.peak >> 20} MB, slowest {tally.slowest}"
            )
    assert tally.cases > 0
    assert tally.faults == [], "\n\n".join(tally.faults)


def _add(tally: Tally, seed: int, answer: dict[str, object]) -> None:
    tally.cases += 1
    tally.kinds[fuzz_worker.kind_of(seed)] += 1
    tally.peak = max(tally.peak, int(str(answer["peak"])))
    slowest = [*tally.slowest, (round(float(str(answer["cpu"])), 2), seed, str(answer["about"])[:80])]
    tally.slowest = sorted(slowest, reverse=True)[:5]
    if answer["findings"]:
        again = f"pytest tests/test_fuzz.py --fuzz-seed {seed}"
        tally.faults.append(f"{again}\nsources: {answer['kept']}\n{answer['about']}\n{answer['findings']}")


def test_a_seed_is_one_case(bases: Path, tmp_path: Path) -> None:
    """Without that no seed would bring a failure back."""
    sources = Sources(bases)
    for seed in range(1, 40):
        assert mutate_transcript(seed, sources) == mutate_transcript(seed, sources)
    assert 1 < len({mutate_transcript(seed, sources).data for seed in range(1, 40)})
    script = (
        "import sys; from pathlib import Path; from fuzz_sources import Sources; import mutated_databases;"
        "mutated_databases.mutate_database(int(sys.argv[1]), Sources(Path(sys.argv[2])), Path(sys.argv[3]))"
    )
    written = []
    for turn in range(2):
        folder = tmp_path / str(turn)
        folder.mkdir()
        subprocess.run([sys.executable, "-c", script, "8", str(bases), str(folder)], cwd=TESTS, check=True)
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert written[0] == written[1]


def test_the_judge_sees_what_is_wrong(bases: Path, tmp_path: Path) -> None:
    """A blind one would make every run green: here a word is looked for that was never private, and a source changes."""
    judge = fuzz_worker.Judge(tmp_path, Sources(bases), fuzz_worker.Maker([]))
    line = b'{"type":"user","uuid":"u","message":{"role":"user","content":"a plain word"}}\n'
    case = Transcript(line, "a.jsonl", ["plain word", "other word"])
    path = tmp_path / case.name
    path.write_bytes(case.data)
    before = judge.states([path])

    assert ["plain word leaks"] == judge.read(case)
    assert ["plain word leaks"] == judge.render(fuzz_worker.ROUND + 3, case)
    path.write_bytes(line + b"\n")
    assert {"a.jsonl: bytes changed", "a.jsonl: mtime changed"} == set(judge.changes([path], before))


def test_planted_words_reach_the_files(bases: Path) -> None:
    """A canary that never gets in would make every run green."""
    sources = Sources(bases)
    cases = [mutate_transcript(seed, sources) for seed in range(1, 200)]
    planted = [word for case in cases for word in case.planted]
    found = [word for case in cases for word in case.planted if word.encode() in case.data]

    assert 100 < len(planted)
    assert 0.4 < len(found) / len(planted)


def test_the_command_line_survives_mutated_files(
    bases: Path, tmp_path: Path, run_cli: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """As a real process: a documented exit code, and words instead of a traceback."""
    sources = Sources(bases)
    for seed in (3, 5, 7):
        case = mutate_transcript(seed, sources)
        path = tmp_path / case.name
        path.write_bytes(case.data)
        result = run_cli("render", path, "-o", "-", "--no-db")

        assert result.returncode in (0, 1, 2, 3)
        assert "Traceback" not in result.stderr
        assert "unexpected" not in result.stderr
        assert [word for word in case.planted if word in result.stdout] == []


@pytest.mark.parametrize("name", sorted(fuzz_guided.TARGETS))
def test_the_guided_targets_hold_on_random_bytes(name: str) -> None:
    """What the coverage-guided run calls holds on its seeds, whole and changed; longer by `fuzz_guided.py`."""
    rng = random.Random(name)
    for seed in fuzz_guided.seeds(name):
        fuzz_guided.TARGETS[name](seed)
        for _ in range(10):
            data = bytearray(seed)
            for _ in range(rng.randint(1, 6)):
                at = rng.randint(0, len(data))
                data[at : at + rng.choice((0, 1, 9))] = rng.randbytes(rng.choice((0, 1, 3)))
            fuzz_guided.TARGETS[name](bytes(data))
