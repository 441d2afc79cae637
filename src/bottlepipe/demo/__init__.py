"""A sample session and database, invented, for `bottlepipe demo`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.resources import as_file, files
from pathlib import Path


def sample_transcript() -> AbstractContextManager[Path]:
    """The sample transcript as a file."""
    return as_file(files(__name__) / "0b0771e5-5a3e-4c55-9d1c-b0771eb0771e.jsonl")


def sample_database() -> AbstractContextManager[Path]:
    """The sample claude-mem database as a file."""
    return as_file(files(__name__) / "claude-mem.db")
