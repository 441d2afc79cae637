"""Whole sessions, from transcript and database to the bottle, compared as bytes.

A case is a folder in `golden/`: `transcript.jsonl` and `memory.sql` (rows for the tables of `schema.sql`), either
of which may be absent, and `bottle.md`. A `case.toml` may set `zone`, `all_branches`, `sources` (the case whose files
are read instead) and `transcript = false` (as if it were lost). After a wanted change `pytest --update-golden` accepts
what is rendered now; read the difference like code before you keep it.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from bottle_parser import parse_bottle
from conftest import FIXTURES

from bottlepipe.bottle import Bottle
from bottlepipe.locate import SessionRef, ref_of_file
from bottlepipe.pipeline import Options, render_sessions
from bottlepipe.settings import Settings

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(folder.name for folder in GOLDEN.iterdir() if folder.is_dir())
SESSION = "71de9001-0000-4000-8000-00000000c0de"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

every_case = pytest.mark.parametrize("case", CASES)


def about(case: str) -> dict[str, Any]:
    """The choices of a case.toml."""
    path = GOLDEN / case / "case.toml"
    choices = tomllib.loads(path.read_text("utf-8")) if path.exists() else {}
    unknown = choices.keys() - {"zone", "all_branches", "sources", "transcript"}
    assert not unknown, f"{path}: {unknown}"
    return choices


def sources(case: str) -> tuple[Path | None, Path | None]:
    """The transcript and the SQL of a case, None for what it has not."""
    folder = GOLDEN / about(case).get("sources", case)
    transcript, memory = folder / "transcript.jsonl", folder / "memory.sql"
    has_transcript = transcript.exists() and about(case).get("transcript", True)
    return transcript if has_transcript else None, memory if memory.exists() else None


@pytest.fixture
def render_case(home: Path, tmp_path: Path, make_database: Callable[..., Path]) -> Callable[[str], Bottle]:
    """Render a case as `bottlepipe render` would, where and when it is always the same."""

    def render(case: str) -> Bottle:
        transcript, memory = sources(case)
        database = tmp_path / "claude-mem.db"
        if memory is not None:
            make_database((GOLDEN / "schema.sql").read_text("utf-8") + memory.read_text("utf-8"), database)
        zone = ZoneInfo(about(case).get("zone", "UTC"))
        settings = Settings(home, home / ".claude", home / ".claude-mem", zone=zone)
        options = Options(database=database, all_branches=about(case).get("all_branches", False))
        (rendered,) = render_sessions([SessionRef(SESSION, SESSION, transcript)], settings, options, NOW)
        assert isinstance(rendered, Bottle), rendered
        return rendered

    return render


def test_there_are_golden_cases() -> None:
    """An empty folder of cases would prove nothing, and so would a case without a source."""
    assert CASES
    assert not [case for case in CASES if sources(case) == (None, None)]


@every_case
def test_a_session_renders_to_its_golden_bottle(
    case: str, render_case: Callable[[str], Bottle], pytestconfig: pytest.Config
) -> None:
    """Same sources, same bytes, until somebody decides otherwise."""
    golden, left = GOLDEN / case / "bottle.md", GOLDEN / case / "actual.md"
    actual = render_case(case).text.encode("utf-8")

    if pytestconfig.getoption("--update-golden"):
        golden.write_bytes(actual)
    expected = golden.read_bytes() if golden.exists() else b""
    if actual != expected:
        left.write_bytes(actual)
        difference = _difference(expected, actual)
        pytest.fail(f"{left} is not bottle.md; `--update-golden` accepts it\n{difference}", pytrace=False)
    left.unlink(missing_ok=True)


def _difference(expected: bytes, actual: bytes) -> str:
    # Split at line feeds only: a bottle may hold every other line end inside a line.
    before, after = (text.decode("utf-8", "replace").split("\n") for text in (expected, actual))
    return "\n".join(map(_printable, difflib.unified_diff(before, after, "bottle.md", "actual.md", lineterm="", n=1)))


def _printable(line: str) -> str:
    """A line as a terminal can show it."""
    return line if line.isprintable() else line[:1] + repr(line[1:])


@every_case
def test_a_golden_bottle_parses_and_holds_what_its_header_says(case: str) -> None:
    """A golden bottle is in the format, and its own count of turns, messages and observations is right."""
    bottle = parse_bottle((GOLDEN / case / "bottle.md").read_bytes().decode("utf-8"))
    spoken = Counter(speaker for speaker, _ in bottle.messages)
    observed = sum(len(block.lines) for block in bottle.blocks)

    counted = re.findall(r"(\d+) (user turn|assistant message|observation)", bottle.header["contents"])

    assert SESSION == bottle.session_id
    assert {"user turn": spoken["user"], "assistant message": spoken["assistant"], "observation": observed} == {
        name: int(count) for count, name in counted
    }


def test_no_golden_bottle_holds_a_canary() -> None:
    """Whatever a source marks as CANARY is a user's secret, and nobody accepts a bottle with one in it."""
    assert not [case for case in CASES if "CANARY" in (GOLDEN / case / "bottle.md").read_text("utf-8")]


def test_the_privacy_case_has_canaries_in_every_text_of_both_sources() -> None:
    """The privacy case would prove nothing without them."""
    transcript, memory = sources("privacy")
    assert transcript is not None
    assert memory is not None

    assert [f"CANARY-{n:02}" for n in range(1, 25)] == _canaries(transcript)
    assert [f"CANARY-{n:02}" for n in (4, *range(30, 47))] == _canaries(memory)


def _canaries(path: Path) -> list[str]:
    return sorted(set(re.findall(r"CANARY-\d\d", path.read_text("utf-8"))))


def test_the_first_session_renders_with_what_memory_kept_of_it(home: Path, make_database: Callable[..., Path]) -> None:
    """The fixture for first steps: three turns, and one observation under each of the first two."""
    first = FIXTURES / "first-session"
    database = make_database((first / "memory.sql").read_text("utf-8"))
    settings = Settings(home, home / ".claude", home / ".claude-mem", zone=UTC)

    (rendered,) = render_sessions([ref_of_file(first / "transcript.jsonl")], settings, Options(database=database), NOW)

    assert isinstance(rendered, Bottle), rendered
    speakers = [block.speaker for block in parse_bottle(rendered.text).blocks]
    observed = ["user", "observations", "assistant"]
    assert [*observed, *observed, "assistant", "user", "assistant"] == speakers
