"""The command line as a person or a script meets it: real processes."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from bottle_parser import parse_bottle
from test_pipeline import OTHER, SCHEMA, SESSION, session_sql, transcript

Run = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def project(home: Path) -> Path:
    """A home with one session in Claude Code's folder."""
    path = home / ".claude" / "projects" / "-home-ada-tidepool" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(transcript([("user", "question 1"), ("assistant", "answer")]))
    return path


def test_render_writes_the_bottle_and_says_what_it_did(run_cli: Run, project: Path, home: Path) -> None:
    """The path on stdout, one line of numbers on stderr."""
    result = run_cli("render", SESSION[:8])

    bottle = home / ".claude-mem" / "bottles" / f"{SESSION}.md"
    assert result.returncode == 0
    assert f"{bottle}\n" == result.stdout
    assert [("user", "question 1"), ("assistant", "answer")] == parse_bottle(bottle.read_text()).messages
    assert ", full, 1 prompt, 0 observations, no observations: claude-mem has no database here" in result.stderr
    assert stat.S_IMODE(bottle.stat().st_mode) == 0o600
    assert {0o700} == {stat.S_IMODE(folder.stat().st_mode) for folder in (bottle.parent, bottle.parent.parent)}
    assert [bottle] == list(bottle.parent.iterdir())


def test_render_to_the_screen_needs_no_set_up_and_writes_nothing(run_cli: Run, tmp_path: Path, home: Path) -> None:
    """`render FILE -o -` works on any transcript."""
    path = tmp_path / "any.jsonl"
    path.write_bytes(transcript([("user", "hi")]))

    result = run_cli("render", path, "-o", "-", "--no-db")

    assert [("user", "hi")] == parse_bottle(result.stdout).messages
    assert [] == list(home.iterdir())


def test_a_folder_of_the_same_name_does_not_hide_a_session(run_cli: Run, project: Path) -> None:
    """Claude Code keeps a folder <id>/ beside some transcripts; in that place the id still means the session."""
    (project.parent / SESSION).mkdir()

    assert run_cli("render", SESSION, "-o", "-", "--no-db", cwd=project.parent).returncode == 0


def test_render_json_tells_a_machine_everything(run_cli: Run, project: Path, make_database: Any, home: Path) -> None:
    """snake_case keys, counts of what was left out, the current task."""
    make_database(SCHEMA + session_sql(SESSION, 1), home / ".claude-mem" / "claude-mem.db")
    project.write_bytes(project.read_bytes() + b"null\n{torn")

    facts = json.loads(run_cli("render", "--latest", "--json").stdout)

    assert {"mode": "full", "user_turns": 1, "observations": 1, "outcome": "written"}.items() <= facts.items()
    assert {"lines_that_are_no_record": 1, "unfinished_last_lines": 1} == facts["left_out"]
    assert facts["current_task"] == "go on with 1"


def test_a_lost_transcript_is_reconstructed_by_prefix_from_the_database(run_cli: Run, make_database: Any) -> None:
    """The id need not be on disk as a transcript."""
    database = make_database(SCHEMA + session_sql(OTHER, 1))

    result = run_cli("render", OTHER[:-2], "--db", database, "-o", "-")

    assert result.returncode == 0, result.stderr
    assert "mode: reconstructed — assistant messages not preserved" in result.stdout


def test_a_full_bottle_is_kept_when_only_a_reconstruction_is_left(
    run_cli: Run, project: Path, make_database: Any, home: Path
) -> None:
    """The bottle may be the only record of the assistant's words."""
    make_database(SCHEMA + session_sql(SESSION, 1), home / ".claude-mem" / "claude-mem.db")
    bottle = Path(run_cli("render", SESSION).stdout.strip())
    before = bottle.read_bytes()
    project.unlink()

    result = run_cli("render", SESSION)

    assert result.returncode == 0
    assert "kept: the full bottle" in result.stderr
    assert before == bottle.read_bytes()


def test_a_bottle_with_more_turns_is_archived_first(run_cli: Run, project: Path) -> None:
    """A transcript that was replaced by a shorter one does not take words away."""
    bottle = Path(run_cli("render", SESSION).stdout.strip())
    before = bottle.read_bytes()
    project.write_bytes(transcript([("assistant", "only an answer")]))

    result = run_cli("render", SESSION)

    (archived,) = (bottle.parent / "archive").iterdir()
    assert before == archived.read_bytes()
    assert str(archived) in result.stderr
    assert archived.name.endswith(f"-{SESSION}.md")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["frobnicate"], 2, "No such command"),
        (["render"], 2, "name one session"),
        (["render", SESSION, "--latest"], 2, "name one session"),
        (["render", "--nonsense"], 2, "No such option"),
        (["render", "ffffffff"], 3, "no transcript, and nothing stored for it"),
        (["render", "no/such/file.jsonl"], 3, "no such file"),
        (["render", ".."], 2, "is not a session id"),
        (["render", "-", "--no-db"], 2, "is not a session id"),
        (["render", "a\x1b[31mb"], 2, "is not a session id"),
        (["render", "x.jsonl", "-o", "-", "--json"], 2, "both want stdout"),
        (["render", "x.jsonl", "--db", "y", "--no-db"], 2, "exclude each other"),
        (["render", "--latest"], 3, "no session below"),
        (["list"], 3, "no session below"),
        (["show", "abc"], 2, "is not an observation id"),
        (["show", "1"], 1, "claude-mem has no database here"),
        (["render", ""], 2, "is not a session id"),
    ],
)
def test_every_error_is_one_line_with_a_reason_and_a_hint(
    run_cli: Run, arguments: list[str], code: int, words: str
) -> None:
    """No traceback, nothing on stdout, nothing that commands the terminal."""
    result = run_cli(*arguments)

    assert code == result.returncode, result.stderr
    assert result.stdout == ""
    assert words in result.stderr
    first, *rest = result.stderr.splitlines()
    assert first.startswith("bottlepipe: ")
    assert all(line.startswith("hint: ") for line in rest)
    assert "\x1b" not in result.stderr


def test_debug_shows_the_traceback(run_cli: Run) -> None:
    """Wherever it stands on the line."""
    assert "Traceback" in run_cli("render", "nope/x.jsonl", "--debug").stderr


@pytest.mark.parametrize("name", ["transcript", "database", "link", "claude-mem.db-wal", "claude-mem.db-journal"])
@pytest.mark.parametrize("without", [False, True])
def test_a_source_is_never_written_over(
    run_cli: Run,
    project: Path,
    home: Path,
    make_database: Any,
    tmp_path: Path,
    unchanged: Any,
    name: str,
    without: bool,
) -> None:
    """-o that names the transcript, the database, a link to one of them, or what SQLite would read with it is refused.

    The user's database is left alone with --no-db too.
    """
    database = make_database(SCHEMA + session_sql(SESSION, 1), home / ".claude-mem" / "claude-mem.db")
    link = tmp_path / "link.md"
    link.symlink_to(project)
    unchanged(project, database)
    beside = database.with_name(name)
    outputs = {"transcript": project, "database": database, "link": link}

    result = run_cli(
        "render", SESSION, *(["--no-db"] if without else ["--db", database]), "-o", outputs.get(name, beside)
    )

    assert result.returncode == 2
    assert "is a source of this render" in result.stderr
    assert not beside.exists()


def test_output_elsewhere_is_private_and_archives_nothing(
    run_cli: Run, project: Path, tmp_path: Path, home: Path
) -> None:
    """-o FILE writes that file and no other."""
    target = tmp_path / "out.md"
    target.write_text("something else")

    result = run_cli("render", SESSION, "-o", target)

    assert f"{target}\n" == result.stdout
    assert parse_bottle(target.read_text()).session_id == SESSION
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert not (home / ".claude-mem").exists()


def test_an_excluded_project_goes_to_the_screen_only(
    run_cli: Run, project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is stored, and the refusal says how to see it."""
    monkeypatch.setenv("CLAUDE_MEM_EXCLUDED_PROJECTS", "tidepool")

    refused = run_cli("render", SESSION)

    assert refused.returncode == 3
    assert "excluded by CLAUDE_MEM_EXCLUDED_PROJECTS" in refused.stderr
    assert not (home / ".claude-mem").exists()
    assert run_cli("render", SESSION, "-o", "-").returncode == 0


def test_list_shows_sessions_newest_first_with_their_bottles(
    run_cli: Run, project: Path, make_database: Any, home: Path
) -> None:
    """Also those that only the database knows; the state of a bottle follows its transcript."""
    make_database(SCHEMA + session_sql(SESSION, 1) + session_sql(OTHER, 2), home / ".claude-mem" / "claude-mem.db")
    run_cli("render", SESSION)

    rows = json.loads(run_cli("list", "--json").stdout)
    project.write_bytes(project.read_bytes() + b"{}\n")
    stale = json.loads(run_cli("list", "--json").stdout)

    assert [(SESSION, "tidepool", "current"), (OTHER, "tidepool", "none")] == [
        (r["session_id"], r["project"], r["bottle"]) for r in rows
    ]
    assert rows[1]["bytes"] is None
    assert stale[0]["bottle"] == "stale"
    assert SESSION in run_cli("list", "--limit", "1").stdout
    assert "1 more" in run_cli("list", "--limit", "1").stderr


def test_list_and_bottle_hide_what_is_private_in_a_projects_name(run_cli: Run, make_database: Any) -> None:
    """A project's name is a text from the database like any other."""
    sql = "UPDATE sdk_sessions SET project = 'tide<private>CANARY</private>pool';"
    database = make_database(SCHEMA + session_sql(SESSION, 1) + sql)

    (row,) = json.loads(run_cli("list", "--json", "--db", database).stdout)
    bottle = run_cli("render", SESSION, "--db", database, "-o", "-").stdout

    assert row["project"] == "tidepool"
    assert "project: tidepool · " in bottle


def test_list_shows_what_only_an_old_database_without_prompts_knows(run_cli: Run, make_database: Any) -> None:
    """Where no prompt was ever stored, sessions still have observations to show; elsewhere rows without one are not listed."""
    sql = SCHEMA + session_sql(SESSION, 1) + session_sql(OTHER, 2)
    some = make_database(sql + "DELETE FROM user_prompts WHERE id = 1;")
    none = make_database(sql + "DROP TABLE user_prompts;", some.with_name("old.db"))

    assert [OTHER] == [row["session_id"] for row in json.loads(run_cli("list", "--json", "--db", some).stdout)]
    assert {SESSION, OTHER} == {row["session_id"] for row in json.loads(run_cli("list", "--json", "--db", none).stdout)}


def test_show_gives_the_whole_observation_without_private_spans(run_cli: Run, make_database: Any) -> None:
    """The number is that of a bottle line; private spans stay hidden."""
    hidden = "UPDATE observations SET narrative = 'kept <private>CANARY</private> text', text = '[1' WHERE id = 1;"
    database = make_database(SCHEMA + session_sql(SESSION, 1) + hidden)

    plain = run_cli("show", "#1", "--db", database)
    record = json.loads(run_cli("show", "1", "--db", database, "--json").stdout)
    missing = run_cli("show", "99", "--db", database)

    assert "title: title 1\n" in plain.stdout
    assert "narrative: kept  text\n" in plain.stdout
    assert record["narrative"] == "kept  text"
    assert missing.returncode == 3


def test_help_and_version_cost_no_heavy_import() -> None:
    """Polars, DuckDB and rich stay out of what a person types all day."""
    for arguments in (["--version"], ["--help"], ["render", "--help"]):
        code = (
            "import sys; sys.argv = ['bottlepipe', *sys.argv[1:]]\n"
            "from bottlepipe.__main__ import main\n"
            "try: main()\nexcept SystemExit: pass\n"
            "print([name for name in ('polars', 'duckdb', 'rich', 'msgspec', 'ijson') if name in sys.modules], file=sys.stderr)"
        )
        result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        assert result.stderr == "[]\n"
        assert "bottlepipe" in result.stdout


def test_a_reader_that_goes_away_is_no_error(project: Path) -> None:
    """`bottlepipe render … -o - | head -1` ends quietly."""
    command = [sys.executable, "-m", "bottlepipe", "render", SESSION, "-o", "-", "--no-db"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, words = process.communicate(timeout=60)

    assert process.returncode == 0
    assert words == ""


def test_a_closed_standard_output_is_one_clear_error(project: Path) -> None:
    """Whoever closes it is told, and by no traceback."""
    command = f"{sys.executable} -m bottlepipe render {SESSION} -o - --no-db >&-"

    result = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, text=True, check=False)

    assert result.returncode == 1
    assert result.stderr.startswith("bottlepipe: standard output: it is closed\nhint: ")


def test_control_characters_are_shown_and_not_obeyed_on_a_terminal(project: Path) -> None:
    """A pipe gets the exact bytes, a terminal what is harmless."""
    project.write_bytes(transcript([("user", "red \x1b[31m alarm \x07 \u202e turned")]))
    command = [sys.executable, "-m", "bottlepipe", "render", SESSION, "-o", "-", "--no-db"]

    leader, follower = pty.openpty()
    with subprocess.Popen(command, stdout=follower, stderr=subprocess.DEVNULL) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
    os.close(leader)
    piped = subprocess.run(command, capture_output=True, check=True).stdout

    assert process.returncode == 0
    assert b"red \\x1b[31m alarm \\x07 \\u202e turned" in shown
    assert "red \x1b[31m alarm \x07 \u202e turned".encode() in piped


def test_an_interrupted_command_ends_with_130(project: Path, make_database: Any, home: Path) -> None:
    """Ctrl-C leaves no traceback and no half bottle."""
    database = make_database(SCHEMA + session_sql(SESSION, 1))
    hold = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN EXCLUSIVE'); print(flush=True); sys.stdin.read()"
    # A test runner in the background may have been told to ignore interrupts; the command must not inherit that.
    listen = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-m", "bottlepipe", "render", SESSION, "--db", str(database)]
    with (
        subprocess.Popen(
            [sys.executable, "-c", hold, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as holder,
        subprocess.Popen([sys.executable, "-c", listen, *command], stderr=subprocess.PIPE, text=True) as process,
    ):
        try:
            assert holder.stdout is not None
            holder.stdout.readline()
            # The command waits two seconds for the lock; the interrupt comes in that time.
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1.5)
            process.send_signal(signal.SIGINT)
            _, words = process.communicate(timeout=20)
        finally:
            process.kill()
            holder.kill()

    assert process.returncode == 130
    assert words == "bottlepipe: interrupted\n"
    assert [] == list(home.glob(".claude-mem/**/*.md"))
