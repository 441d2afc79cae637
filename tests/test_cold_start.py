"""What a command may load before it answers. Importing Polars, DuckDB and rich takes longer than most commands work."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from test_pipeline import SCHEMA, SESSION, session_sql, transcript

# typer and what it brings. Its releases differ in what they load of this.
TYPER = {"typer", "click", "shellingham", "annotated_doc", "typing_extensions"}
OWN = {"bottlepipe"}

# Top-level packages beside the standard library that each command may load, from a fresh interpreter. A new import trips
# it: then either it can wait until it is needed, or its cost was weighed and it belongs here.
ALLOWED: dict[tuple[str, ...], set[str]] = {
    ("--version",): OWN,
    # Claude Code waits for a hook. While there is none it costs what a wrong command costs.
    ("hook",): OWN | TYPER,
    ("--help",): OWN | TYPER,
    (): OWN | TYPER,
    ("render", "--help"): OWN | TYPER,
    ("list",): OWN | TYPER,
    ("list", "--json"): OWN | TYPER,
    ("frobnicate",): OWN | TYPER,
    ("render",): OWN | TYPER,
    ("render", "--latest", "--no-db", "--db", "x"): OWN | TYPER,
    ("list", "--limit", "many"): OWN | TYPER,
    ("show", "no-number"): OWN | TYPER,
}
CODES = {"hook": 2, "frobnicate": 2, "render": 2, "show": 2}


def modules_loaded(*command: str) -> tuple[set[str], subprocess.CompletedProcess[str]]:
    """The names of all modules that a fresh interpreter imports for a command."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *command], capture_output=True, text=True, timeout=60, check=False
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}, done


@pytest.fixture(scope="module")
def start() -> set[str]:
    """What the interpreter loads by itself, whatever is installed beside it."""
    return modules_loaded("-c", "pass")[0]


@pytest.mark.parametrize("arguments", ALLOWED, ids=" ".join)
def test_a_command_loads_only_what_it_may(arguments: tuple[str, ...], start: set[str], home: Path) -> None:
    """Every package beside the standard library that an answer costs is on the list above, and the answer is right."""
    project = home / ".claude" / "projects" / "-home-ada-tidepool" / f"{SESSION}.jsonl"
    project.parent.mkdir(parents=True)
    project.write_bytes(transcript([("user", "question 1"), ("assistant", "answer")]))

    loaded, done = modules_loaded("-m", "bottlepipe", *arguments)

    is_usage_error = "many" in arguments or (CODES.get(" ".join(arguments[:1])) and "--help" not in arguments)
    assert done.returncode == (2 if is_usage_error else 0), done.stderr[-2000:]
    if arguments[:1] == ("list",) and not is_usage_error:
        assert SESSION in done.stdout
    # The standard library's `copy` tries `org.python`, which only Jython has.
    packages = {name.partition(".")[0] for name in loaded - start} - {"org"}
    assert set() == packages - ALLOWED[arguments] - set(sys.stdlib_module_names)
    assert "bottlepipe" in loaded, "nothing was measured"


def test_the_measure_sees_heavy_imports(home: Path) -> None:
    """A render that needs all of them shows that they would be seen."""
    path = home / f"{SESSION}.jsonl"
    path.write_bytes(transcript([("user", "question 1")]))

    loaded, done = modules_loaded("-m", "bottlepipe", "render", str(path), "-o", "-", "--no-db")

    assert "question 1" in done.stdout
    assert {"polars", "msgspec"} <= loaded


def test_importing_the_package_loads_nothing_else() -> None:
    """`import bottlepipe` is free until something of it is used, and its names are there all the same."""
    script = "import __future__, sys; old = set(sys.modules); import bottlepipe; print(sorted(set(sys.modules) - old)); bottlepipe.render"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert "['bottlepipe']\n" == done.stdout


def test_help_stays_grouped_and_readable() -> None:
    """Plain headings, one line for each option and command, within the width of a terminal, without rich."""
    words = subprocess.run(
        [sys.executable, "-m", "bottlepipe", "--help"], capture_output=True, text=True, timeout=60, check=True
    ).stdout

    assert ["Usage:", "Options:", "Commands:"] == [
        line.split()[0] for line in words.splitlines() if line and not line.startswith(" ")
    ]
    for name in ("demo", "list", "render", "show", "--version", "--debug", "-h, --help"):
        (line,) = [line for line in words.splitlines() if line.startswith(f"  {name} ")]
        assert line.endswith(".")
    assert max(map(len, words.splitlines())) <= 80


def test_a_version_is_the_one_that_is_installed() -> None:
    """The light answer says what the package's own metadata says."""
    from importlib.metadata import version

    done = subprocess.run([sys.executable, "-m", "bottlepipe", "--version"], capture_output=True, text=True, check=True)
    assert f"bottlepipe {version('bottlepipe')}\n" == done.stdout


@pytest.mark.parametrize("arguments", ["--version", "--help", "", "list --json"])
@pytest.mark.parametrize("stream", [">/dev/full", ">&-"], ids=["full", "closed"])
def test_an_answer_that_cannot_be_written_is_one_clear_error(arguments: str, stream: str, home: Path) -> None:
    """No traceback, no complaint at exit, and never success."""
    if stream == ">/dev/full" and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    path = home / ".claude" / "projects" / "-x" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(transcript([("user", "question 1")]))
    command = f"{shlex.quote(sys.executable)} -m bottlepipe {arguments} {stream}"

    done = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, text=True, timeout=60, check=False)

    first, *others = done.stderr.splitlines()
    assert (1, 1) == (done.returncode, len(others)), done.stderr
    assert first.startswith("bottlepipe: ")
    assert first.endswith("No space left on device" if stream == ">/dev/full" else "standard output: it is closed")
    assert others[0].startswith("hint: ")


def test_json_of_a_kept_bottle_tells_of_the_bottle_that_is_there(
    home: Path, make_database: Callable[..., Path]
) -> None:
    """The render that was not written has no sizes: `path` and the numbers are of one and the same file."""
    make_database(SCHEMA + session_sql(SESSION, 1), home / ".claude-mem" / "claude-mem.db")
    transcript_path = home / ".claude" / "projects" / "-x" / f"{SESSION}.jsonl"
    transcript_path.parent.mkdir(parents=True)
    words = [("user", "question 1"), ("assistant", "answer"), ("user", "question 2"), ("assistant", "more")]
    transcript_path.write_bytes(transcript(words))

    def render() -> dict[str, object]:
        command = [sys.executable, "-m", "bottlepipe", "render", SESSION, "--json"]
        facts: dict[str, object] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        return facts

    written = render()
    transcript_path.unlink()
    kept = render()

    assert ("written", "kept_full") == (written["outcome"], kept["outcome"])
    sizes = ("path", "mode", "source_bytes", "bottle_bytes", "user_turns", "assistant_messages", "observations")
    assert {name: written[name] for name in sizes} == {name: kept[name] for name in sizes}
    assert Path(str(kept["path"])).stat().st_size == kept["bottle_bytes"]
    assert {"left_out", "notes", "observations_problem"} == set(written) - set(kept)
