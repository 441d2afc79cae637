"""What can go wrong, said so that a person can act on it.

Every error carries what happened, a hint for what to do next, and the exit code that the command line ends with.
A bad line in a transcript is not an error: it is a `read.Skipped`, counted and reported in the bottle's header.
"""


class BottlepipeError(Exception):
    """Base of all errors raised on purpose. `str(error)` is one line: the thing, then the reason."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(BottlepipeError):
    """The request itself is off: an unsafe id, an ambiguous prefix, an output that would overwrite a source."""

    exit_code = 2


class NothingToRender(BottlepipeError):
    """There is no session, no row or no renderable turn behind the request. Nothing was written."""

    exit_code = 3


class ExcludedProject(NothingToRender):
    """The session belongs to a project that CLAUDE_MEM_EXCLUDED_PROJECTS keeps off the disk."""


class SourceUnreadable(BottlepipeError):
    """A transcript exists and cannot be read (permissions, a folder, an I/O error)."""


class WriteFailed(BottlepipeError):
    """The bottle could not be written. Whatever bottle was there before is still whole."""
