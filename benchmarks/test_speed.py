"""Every engine, stage, lookup and hostile text under pytest-benchmark, each checking its own answer.

    python -m pytest benchmarks                    10 MB
    python -m pytest benchmarks --size 100MB -k stage

Times are of the CPU, those of whole processes wall time. The ratios that count, taken in turns and in processes of their
own, are in `compare.py` and `report.py`.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from compare import check_stages
from engines import ENGINES
from measure import HERE, Timing, check, run
from stages import STAGES, Stages
from tags import KINDS, SHOWN, make_text

from bottlepipe.memory import read_memory
from bottlepipe.tags import strip_tags

Session = tuple[Path, dict[str, int]]
Database = tuple[Path, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def stages(session: Session, database: Database, tmp_path_factory: pytest.TempPathFactory) -> Stages:
    return Stages(session[0], database[0], tmp_path_factory.mktemp("stages"))


@pytest.mark.benchmark(group="whole", timer=time.process_time)
@pytest.mark.parametrize("name", ENGINES)
def test_engine(benchmark: Any, session: Session, name: str) -> None:
    """The render and the floors beside it, from a file on disk."""
    if name in ("orjson", "ijson", "polars", "duckdb"):
        pytest.importorskip(name)
    path, truth = session
    answer = benchmark.pedantic(ENGINES[name], args=(path,), rounds=5, warmup_rounds=1)

    check(name, {key: found for key, found in answer.items() if key != "bottle_bytes"}, truth)


@pytest.mark.benchmark(group="whole processes")
@pytest.mark.parametrize("command", [["wc", "-l"], ["node", str(HERE / "plain.js")]], ids=["wc -l", "node"])
def test_process(benchmark: Any, session: Session, command: list[str]) -> None:
    """What needs no Python at all."""
    if not shutil.which(command[0]):
        pytest.skip(f"no {command[0]} here")
    path, truth = session
    done = benchmark.pedantic(run, args=([*command, path],), rounds=5, warmup_rounds=1)

    if "ERR_STRING_TOO_LONG" in done.err:
        pytest.skip("node fails: ERR_STRING_TOO_LONG")
    assert done.code == 0, done.err
    check(command[0], {"lines": int(done.out.split()[0])} if command[0] == "wc" else json.loads(done.out), truth)


@pytest.mark.benchmark(group="stages", timer=time.process_time)
@pytest.mark.parametrize("name", STAGES)
def test_stage(benchmark: Any, stages: Stages, session: Session, database: Database, name: str) -> None:
    """One stage on what the real pipeline gives it."""
    result = benchmark.pedantic(stages.work[name], rounds=5, warmup_rounds=1)

    bottle = stages.bottle
    whole = {"bottle_bytes": len(bottle.data), "observations": bottle.observations}
    found = {name: stages.answer(name, result), "render with database": whole}
    timings = {name: Timing(0, 0, answer) for name, answer in found.items()}
    check_stages(timings, session[1], database[1]["transcript"]["observations"])


@pytest.mark.benchmark(group="one session out of a database", timer=time.process_time)
@pytest.mark.parametrize("name", ["plain", "orphans"])
def test_lookup(benchmark: Any, database: Database, name: str) -> None:
    """The extension is loaded in the warm-up round."""
    path, truths = database
    found = benchmark.pedantic(read_memory, args=(path, [truths[name]["id"]]), rounds=20, warmup_rounds=1)

    assert truths[name]["observations"] == found.observations.height


@pytest.mark.benchmark(group="tag scanner, 1 MB", timer=time.process_time)
@pytest.mark.parametrize("kind", KINDS)
def test_tags(benchmark: Any, kind: str) -> None:
    """Texts that are built to make it slow."""
    text = make_text(kind, 1_000_000)
    stripped = benchmark.pedantic(strip_tags, args=(text,), rounds=3)

    assert SHOWN == stripped.text
