"""The processes behind test_fuzz: `read` renders mutated sources and judges what comes out, `make` mutates databases.

Two kinds, since one process must not open a database file by two SQLite libraries. Both live long, so that imports are
paid once. A line `seed` in gives a line of JSON out.

What a case costs is mostly the fifty small queries that a render asks Polars, whatever its size. So most seeds stop
before them: they are read, classified and stripped of private spans, five of sixteen are rendered, one is a database.
"""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import io
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

import mutated_databases
import mutated_transcripts
from fuzz_sources import Sources

CPU_LIMIT_S = 60.0
ADDRESS_LIMIT = 8 << 30
RSS_LIMIT = 900 << 20
# Private text that the corpus brought with it; test_corpus says why some is not in the list.
CORPUS_CANARIES = [f"PRIVATE-CANARY-{n}" for n in range(6)] + [f"CANARY-{letter}" for letter in "ABCEFGHJKNX"]
# Of so many seeds that follow one another the first is a database, and as many as are named here are rendered.
ROUND = 16
RENDERED = 5
# Databases are made this much older: a reader that must copy one waits until its last write is some moments ago.
AGE_NS = 1_000_000_000
SESSIONS_OF_A_DATABASE = 3


def make(scratch: Path, sources: Sources) -> None:
    """Mutate the database of each seed that comes in; `bare` lines ask whether damage destroyed a span's tags."""
    for line in sys.stdin:
        order = json.loads(line)
        if "word" in order:
            answer: dict[str, Any] = {"bare": mutated_databases.is_bare(Path(order["path"]), order["word"])}
        else:
            made = mutated_databases.mutate_database(order["seed"], sources, scratch)
            for file in scratch.glob("claude-mem.db*"):
                about = file.stat()
                os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns - AGE_NS))
            answer = {**asdict(made), "path": str(made.path)}
        print(json.dumps(answer), flush=True)


class Maker:
    """The process that mutates databases for this one. SQLite may end it on what it made itself: then comes another."""

    def __init__(self, arguments: list[str]) -> None:
        self.arguments = arguments
        self.process: subprocess.Popen[str] | None = None

    def ask(self, **order: Any) -> dict[str, Any]:
        if self.process is None or self.process.poll() is not None:
            command = [sys.executable, __file__, "make", *self.arguments]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.process.wait()
            raise RuntimeError(f"the mutating process ended with {self.process.returncode}")
        return json.loads(answer)  # type: ignore[no-any-return]


def read(scratch: Path, sources: Sources, arguments: list[str]) -> None:
    """Judge each seed that comes in."""
    if sys.platform == "linux":
        # macOS refuses it; there RSS_LIMIT alone judges.
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_LIMIT, ADDRESS_LIMIT))
    # Past the limit of processor time the traceback is shown and the process ends by the signal.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)
    judge = Judge(scratch, sources, Maker(arguments))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        seed = int(line)
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT_S)
        try:
            answer = judge.judge(seed)
        except BaseException:
            # The end of it says where.
            answer = {"findings": [traceback.format_exc()[-1500:]], "about": judge.about}
        signal.setitimer(signal.ITIMER_PROF, 0)
        peak = peak_memory()
        if peak > RSS_LIMIT + 12 * judge.largest:
            answer["findings"].append(f"{peak >> 20} MB of memory")
        print(json.dumps({**answer, "cpu": time.process_time() - started, "peak": peak}), flush=True)


def kind_of(seed: int) -> str:
    """What is made of a seed."""
    place = seed % ROUND
    return "database" if not place else "rendered transcript" if place <= RENDERED else "read transcript"


def peak_memory() -> int:
    """Bytes. On Linux not from getrusage: there a child begins with the memory of the process that started it."""
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class Judge:
    """Renders mutated sources and says what is wrong with the outcome."""

    def __init__(self, scratch: Path, sources: Sources, maker: Maker) -> None:
        from datetime import UTC, datetime

        from bottlepipe.settings import Settings

        self.scratch, self.sources, self.maker = scratch, sources, maker
        self.now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        nowhere = scratch / "nowhere"
        self.settings = Settings(home=nowhere, config_dir=nowhere, data_dir=nowhere, zone=UTC)
        self.about = ""
        # Bytes of the largest source so far beyond what every case may have: all that is read of it is in memory.
        self.largest = 0

    def clean(self) -> None:
        for path in self.scratch.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def judge(self, seed: int) -> dict[str, Any]:
        """The findings about a seed."""
        self.about = ""
        self.clean()
        if kind_of(seed) == "database":
            return self.database(seed)
        case = mutated_transcripts.mutate_transcript(seed, self.sources)
        self.about = case.about
        (self.scratch / case.name).write_bytes(case.data)
        findings = self.render(seed, case) if kind_of(seed) == "rendered transcript" else self.read(case)
        return {"findings": findings, "about": self.about}

    def read(self, case: mutated_transcripts.Transcript) -> list[str]:
        import fuzz_guided

        from bottlepipe.tags import strip_tags

        messages = fuzz_guided.read(case.data)
        shown = [
            strip_tags(text, keep_code=speaker == "assistant").text
            for speaker, text in messages.select("speaker", "text").rows()
        ]
        return [f"{word} leaks" for word in case.planted for text in shown if word in text]

    def render(self, seed: int, case: mutated_transcripts.Transcript) -> list[str]:
        from bottlepipe.locate import ref_of_file

        path = self.scratch / case.name
        turn = seed // ROUND
        database = None
        if seed % ROUND == 1 and turn % 2:
            database = self.scratch / "claude-mem.db"
            shutil.copyfile(self.sources.databases[seed % len(self.sources.databases)], database)
        findings = self.renders(
            [ref_of_file(path)], [path], database, case.planted, seed % 3 == 0, all_branches=case.all_branches
        )
        if seed % ROUND == 2 and turn % 4 == 0:
            self.command(["render", str(path), "-o", "-"], case.planted, findings)
        return findings

    def database(self, seed: int) -> dict[str, Any]:
        from bottlepipe.locate import SessionRef, ref_of_file
        from bottlepipe.memory import read_observation, read_stored_sessions
        from bottlepipe.redact import redact_record

        case = self.maker.ask(seed=seed)
        self.about = case["about"]
        path = Path(case["path"])
        words = list(case["planted"])
        if case["is_whole"]:
            words += CORPUS_CANARIES
        # A read costs as much as three renders: take turns with what needs another one.
        number = seed // ROUND
        turn = number % 4
        files = [
            one for one in (path, *(path.with_name(path.name + end) for end in ("-wal", "-journal"))) if one.exists()
        ]
        ids = case["ids"]
        first = number % max(len(ids), 1)
        refs = [SessionRef(one, one, None) for one in (ids[first:] + ids[:first])[:SESSIONS_OF_A_DATABASE]]
        if number % 2 == 0 and self.sources.corpus is not None:
            story = self.sources.corpus / "claude-mem/transcripts/a3f1c2d4-0001-4a6b-9c11-5d2e7f8a9b01.jsonl"
            if story.exists():
                refs[:1] = [ref_of_file(story)]
        findings = self.renders(refs, files, path, words, turn == 1, guess_orphans=number % 3 == 0)
        seen = self.states(files)
        shown: list[Any] = []
        if turn == 2:
            read_stored_sessions(path)
        for row in case["rows"][:1] if turn == 3 else []:
            record, _ = read_observation(path, row)
            shown.append(redact_record(record) if record is not None else {})
        text = repr(shown)
        findings += [f"{word} is shown" for word in words if word in text and self.is_leak(path, word)]
        if number % 32 == 0:
            self.command(["list", "--json", "--db", str(path)], words, findings)
            self.command(["show", str(case["rows"][0] if case["rows"] else 1), "--db", str(path)], words, findings)
        findings += self.changes(files, seen)
        return {"findings": findings, "about": self.about}

    def is_leak(self, path: Path, word: str) -> bool:
        """Not if SQLite's own shell reads the word without its tags."""
        return word in CORPUS_CANARIES or not self.maker.ask(path=str(path), word=word)["bare"]

    def renders(
        self,
        refs: list[Any],
        files: list[Path],
        database: Path | None,
        words: list[str],
        is_twice: bool = True,
        **choices: bool,
    ) -> list[str]:
        from bottle_parser import parse_bottle

        from bottlepipe.bottle import Bottle
        from bottlepipe.errors import BottlepipeError
        from bottlepipe.pipeline import Options, render_sessions
        from bottlepipe.pointer import render_pointer

        files = [*files, *([database] if database and database not in files else [])]
        before = self.states(files)
        self.largest = max(self.largest, sum(file.stat().st_size for file in files) - (20 << 20))
        options = Options(database=database, **choices)
        outcomes = list(render_sessions(refs, self.settings, options, self.now))
        again = list(render_sessions(refs, self.settings, options, self.now)) if is_twice else outcomes
        findings = []
        findings += self.changes(files, before)
        for outcome, second in zip(outcomes, again, strict=True):
            if isinstance(outcome, BottlepipeError):
                said = f"{outcome} {outcome.hint}"
                if str(outcome) != str(second):
                    findings.append(f"twice is not the same: {outcome} / {second}")
            elif isinstance(outcome, Bottle):
                said = f"{outcome.text}{outcome!r}{render_pointer(outcome, '/a/path')}"
                findings += self.faults_of(outcome, second, parse_bottle)
            else:
                findings.append(f"neither bottle nor error: {outcome!r}")
                continue
            findings += [
                f"{word} leaks" for word in words if word in said and (not database or self.is_leak(database, word))
            ]
        return findings

    def faults_of(self, bottle: Any, second: Any, parse: Any) -> list[str]:
        faults = []
        try:
            bottle.text.encode()
            parsed = parse(bottle.text)
        except (AssertionError, UnicodeEncodeError) as error:
            return [f"{type(error).__name__}: the bottle does not parse back: {error}"]
        spoken = [speaker for speaker, _ in parsed.messages]
        if (bottle.user_turns, bottle.assistant_messages) != (spoken.count("user"), spoken.count("assistant")):
            faults.append("counts differ from what is in it")
        if bottle != second:
            faults.append("twice is not the same")
        if "\0" in bottle.text or len(bottle.current_task) > 300:
            faults.append("NUL, or a task that is too long")
        return faults

    def command(self, arguments: list[str], words: list[str], findings: list[str]) -> None:
        from bottlepipe.cli import run

        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape"), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(arguments)
        out.flush()
        said = out.buffer.getvalue().decode("utf-8", "replace") + err.getvalue()  # type: ignore[attr-defined]
        if code not in (0, 1, 2, 3) or "unexpected" in err.getvalue() or "Traceback" in err.getvalue():
            findings.append(f"{arguments}: exit {code}: {err.getvalue()[-500:]}")
        database = Path(arguments[-1]) if "--db" in arguments else None
        findings += [
            f"{word} leaks from {arguments[0]}"
            for word in words
            if word in said and (not database or self.is_leak(database, word))
        ]

    def changes(self, files: list[Path], before: list[tuple[object, ...] | None]) -> list[str]:
        after = self.states(files)
        names = ("bytes", "mtime", "mode", "inode")
        changed = []
        for file, was, now in zip(files, before, after, strict=True):
            if was is None or now is None:
                changed += [] if was == now else [f"{file.name} {'came' if now else 'went'}"]
            else:
                changed += [
                    f"{file.name}: {n} changed" for n, one, other in zip(names, was, now, strict=False) if one != other
                ]
        return changed

    def states(self, paths: list[Path]) -> list[tuple[object, ...] | None]:
        states: list[tuple[object, ...] | None] = []
        for path in paths:
            if not path.exists():
                states.append(None)
                continue
            about = path.stat()
            if not about.st_size:
                # SQLite gives an empty write-ahead log the mode of its database.
                states.append(("empty", about.st_ino))
                continue
            digest = hashlib.blake2b(path.read_bytes()).digest()
            states.append((digest, about.st_mtime_ns, stat.S_IMODE(about.st_mode), about.st_ino))
        return states


def main() -> None:
    role, scratch, bases, corpus = sys.argv[1:]
    sources = Sources(Path(bases), Path(corpus) if corpus else None)
    if role == "make":
        make(Path(scratch), sources)
    else:
        os.environ.pop("CLAUDE_MEM_DATA_DIR", None)
        read(Path(scratch), sources, sys.argv[2:])


if __name__ == "__main__":
    main()
