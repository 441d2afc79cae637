"""Words for a person: sizes, times, progress, and text that cannot command the terminal."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TextIO

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SLOW_S = 1.0


def say(text: str) -> None:
    """One line to stderr; nowhere if nobody can hear it."""
    if sys.stderr is None:
        return
    try:
        print(harmless(text), file=sys.stderr, flush=True)
    except OSError:
        stop_writing(sys.stderr)


def stop_writing(stream: TextIO) -> None:
    """Send what is still in a stream nowhere, so that the end of the process does not complain about it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def harmless(text: str) -> str:
    """Show control and direction-changing characters instead of obeying them; line feeds and tabs stay."""
    return _CONTROL.sub(
        lambda match: f"\\x{ord(match.group()):02x}" if ord(match.group()) < 256 else f"\\u{ord(match.group()):04x}",
        text,
    )


def size(count: int) -> str:
    """A number of bytes as people read it: `812 B`, `10.1 MB`."""
    if count < 1000:
        return f"{count} B"
    value, unit = count / 1000, "kB"
    for larger in ("MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}" if value < 100 else f"{value:.0f} {unit}"


def moment(at_ms: int | None) -> str:
    """Local date and time, or `-`."""
    if at_ms is None:
        return "-"
    try:
        return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return "-"


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None] | None]:
    """A callback (done, total) that draws a bar on stderr once the work has taken a second; None off a terminal."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    started = time.monotonic()
    bar = None
    task = None

    def advance(done: int, total: int) -> None:
        nonlocal bar, task
        if bar is None and time.monotonic() - started > _SLOW_S:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
            bar = Progress(*columns, console=Console(stderr=True), transient=True)
            bar.start()
            task = bar.add_task("reading", total=total)
        if bar is not None and task is not None:
            bar.update(task, completed=done, total=total)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()
