"""Gives long Claude Code sessions their memory back. The public API, loaded on first use.

`render` renders one session, `read_messages` and `read_observations` give its parts as Polars frames, `find_sessions`
lists what is on disk. See `bottlepipe.api`.
"""

from __future__ import annotations

__version__ = "0.1.0"

# Type checkers take this for true. Importing the one of `typing` would cost what all of Python's start does.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from bottlepipe.api import find_sessions, read_messages, read_observations, render
    from bottlepipe.bottle import Bottle
    from bottlepipe.errors import (
        BottlepipeError,
        ExcludedProject,
        NothingToRender,
        SourceUnreadable,
        UsageError,
        WriteFailed,
    )
    from bottlepipe.locate import Found
    from bottlepipe.settings import Settings, read_settings

__all__ = [
    "Bottle",
    "BottlepipeError",
    "ExcludedProject",
    "Found",
    "NothingToRender",
    "Settings",
    "SourceUnreadable",
    "UsageError",
    "WriteFailed",
    "find_sessions",
    "read_messages",
    "read_observations",
    "read_settings",
    "render",
]

if not TYPE_CHECKING:
    _HOMES = {"Bottle": "bottle", "Found": "locate", "Settings": "settings", "read_settings": "settings"}

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module 'bottlepipe' has no attribute {name!r}")
        from importlib import import_module

        home = _HOMES.get(name, "api" if name[0].islower() else "errors")
        return getattr(import_module(f"bottlepipe.{home}"), name)

    def __dir__():
        return [*globals(), *__all__]
