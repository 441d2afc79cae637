"""Writers that are there to be killed, and the texts they write.

Run as a script it imports bottlepipe once and then forks a writer per job, so that a thousand kills take seconds. Jobs
come on stdin, one JSON object a line; on stdout come `pid N`, then `wrote SESSION NUMBER` or `failed …` from the
writer, and `dead N` when it is gone. It ends with stdin.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from bottlepipe import folder as folders
from bottlepipe import write
from bottlepipe.write import Standing, write_bottle, write_file

NAMED = "named"
_PIECES = {1: 1000, 0: 3}


def text_of(session: str, number: int, turns: int = 1) -> tuple[list[bytes], Standing]:
    """The bottle that a writer writes as its `number`th: odd ones have 2 MB in pieces of 2 kB, even ones 3 kB."""
    head = (
        f"# Session bottle — {session}\nproject: {number} · started: unknown · rendered: now\nmode: full\n"
        f"contents: {turns} user turns, 0 assistant messages, 0 observations\nsource: {number} bytes of transcript\n\n"
        "---\n**User** (--:--)\n"
    )
    line = f"{session} {number} ".ljust(1023, "é" if number % 2 else "e") + "\n"
    pieces = [head.encode(), *[line.encode()] * _PIECES[number % 2], b"\n---\n"]
    return pieces, Standing("full", turns, number)


def turns_of(number: int, archives: bool) -> int:
    """Writers that archive write 4, 3, 2, 1, 4, … turns: three of four bottles have less than the one before."""
    return 1 + -number % 4 if archives else 1


def whole_text(session: str, number: int, archives: bool) -> bytes:
    return b"".join(text_of(session, number, turns_of(number, archives))[0])


def standing_of(folder: Path, session: str) -> int:
    """The number of the bottle that stands, 0 for none."""
    path = folder / f"{session}.md"
    return int(path.read_bytes().split(b"project: ")[1].split(b" ")[0]) if path.exists() else 0


def write_one(folder: Path, session: str, number: int, archives: bool) -> None:
    """Write one bottle as a run of bottlepipe does; the session NAMED stands for a file that the user named."""
    pieces, standing = text_of(session, number, turns_of(number, archives))
    if session == NAMED:
        write_file(folder / f"{NAMED}.md", pieces)
    else:
        write_bottle(folder, session, pieces, standing, now_ms=number)


class Writer:
    """The writing side of this module, from the side of the test: one writer after another."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._pid = 0

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pid:
            self._end()
        self._process.communicate(timeout=60)

    def start(self, **job: Any) -> None:
        """Start a writer, and return when it exists."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job, default=str) + "\n")
        early = []
        for line in self._lines():
            if line.startswith("pid "):
                self._pid = int(line.split()[1])
                break
            early.append(line)
        self._early = early

    def kill(self) -> list[str]:
        """Kill -9, and return what the writer said."""
        self._end()
        return self.wait()

    def wait(self) -> list[str]:
        """Wait until the writer is dead, and return what it said."""
        said = self._early
        for line in self._lines():
            if line == f"dead {self._pid}":
                self._pid = 0
                return said
            said.append(line)
        raise AssertionError("the writer's parent is gone")

    def _end(self) -> None:
        # One that failed by itself is gone already, and what it said is worth more.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    def _lines(self) -> Iterator[str]:
        assert self._process.stdout is not None
        return (line.rstrip("\n") for line in self._process.stdout)


def _say(words: str) -> None:
    os.write(1, f"{words}\n".encode())


def _kill_at_line(at: int) -> Callable[[], int]:
    """Kill this process before it runs its `at`th line of what writes; the result tells how many were run."""
    seen = 0
    files = {write.__file__, folders.__file__}

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            seen += 1
            if seen == at:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    return lambda: seen


def _work(job: dict[str, Any]) -> None:
    folder, archives, number = Path(job["folder"]), job.get("archives", False), job["first"]
    seen = _kill_at_line(job["at_line"]) if "at_line" in job else None
    while True:
        for session in job["sessions"]:
            write_one(folder, session, number, archives)
            _say(f"wrote {session} {number}")
        number += 1
        if seen:
            sys.settrace(None)
            _say(f"lines {seen()}")
            return


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            status = 1
            try:
                _work(json.loads(line))
                status = 0
            except BaseException as error:
                _say(f"failed {error!r}")
            finally:
                os._exit(status)
        _say(f"pid {pid}")
        os.waitpid(pid, 0)
        _say(f"dead {pid}")


if __name__ == "__main__":
    main()
