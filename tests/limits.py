"""A limit that only work of the wrong order ever meets: it is many times what the right work takes on a slow machine."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class _TooLong(BaseException):
    """Raised wherever the work is at that moment, and caught by nobody on the way."""


@contextlib.contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Fail what is done inside once it has used so much CPU. For work that returns to Python now and then."""

    def stop(_: int, __: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    except _TooLong:
        raise AssertionError(f"not done after {seconds:g} s of CPU") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
