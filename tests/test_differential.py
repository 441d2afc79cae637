"""A second, plain reader agrees with the pipeline: on real transcripts, on those of the tree, and on invented ones.

Invented sessions (see invented.py) come from seeds, the same in every ordinary run. More of them, and one alone:

    pytest tests/test_differential.py --differential 5000
    pytest tests/test_differential.py --differential-seed 17

and the transcripts that the benchmarks are measured on, larger than in an ordinary run:

    pytest tests/test_differential.py --differential-size 100MB
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bottle_parser import parse_bottle
from conftest import ROOT
from invented import invent
from plain_reader import bottle_blocks, publish, read_transcript
from transcripts import CASES, read_case

import bottlepipe


def difference(path: Path) -> str:
    """Where the two readers first differ on a transcript; "" where they agree."""
    reading = read_transcript(path)
    try:
        bottle = bottlepipe.render(path, use_database=False)
    except bottlepipe.NothingToRender:
        words = [one for one in reading.said if one.speaker != "notice"]
        return f"nothing to render, but {words[0]}" if words else ""
    counts = {name: bottle.left_out.get(name, 0) for name in ("rewound branches", "repeated entries")}
    counts["torn lines"] = sum(bottle.left_out.get(name, 0) for name in ("torn lines", "unfinished last lines"))
    left_out = {
        "rewound branches": reading.rewound,
        "repeated entries": reading.repeated,
        "torn lines": reading.torn,
    }
    blocks = [(block.speaker, block.text, block.time) for block in parse_bottle(bottle.text).blocks]
    return (
        _first_difference("raw", _rows(reading.said), _frame_rows(path, raw=True))
        or _first_difference("redacted", _rows(publish(reading.said)), _frame_rows(path, raw=False))
        or _first_difference("bottle", bottle_blocks(reading), blocks)
        or _first_difference("left out", sorted(left_out.items()), sorted(counts.items()))
    )


def _rows(said: list[Any]) -> list[Any]:
    return [(one.speaker, one.kind, one.text, one.at_ms, one.branch) for one in said]


def _frame_rows(path: Path, *, raw: bool) -> list[Any]:
    messages = bottlepipe.read_messages(path, raw=raw)
    rows = messages.select("speaker", "kind", "text", "at_ms", "branch").rows()
    # Whether a command is Claude Code's own is no matter of whose words it is.
    return [(speaker, kind.removeprefix("local_"), *others) for speaker, kind, *others in rows]


def _first_difference(what: str, plain: list[Any], product: list[Any]) -> str:
    if plain == product:
        return ""
    at = next(n for n in range(len(plain) + 1) if plain[n : n + 1] != product[n : n + 1])
    return f"{what}, {at}: plain {plain[at : at + 3]!r}, product {product[at : at + 3]!r}"


def test_the_plain_reader_agrees_on_every_real_transcript(corpus: Path) -> None:
    """Captured and collected sessions of many versions: the same words by the same people, in the same order."""
    paths = [path for path in sorted(corpus.rglob("*.jsonl")) if path.name not in ("hooks.jsonl", "journal.jsonl")]
    assert len(paths) > 100

    assert {} == {str(path.relative_to(corpus)): found for path in paths if (found := difference(path))}


def test_the_plain_reader_agrees_on_every_transcript_of_the_tree(tmp_path: Path) -> None:
    """The fixtures, the demo, the golden sessions, and the case files of whose words are whose and of rewinds."""
    paths = [
        path for folder in ("fixtures", "src", "tests/golden") for path in sorted((ROOT / folder).rglob("*.jsonl"))
    ]
    assert len(paths) > 10
    for case in [path for stage in ("classify", "branch") for path in sorted((CASES / stage).glob("*.toml"))]:
        path = tmp_path / f"{case.parent.name}-{case.stem}.jsonl"
        path.write_bytes(read_case(case)[1])
        paths.append(path)

    assert {} == {path.name: found for path in paths if (found := difference(path))}


def test_the_plain_reader_agrees_on_invented_sessions(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Every kind of entry in any order and damage; a seed that differs is named with where it does."""
    alone = pytestconfig.getoption("--differential-seed")
    seeds = range(pytestconfig.getoption("--differential")) if alone is None else [alone]
    path = tmp_path / "session.jsonl"
    differing = {}
    for seed in seeds:
        path.write_bytes(invent(seed))
        if found := difference(path):
            differing[seed] = found
            print(f"seed {seed}: {found}")
    print(f"{len(seeds)} invented sessions, {len(differing)} differ")

    assert {} == differing


def test_the_plain_reader_agrees_on_a_transcript_of_the_benchmarks(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """One that weighs what a real one weighs, with compactions, rewinds, queued prompts and images."""
    path = tmp_path / "session.jsonl"
    size = pytestconfig.getoption("--differential-size")
    command = [sys.executable, str(ROOT / "benchmarks" / "transcript.py"), size, str(path)]
    truth = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert all(truth.values()), f"not everything is in it: {truth}"

    assert "" == difference(path)
