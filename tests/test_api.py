"""The Python API, as a program meets it."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT
from test_pipeline import SCHEMA, SESSION, session_sql, transcript

import bottlepipe
import bottlepipe.api


def test_the_examples_in_the_documentation_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The docstring's example and the README's print what they say."""
    monkeypatch.chdir(ROOT)
    result = doctest.testmod(bottlepipe.api)
    readme = (ROOT / "README.md").read_text()
    code = readme.partition("```python\n")[2].partition("```")[0]
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )

    assert result.attempted > 0
    assert result.failed == 0
    assert printed.stdout == "full 3\n"


def test_importing_the_package_is_lazy() -> None:
    """`import bottlepipe` costs next to nothing; a name is brought in when it is used."""
    code = "import bottlepipe, sys; print(sorted(n for n in sys.modules if n.startswith(('polars', 'duckdb', 'bottlepipe', 'msgspec'))))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout == "['bottlepipe']\n"
    assert {"render", "read_messages", "Bottle"} <= set(dir(bottlepipe))
    with pytest.raises(AttributeError):
        bottlepipe.nonsense  # noqa: B018


def test_read_messages_is_redacted_unless_raw_is_asked_for(tmp_path: Path) -> None:
    """One row per text block, with who said it and in which turn."""
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(transcript([("user", "a <private>CANARY</private> b"), ("assistant", "c")]))

    public, raw = bottlepipe.read_messages(path), bottlepipe.read_messages(path, raw=True)

    assert ["a  b", "c"] == public.get_column("text").to_list()
    assert ["a <private>CANARY</private> b", "c"] == raw.get_column("text").to_list()
    assert ["user", "assistant"] == raw.get_column("speaker").to_list()
    assert [1, 1] == raw.get_column("turn").to_list()


def test_read_observations_gives_the_rows_of_a_session(make_database: Callable[..., Path]) -> None:
    """Redacted like everything else; a database that cannot be read raises and says why."""
    hidden = "UPDATE observations SET title = 'x<private>CANARY</private>y';"
    database = make_database(SCHEMA + session_sql(SESSION, 1) + hidden)

    assert ["xy"] == bottlepipe.read_observations(database, SESSION).get_column("title").to_list()
    assert "CANARY" in bottlepipe.read_observations(database, [SESSION], raw=True).get_column("title")[0]
    with pytest.raises(bottlepipe.BottlepipeError, match="claude-mem has no database here"):
        bottlepipe.read_observations(database.with_name("none.db"), SESSION)


def test_find_sessions_and_render_work_on_ids(home: Path) -> None:
    """Ids and prefixes mean the sessions that Claude Code keeps; nothing is written."""
    path = home / ".claude" / "projects" / "-p" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(transcript([("user", "hi")]))

    assert [SESSION] == [found.session_id for found in bottlepipe.find_sessions()]
    assert bottlepipe.render(SESSION[:8]).user_turns == 1
    assert not (home / ".claude-mem").exists()
