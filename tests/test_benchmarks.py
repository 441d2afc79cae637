"""What the benchmarks stand on: transcripts that weigh what real ones weigh, answers that are checked, a gate that trips."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import bottlepipe

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
SESSION = "be7c4a11-0000-4000-8000-000000000001"

Compare = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def transcripts() -> ModuleType:
    """The generator."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import transcript
    finally:
        sys.path.remove(str(BENCHMARKS))
    return transcript


@pytest.fixture
def compare(tmp_path: Path) -> Compare:
    """Run the gate as a real process, its baseline in a folder of the test's."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(BENCHMARKS / "compare.py"), "--baseline", str(tmp_path / "baseline.json")]
        return subprocess.run(
            [*command, *arguments], capture_output=True, text=True, encoding="utf-8", timeout=120, check=False
        )

    return run


def save(path: Path, **ratios: float) -> None:
    path.write_text(json.dumps({"ratios": ratios}), encoding="utf-8")


# The generator


def test_a_generated_transcript_weighs_what_real_ones_weigh(transcripts: ModuleType, tmp_path: Path) -> None:
    """Large shares within a fifth, small ones within one percent of the bytes; line lengths within 15 %."""
    path = tmp_path / "transcript.jsonl"
    truth = transcripts.make_transcript(path, 10_000_000)
    weight = transcripts.weigh(path)

    off = {
        name: (share, transcripts.SHARES[name])
        for name, share in weight.shares.items()
        if abs(share - transcripts.SHARES[name]) > max(0.2 * transcripts.SHARES[name], 1)
    }
    assert {} == off
    assert 1.0 < weight.shares["assistant text"] + weight.shares["user text"] < 2.2
    assert {50: 1_109, 90: 5_558, 99: 44_955} == {
        p: pytest.approx(weight.percentiles[p], rel=0.15) for p in (50, 90, 99)
    }
    assert path.stat().st_size == truth.bytes < 10_300_000


def test_a_bottle_holds_what_the_generator_says(transcripts: ModuleType, tmp_path: Path) -> None:
    """Every odd case is in it: rewinds, compactions, images, private spans, the ways of a queued prompt."""
    path = tmp_path / f"{SESSION}.jsonl"
    truth = transcripts.make_transcript(path, 6_000_000, seed=5)
    bottle = bottlepipe.render(path, use_database=False)

    assert truth.user_turns == bottle.user_turns
    assert truth.assistant_messages == bottle.assistant_messages
    assert truth.rewound_messages == bottle.left_out["messages on rewound branches"] > 0
    assert truth.private_spans == bottle.left_out["private spans"] > 0
    assert truth.compactions == bottle.left_out["compaction summaries"] > 0
    assert truth.images == bottle.text.count("\n[image]\n") > 0
    assert "hunter2" not in bottle.text


def test_the_same_seed_gives_the_same_bytes(transcripts: ModuleType, tmp_path: Path) -> None:
    """And another one does not."""
    first, again, other = (tmp_path / name for name in ("first", "again", "other"))
    for path, seed in ((first, 1), (again, 1), (other, 2)):
        transcripts.make_transcript(path, 200_000, seed)

    assert first.read_bytes() == again.read_bytes() != other.read_bytes()


def test_every_recovery_step_gives_its_part_of_the_generated_orphans(tmp_path: Path) -> None:
    """The database is made by a process of its own, and asked through bottlepipe."""
    path = tmp_path / "claude-mem.db"
    made = subprocess.run(
        [sys.executable, str(BENCHMARKS / "database.py"), "500", str(path)], capture_output=True, text=True, check=True
    )
    asked = json.loads(made.stdout)

    for name in ("plain", "orphans"):
        found = bottlepipe.read_observations(path, asked[name]["id"])
        assert asked[name]["observations"] == found.height == 50


# The gate


def test_the_gate_trips_above_a_fifth_and_not_at_it(compare: Compare, tmp_path: Path) -> None:
    """Exactly 20 % more than the baseline passes, a hair more does not; it names what got slower."""
    results = tmp_path / "results.json"
    save(tmp_path / "baseline.json", render=2.5, read=1.0)
    save(results, render=3.0, read=1.0)
    at_the_edge = compare("--results", str(results))
    save(results, render=3.001, read=1.0)
    above = compare("--results", str(results))

    assert 0 == at_the_edge.returncode, at_the_edge.stderr
    assert 1 == above.returncode
    assert "worse than the baseline: render\n" in above.stderr


def test_what_is_too_small_to_measure_does_not_trip_the_gate(compare: Compare, tmp_path: Path) -> None:
    """A stage of a hundredth of the floor may double; not if that makes it a large one."""
    results = tmp_path / "results.json"
    save(tmp_path / "baseline.json", task=0.01, join=0.01)
    save(results, task=0.02, join=0.2)
    done = compare("--results", str(results))

    assert 1 == done.returncode
    assert "worse than the baseline: join\n" in done.stderr


def test_only_growth_that_is_more_than_linear_trips_the_gate(compare: Compare, tmp_path: Path) -> None:
    """A byte of a long text may cost half as much again, however cheap it was in the baseline."""
    results = tmp_path / "results.json"
    save(tmp_path / "baseline.json", **{"tag scanner, nested splices": 0.6, "tag scanner, unclosed tags": 0.6})
    save(results, **{"tag scanner, nested splices": 1.5, "tag scanner, unclosed tags": 2.0})
    done = compare("--results", str(results))

    assert 1 == done.returncode
    assert "worse than the baseline: tag scanner, unclosed tags\n" in done.stderr


def test_a_gate_that_compares_nothing_fails(compare: Compare, tmp_path: Path) -> None:
    """Neither a missing baseline nor one of other measures is a pass."""
    results = tmp_path / "results.json"
    save(results, render=2.5)

    assert 2 == compare("--results", str(results)).returncode
    save(tmp_path / "baseline.json", other=2.5)
    assert 2 == compare("--results", str(results)).returncode


@pytest.mark.parametrize(
    "name", ["read, 10 MB", "render, 100 MB", "one session, orphans", "start-up, --version", "peak memory, 10 MB"]
)
def test_a_baseline_that_cannot_be_right_is_refused(compare: Compare, tmp_path: Path, name: str) -> None:
    """What does the work of its floor and more cannot cost less: the old baseline stays, and one line says why."""
    baseline, results = tmp_path / "baseline.json", tmp_path / "results.json"
    save(baseline, render=2.5)
    before = baseline.read_bytes()
    save(results, **{"classify, 10 MB": 0.6, "tag scanner, unclosed tags": 0.9, name: 0.93})
    refused = compare("--results", str(results), "--update")
    after = baseline.read_bytes()
    save(results, **{"classify, 10 MB": 0.6, "tag scanner, unclosed tags": 0.9, name: 1.04})
    saved = compare("--results", str(results), "--update")

    assert 2 == refused.returncode
    assert f"not saved, less than the floor in it: {name}; measure again\n" == refused.stderr
    assert before == after
    assert 0 == saved.returncode, saved.stderr
    assert 1.04 == json.loads(baseline.read_bytes())["ratios"][name]


def test_the_saved_baseline_holds_everything_and_can_be_right(compare: Compare) -> None:
    """The one that the gate compares with unless told otherwise."""
    saved = BENCHMARKS / "baseline.json"
    done = compare("--results", str(saved), "--update")
    names = json.loads(saved.read_bytes())["ratios"]

    assert 0 == done.returncode, done.stderr
    assert {"render", "read", "one session", "tag scanner", "start-up", "peak memory"} <= {
        name.partition(",")[0] for name in names
    }


def test_a_render_that_really_got_slower_trips_the_gate(compare: Compare, tmp_path: Path) -> None:
    """Measured, not told: the same render passes, with several times the work in it it does not.

    Both distances are far beyond what a busy machine does to a ratio: the limit is at five times the baseline.
    """
    measure = ("--size", "1MB", "--rounds", "2", "--only", "render", "--folder", str(tmp_path / "files"))
    limit = ("--tolerance", "4")
    saved = compare(*measure, "--update")
    same = compare(*measure, *limit)
    slowed = compare(*measure, *limit, "--again", "0", "--burden", "200")

    assert 0 == saved.returncode, saved.stderr
    assert 0 == same.returncode, same.stdout + same.stderr
    assert 1 == slowed.returncode, slowed.stdout + slowed.stderr
    assert "worse than the baseline: render, 1 MB\n" in slowed.stderr


@pytest.mark.parametrize(
    ("part", "names"),
    [
        ("start-up", ["--version", "--help"]),
        ("peak memory", ["1 MB"]),
        ("one session", ["plain", "orphans"]),
    ],
)
def test_the_gate_measures_more_than_the_render(compare: Compare, tmp_path: Path, part: str, names: list[str]) -> None:
    """Start-up, peak memory and lookups: measured, and compared with a baseline that nobody could hold."""
    save(tmp_path / "baseline.json", **{f"{part}, {name}": 0.1 for name in names})
    done = compare(
        "--size", "1MB", "--rounds", "1", "--again", "0", "--only", part, "--folder", str(tmp_path / "files")
    )

    assert 1 == done.returncode, done.stderr
    assert f"worse than the baseline: {', '.join(f'{part}, {name}' for name in names)}\n" in done.stderr
