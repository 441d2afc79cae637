"""Where bottlepipe looks for things."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bottlepipe.settings import read_settings, render_time


def test_everything_has_its_usual_place_below_home(tmp_path: Path) -> None:
    """Without any setting, Claude Code's and claude-mem's own defaults hold."""
    settings = read_settings({"HOME": str(tmp_path)})

    assert tmp_path / ".claude" / "projects" == settings.projects_dir
    assert tmp_path / ".claude-mem" / "claude-mem.db" == settings.database
    assert tmp_path / ".claude-mem" / "bottles" == settings.bottles_dir


def test_the_environment_beats_the_settings_file(tmp_path: Path) -> None:
    """claude-mem's settings.json moves the data folder, and the environment moves it again."""
    write_settings(tmp_path, {"CLAUDE_MEM_DATA_DIR": "~/elsewhere"})

    assert tmp_path / "elsewhere" == read_settings({"HOME": str(tmp_path)}).data_dir
    assert Path("/data") == read_settings({"HOME": str(tmp_path), "CLAUDE_MEM_DATA_DIR": "/data"}).data_dir


def test_an_old_settings_file_keeps_its_values_under_env(tmp_path: Path) -> None:
    """Older files nest everything under `env` and may start with a byte order mark."""
    path = tmp_path / ".claude-mem" / "settings.json"
    path.parent.mkdir()
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"env": {"CLAUDE_MEM_RUNTIME": "server"}}).encode())

    assert read_settings({"HOME": str(tmp_path)}).runtime == "server"


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe", b"[" * 5000])
def test_a_broken_settings_file_is_named_and_not_fatal(tmp_path: Path, content: bytes) -> None:
    """Whatever stands in settings.json, defaults hold and the problem is told."""
    path = tmp_path / ".claude-mem" / "settings.json"
    path.parent.mkdir()
    path.write_bytes(content)

    settings = read_settings({"HOME": str(tmp_path)})

    assert tmp_path / ".claude-mem" == settings.data_dir
    assert str(path) in settings.problem


@pytest.mark.parametrize(
    ("pattern", "name", "is_excluded"),
    [
        ("/home/ada/secret", "/home/ada/secret", True),
        ("/home/ada/secret", "/home/ada/secret/deeper/still", True),
        ("/home/ada/secret", "/home/ada/secretive", False),
        ("secret", "/home/ada/secret", True),
        ("secret", "/home/ada/secret/src", True),
        ("secret", "secret", True),
        ("client-*", "/srv/client-acme", True),
        ("~/clients/**", "{home}/clients/acme", True),
        ("~/clients/*", "{home}/clients/acme", True),
        ("*/clients/*", "/srv/clients/acme", True),
        ("secret/", "/home/ada/secret", True),
        ("/home/ada/secret/", "/home/ada/secret", True),
        ("/home/ada/secret", "secret", True),
        ("~/secret/**", "secret", True),
        ("/home/ada/secret", "public", False),
        ("secret", "/home/ada/public", False),
        ("secret", "", False),
    ],
)
def test_excluded_projects_are_matched_by_path_and_by_base_name(
    tmp_path: Path, pattern: str, name: str, is_excluded: bool
) -> None:
    """A pattern is a glob for the path, for a folder above it, or for a base name."""
    settings = read_settings({"HOME": str(tmp_path), "CLAUDE_MEM_EXCLUDED_PROJECTS": f"other, {pattern}"})

    assert is_excluded is settings.is_excluded(name.replace("{home}", str(tmp_path)))


@pytest.mark.parametrize(
    "content",
    [
        '{"CLAUDE_MEM_EXCLUDED_PROJECTS": "secret", ',
        '{"CLAUDE_MEM_EXCLUDED_PROJECTS": ["other", "secret"]}',
        '{"CLAUDE_MEM_EXCLUDED_PROJECTS": {"a": 1}}',
    ],
)
def test_exclusions_that_cannot_be_read_do_not_fail_open(tmp_path: Path, content: str) -> None:
    """A torn file that speaks of excluded projects excludes all; a list is a list."""
    path = tmp_path / ".claude-mem" / "settings.json"
    path.parent.mkdir()
    path.write_text(content)

    assert read_settings({"HOME": str(tmp_path)}).is_excluded("/home/ada/secret")


def test_a_pipe_in_place_of_the_settings_is_not_waited_for(tmp_path: Path) -> None:
    """Only a regular file is read."""
    (tmp_path / ".claude-mem").mkdir()
    os.mkfifo(tmp_path / ".claude-mem" / "settings.json")

    assert read_settings({"HOME": str(tmp_path)}).problem == ""


def test_source_date_epoch_sets_the_time_of_rendering(tmp_path: Path) -> None:
    """Reproducible builds get reproducible bottles; nonsense is ignored."""
    fixed = read_settings({"HOME": str(tmp_path), "SOURCE_DATE_EPOCH": "1700000000"})
    odd = read_settings({"HOME": str(tmp_path), "SOURCE_DATE_EPOCH": "soon"})
    far = read_settings({"HOME": str(tmp_path), "SOURCE_DATE_EPOCH": "99999999999999"})

    assert render_time(fixed).timestamp() == 1_700_000_000
    assert render_time(odd).timestamp() > 1_700_000_000
    assert render_time(far).timestamp() > 1_700_000_000


def write_settings(home: Path, values: dict[str, str]) -> None:
    path = home / ".claude-mem" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(values))
