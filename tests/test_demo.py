"""`bottlepipe demo` as a user meets it, and the invented session behind it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from bottle_parser import ParsedBottle, parse_bottle

import bottlepipe.demo

BUNDLED = Path(bottlepipe.demo.__file__).parent
SESSION = "0b0771e5-5a3e-4c55-9d1c-b0771eb0771e"
TRANSCRIPT = BUNDLED / f"{SESSION}.jsonl"
DATABASE = BUNDLED / "claude-mem.db"
SQL = Path(__file__).parent.parent / "src" / "bottlepipe" / "demo" / "claude-mem.sql"  # not needed at run time
POINTER = "# [claude-mem] Endless Mode — session continuation\n"

_DUMP = """
import sqlite3, sys
connection = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
names = "page_size", "journal_mode", "freelist_count"
pragmas = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]
print(pragmas, *connection.iterdump(), sep=chr(10))
"""


@dataclass(frozen=True)
class Demo:
    """One run of the demo, and the state of HOME and of the bundled files before and after it."""

    done: subprocess.CompletedProcess[str]
    temporary: Path
    before: dict[Path, tuple[int, int, bytes]]
    after: dict[Path, tuple[int, int, bytes]]

    @property
    def parts(self) -> tuple[str, str]:
        """The bottle and the pointer on stdout."""
        bottle, heading, pointer = self.done.stdout.partition(POINTER)
        assert heading, f"no pointer; {self.done.stderr}"
        return bottle, heading + pointer

    @property
    def stored(self) -> Path:
        """The bottle on disk."""
        (path,) = self.temporary.glob(f"*/bottles/{SESSION}.md")
        return path


def run_demo(folder: Path, *arguments: str) -> Demo:
    """Run the demo as a user with a Claude Code and a claude-mem of her own, who excludes every project."""
    home, temporary = folder / "home", folder / "tmp"
    theirs = home / ".claude" / "projects" / "-home-ada-other" / f"{SESSION}.jsonl"
    theirs.parent.mkdir(parents=True)
    theirs.write_text('{"type":"user","message":{"role":"user","content":"a session of her own"},"uuid":"u1"}\n')
    (home / ".claude-mem").mkdir()
    (home / ".claude-mem" / "settings.json").write_text('{"CLAUDE_MEM_EXCLUDED_PROJECTS": "*"}')
    (home / ".claude-mem" / "claude-mem.db").write_text("no database at all")
    temporary.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "SOURCE_DATE"))}
    environment |= {"HOME": str(home), "TMPDIR": str(temporary), "TZ": "UTC", "NO_COLOR": "1"}
    before = _state(home)
    done = subprocess.run(
        [sys.executable, "-B", "-m", "bottlepipe", "demo", *arguments],
        capture_output=True,
        encoding="utf-8",
        env=environment,
        timeout=60,
        check=False,
    )
    return Demo(done, temporary, before, _state(home))


def _state(home: Path) -> dict[Path, tuple[int, int, bytes]]:
    bundled = (path for path in BUNDLED.iterdir() if path.suffix != ".pyc" and path.name != "__pycache__")
    paths = sorted([home, *home.rglob("*"), *bundled])
    return {
        path: (path.stat().st_mtime_ns, path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in paths
    }


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The demo, run once for all tests that look at it."""
    return run_demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def bottle(demo: Demo) -> ParsedBottle:
    """The bottle that the demo prints, parsed."""
    return parse_bottle(demo.parts[0])


def test_the_demo_prints_a_bottle_and_the_pointer_to_it(demo: Demo) -> None:
    """Exit 0; stdout holds the bottle as it is on disk, then the pointer, which names that file."""
    bottle, pointer = demo.parts

    assert 0 == demo.done.returncode
    assert demo.stored.read_text("utf-8") == bottle
    assert f"\n    {demo.stored}\n" in pointer
    assert "\nCurrent task: Wait for the council's word, then publish tidepool 0.4.0\n" in pointer


def test_the_demo_says_its_numbers_on_stderr(demo: Demo) -> None:
    """One line counts what the bottle holds and everything that was left out; nothing of it is on stdout."""
    summary = next(line for line in demo.done.stderr.splitlines() if " -> " in line)

    assert re.match(r"58\.\d kB -> \d\.\d kB in \d+\.\d\d s, full, 16 prompts, 13 observations, ", summary)
    for phrase in ("1 rewound branch", "1 unfinished last line", "1 compaction summary", "3 private spans"):
        assert phrase in summary
    assert summary not in demo.done.stdout


def test_the_demo_leaves_a_users_own_files_alone(demo: Demo) -> None:
    """Nothing below HOME or beside the bundled files is made or changed, and no word of the user's is shown."""
    assert demo.before == demo.after
    assert "a session of her own" not in demo.done.stdout


def test_the_demo_keeps_what_its_session_marks_as_private(demo: Demo) -> None:
    """The sample holds a private span, a wholly private prompt and an echo of the span; none of them comes out."""
    inside = re.compile(r"<private>(.*?)</private>")
    secrets = inside.findall(TRANSCRIPT.read_text("utf-8")) + inside.findall(SQL.read_text("utf-8"))
    words = [word for secret in secrets for word in re.split(r" / |, | is ", secret)]
    shown = demo.done.stdout + demo.done.stderr + demo.stored.read_text("utf-8")

    assert 3 == len(secrets)
    assert not [word for word in words if word in shown]


def test_the_demo_speaks_to_machines(tmp_path: Path) -> None:
    """With --json stdout is one JSON object with the numbers and the pointer."""
    done = run_demo(tmp_path, "--json").done
    facts = json.loads(done.stdout)
    numbers = [facts[name] for name in ("mode", "user_turns", "assistant_messages", "observations")]
    left_out = {
        "rewound_branches": 1,
        "messages_on_rewound_branches": 3,
        "observations_on_rewound_branches": 1,
        "unfinished_last_lines": 1,
        "compaction_summaries": 1,
        "injected_texts": 5,
        "private_spans": 3,
    }

    assert 0 == done.returncode
    assert ["full", 16, 19, 13] == numbers
    assert left_out == facts["left_out"]
    assert facts["pointer"].startswith(POINTER)
    assert Path(facts["path"]).is_file()


def test_the_demo_shows_every_kind_of_user_turn(bottle: ParsedBottle) -> None:
    """A prompt, a rejection's words, `!` and `/` commands, answers, a queued prompt, an image and a private prompt."""
    said = [text for speaker, text in bottle.messages if speaker == "user"]
    expected = [
        "Good find. Fix it, and add a test for the night the clocks change.",
        "Leave format_time alone, the printer driver calls it too. Convert in predict() and return aware datetimes.",
        "! git diff --stat",
        "/review src/tidepool/predict.py",
        "Do both. Then add `tidepool week`, a table of seven days.",
        "Q: Which clock should the week table use?\nA: The station's\n"
        "Q: How should a day without a second low water look?\nA: A dash, an empty cell looks like a bug",
        "and mark spring tides with a star",
        "[Image #1] This is the board at the quay. Can the table look like that, heights in metres on the right?"
        "\n\n[image]",
        "Compare our March against the gauge.  You find both in the environment as GAUGE_USER and GAUGE_PASS.",
        "[private]",
    ]

    assert bottle.request == said[0]
    assert expected == said[1:11]


def test_the_demo_marks_what_the_host_did(bottle: ParsedBottle) -> None:
    """The interrupt and the compaction are notices; the summary that replaced the conversation is not in the bottle."""
    notices = [block.text for block in bottle.blocks if block.speaker == "notice"]

    assert ["interrupted by the user", "context compacted (manual, 98,214 tokens before)"] == notices
    assert not [text for _, text in bottle.messages if "This session is being continued" in text]


def test_the_demo_places_each_observation_under_its_turn(bottle: ParsedBottle) -> None:
    """By tool call, by number and by time; the one on the rewound branch is left out with it."""
    placed: dict[str, list[int]] = {}
    said = ""
    for block in bottle.blocks:
        if block.speaker == "user":
            said = block.text[:12]
        for line in block.lines:
            placed.setdefault(said, []).append(int(re.findall(r"#(\d+)", line)[0]))

    assert {
        "Since the cl": [2101, 2102],
        "Leave format": [2103, 2104],
        "/review src/": [2105],
        "Do both. The": [2106],
        "Q: Which clo": [2107],
        "and mark spr": [2108],
        "[Image #1] T": [2109],
        "Compare our ": [2110],
        "No, no class": [2111],
        "Morning. Wri": [2112],
        "Bump the ver": [2114],
    } == placed


def test_the_bundled_database_is_what_its_sql_builds(make_database: Callable[..., Path]) -> None:
    """Same schema and rows, in a small file without a write-ahead log: it can be read where nothing is writable."""
    built = make_database(SQL.read_text("utf-8"))

    assert _dump(built) == _dump(DATABASE)
    assert "[1024, 'delete', 0]" == _dump(DATABASE)[0]
    assert DATABASE.stat().st_size < 80_000


def _dump(database: Path) -> list[str]:
    command = [sys.executable, "-c", _DUMP, str(database)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_bundled_transcript_is_one_that_claude_code_could_have_written() -> None:
    """Whole records of one session, each parent before its child, and a last line that is still being written."""
    *whole, torn = TRANSCRIPT.read_text("utf-8").split("\n")
    entries = [json.loads(line) for line in whole]
    tree = [entry for entry in entries if "uuid" in entry]
    known = {None}
    for entry in tree:
        assert entry["parentUuid"] in known
        known.add(entry["uuid"])

    assert {SESSION} == {entry["sessionId"] for entry in tree}
    assert len(tree) == len({entry["uuid"] for entry in tree})
    assert TRANSCRIPT.stat().st_size < 60_000
    with pytest.raises(json.JSONDecodeError):
        json.loads(torn)
