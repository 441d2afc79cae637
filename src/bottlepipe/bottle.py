"""The result of a render."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Bottle:
    """One rendered session.

    `data` is the whole markdown in UTF-8, and `text` the same as a string, made anew each time it is asked for: one
    emoji makes a string take four bytes for every character. `mode` is `full` or `reconstructed`; `path` is where it
    was written, None if it was not. `left_out` counts everything that is not in it, by what it is; `problem` says why
    there are no observations. `current_task` is one line of at most 300 characters, "" if there is none. Sizes are in
    bytes.
    """

    session_id: str
    mode: str
    data: bytes
    project: str
    user_turns: int
    assistant_messages: int
    observations: int
    source_bytes: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    problem: str = ""
    current_task: str = ""
    ends_mid_turn: bool = False
    path: Path | None = None
    outcome: str = ""
    archived: Path | None = None

    @property
    def text(self) -> str:
        """The whole markdown."""
        return self.data.decode()
