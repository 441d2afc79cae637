"""The whole render beside a floor measured in the same run: decoding the same file with the same structs and no more.

Run with `python -m pytest benchmarks`. What travels between machines is the ratio, which the last test prints.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from transcript import SESSION, make_transcript

from bottlepipe.bottle import Bottle
from bottlepipe.locate import ref_of_file
from bottlepipe.pipeline import Options, render_sessions
from bottlepipe.read import Entry
from bottlepipe.settings import Settings

SIZE = 10_000_000
NOW = datetime(2026, 1, 2, tzinfo=UTC)
SETTINGS = Settings(home=Path("/nowhere"), config_dir=Path("/nowhere"), data_dir=Path("/nowhere"), zone=UTC)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    path = tmp_path_factory.mktemp("benchmark") / f"{SESSION}.jsonl"
    return path, make_transcript(path, SIZE)


def decode_only(path: Path) -> int:
    decode = msgspec.json.Decoder(Entry).decode
    count = 0
    with open(path, "rb") as file:
        for line in file:
            decode(line)
            count += 1
    return count


def render(path: Path) -> Bottle:
    (bottle,) = render_sessions([ref_of_file(path)], SETTINGS, Options(), NOW)
    assert isinstance(bottle, Bottle)
    return bottle


def test_floor_decode_only(benchmark: Any, session: tuple[Path, dict[str, int]]) -> None:
    """Read and decode every line, nothing more."""
    path, _ = session
    lines = benchmark.pedantic(decode_only, args=(path,), rounds=7, warmup_rounds=1)

    assert path.read_bytes().count(b"\n") == lines


def test_whole_render(benchmark: Any, session: tuple[Path, dict[str, int]]) -> None:
    """From the transcript to the text of the bottle, imports aside."""
    path, counts = session
    bottle = benchmark.pedantic(render, args=(path,), rounds=7, warmup_rounds=1)

    assert counts == {"user_turns": bottle.user_turns, "assistant_messages": bottle.assistant_messages}


def test_ratio(session: tuple[Path, dict[str, int]], capsys: pytest.CaptureFixture[str]) -> None:
    """CPU of the render over CPU of the floor, taken in turns, the minimum of each."""
    path, _ = session
    floor, whole = [], []
    for _ in range(7):
        floor.append(cpu(decode_only, path))
        whole.append(cpu(render, path))
    with capsys.disabled():
        print(
            f"\n{path.stat().st_size / 1e6:.1f} MB: decode {min(floor) * 1000:.0f} ms, render {min(whole) * 1000:.0f} ms CPU",
            end="",
        )
        print(f", render/decode {min(whole) / min(floor):.2f}")

    assert min(whole) > 0


def cpu(work: Callable[[Path], object], path: Path) -> float:
    started = time.process_time()
    work(path)
    return time.process_time() - started
