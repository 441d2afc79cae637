"""Gives long Claude Code sessions their memory back. The public API, loaded on first use.

`render` renders one session, `read_messages` and `read_observations` give its parts as Polars frames, `find_sessions`
lists what is on disk. See `bottlepipe.api`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bottlepipe.api import find_sessions, read_messages, read_observations, render
    from bottlepipe.bottle import Bottle
    from bottlepipe.errors import BottlepipeError

__all__ = ["Bottle", "BottlepipeError", "find_sessions", "read_messages", "read_observations", "render"]

_HOMES = {"Bottle": "bottlepipe.bottle", "BottlepipeError": "bottlepipe.errors"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'bottlepipe' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "bottlepipe.api")), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
