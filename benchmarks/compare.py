"""The gate: measures, compares with the saved baseline, and exits with 1 when anything got more than 20 % worse.

    python benchmarks/compare.py             measures on 10 MB and 100 MB, and compares
    python benchmarks/compare.py --update    … and saves what was measured as the new baseline

The baseline holds ratios only: a thing over a floor that is measured directly before it, again and again, the least of both.

    stage or render, SIZE    CPU over that of decode-only
    one session, KIND        CPU of reading it out of a database over that of one bare query
    tag scanner, TEXT        CPU per byte of 10 MB over that of 1 MB: how much it grows
    start-up, OPTION         CPU of the process over that of a bare interpreter
    peak memory, SIZE        of a process that renders over that of one that only decodes

A baseline is the least of several processes, and what seems worse is measured in two more before it counts. Some ratios are
finer than a busy machine can tell and are never worse: see `_finest`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from measure import HERE, MB, Files, Timing, check, work
from startup import Home
from transcript import parse_size

BASELINE = HERE / "baseline.json"
OBSERVATIONS = 10_000
TAG_SIZES = (MB, 10 * MB)
_SHORT = 50 * MB
# Threads of Polars that find nothing to do spin, and how long depends on the cores and on what else runs there.
_ONE_THREAD = {**os.environ, "POLARS_MAX_THREADS": "1"}
# A thing and its floor: seconds or bytes, the least of several.
_Pair = tuple[float, float]
_Part = Callable[[], dict[str, _Pair]]
# What does not do the work of its floor too, and so may cost less.
_LESS_THAN_FLOOR = (*"classify branch number align redact join task layout write memory".split(), "tag scanner")


def stages_part(files: Files, size: int, choices: argparse.Namespace) -> dict[str, _Pair]:
    """The whole and every stage on a transcript of `size` bytes, over decode-only."""
    timings = measure_stages(
        files, size, choices.rounds, "--only", choices.only, "--burden", str(choices.burden), environment=_ONE_THREAD
    )
    return {
        f"{name}, {size / MB:g} MB": (found.cpu, found.floor) for name, found in timings.items() if name != "decode"
    }


def rounds_for(size: int, rounds: int) -> int:
    """A short work needs more tries to meet a moment in which nothing else runs."""
    return rounds if size > _SHORT else 4 * rounds


def measure_stages(
    files: Files, size: int, rounds: int, *options: str, environment: Mapping[str, str] | None = None
) -> dict[str, Timing]:
    """The whole and every stage on one transcript, decode-only directly before each, their answers checked."""
    transcript, truth = files.transcript(size)
    database, truths = files.database(OBSERVATIONS, transcript)
    times = str(rounds_for(size, rounds))
    timings, _ = work("stages.py", transcript, database, "--rounds", times, *options, environment=environment)
    check_stages(timings, truth, truths["transcript"]["observations"])
    return timings


def check_stages(timings: dict[str, Timing], truth: dict[str, int], observations: int) -> None:
    """Raise WrongAnswer unless every stage found what the generators put in."""
    spoken = truth["user_turns"] + truth["assistant_messages"] + truth["rewound_messages"]
    truth = {**truth, "spoken": spoken, "is_first_prompt": 1, "observations": observations}
    if whole := timings.get("render with database"):
        # The other stages must come to the same bottle. An observation on a rewound branch is left out of it.
        truth["bottle_bytes"] = whole.answer["bottle_bytes"]
        check("observations", {"is_near": int(whole.answer["observations"] > 0.9 * observations)}, {"is_near": 1})
    for name, timing in timings.items():
        left = {"render": "bottle_bytes", "render with database": "observations"}.get(name)
        check(name, {key: number for key, number in timing.answer.items() if key != left}, truth)


def lookups_part(files: Files, choices: argparse.Namespace) -> dict[str, _Pair]:
    """One session out of a database, over one bare query."""
    database, truths = files.database(OBSERVATIONS)
    pairs = {}
    for name in ("plain", "orphans"):
        timings = measure_lookup(database, truths, name, 6 * choices.rounds)
        found = timings["read_memory"]
        pairs[f"one session, {name}"] = (found.cpu, found.floor)
    return pairs


def measure_lookup(
    database: Path, truths: Mapping[str, Mapping[str, Any]], name: str, rounds: int, *options: str
) -> dict[str, Timing]:
    """Reading the session `name` and the floors beside it, their answers checked."""
    plain = truths["plain"]
    timings, _ = work("lookups.py", database, truths[name]["id"], plain["id"], "--rounds", str(rounds), *options)
    for work_name, found in timings.items():
        check(f"{work_name}, {name}", found.answer, truths[name] if work_name == "read_memory" else plain)
    return timings


def tags_part(choices: argparse.Namespace) -> dict[str, _Pair]:
    """What a byte costs the tag scanner in a long hostile text, over a shorter one of the same kind."""
    short, long = TAG_SIZES
    timings, _ = work("tags.py", str(long), "--floor", str(short), "--rounds", str(max(choices.rounds // 3, 1)))
    pairs = {}
    for name, found in timings.items():
        check(name, found.answer, {"is_right": 1})
        pairs[f"tag scanner, {name.rpartition(' ')[0]}"] = (found.cpu / long, found.floor / short)
    return pairs


def startup_part(files: Files, choices: argparse.Namespace) -> dict[str, _Pair]:
    """The two commands that answer without loading anything, over a bare interpreter."""
    found = Home(files.folder / "home").measure(["--version", "--help"], 3 * choices.rounds)
    return {
        f"start-up, {name}": (min(one.cpu for one in runs), min(one.cpu for one in floors))
        for name, (runs, floors) in found.items()
    }


def memory_part(files: Files, size: int) -> dict[str, _Pair]:
    """The peak of a process that renders once, over one that only decodes."""
    path, truth = files.transcript(size)
    timings, peak = work("engines.py", path, "render")
    check("render", {**timings["render"].answer, "bottle_bytes": 0}, {**truth, "bottle_bytes": 0})
    timings, floor = work("engines.py", path, "decode")
    check("decode", timings["decode"].answer, truth)
    return {f"peak memory, {size / MB:g} MB": (peak, floor)}


def parts(files: Files, choices: argparse.Namespace) -> list[_Part]:
    """What is to be measured. Each gives names with their pairs, out of processes of its own."""
    sizes = choices.size or (10 * MB, 100 * MB)
    others: dict[str, list[_Part]] = {
        "one session": [partial(lookups_part, files, choices)],
        "tag scanner": [partial(tags_part, choices)],
        "start-up": [partial(startup_part, files, choices)],
        "peak memory": [partial(memory_part, files, size) for size in sizes],
    }
    if choices.only in others:
        return others[choices.only]
    stages: list[_Part] = [partial(stages_part, files, size, choices) for size in sizes]
    return stages if choices.only else [*stages, *(part for several in others.values() for part in several)]


def _finest(name: str) -> float:
    """Below this ratio nothing is worse.

    A stage of a twentieth of the floor is part of the whole anyway. A scanner whose cost per byte grows by half is still
    linear, in a text that no cache holds; a quadratic one would grow tenfold.
    """
    return 1.6 if name.startswith("tag scanner") else 0.05


def worse(measured: Mapping[str, float], baseline: Mapping[str, float], tolerance: float) -> Iterator[str]:
    """Yield the names that got more than `tolerance` worse."""
    for name, before in baseline.items():
        if name in measured and measured[name] > max(before, _finest(name)) * (1 + tolerance):
            yield name


def impossible(measured: Mapping[str, float]) -> Iterator[str]:
    """Yield the names that cost less than the floor although they do its work too: the floor was disturbed."""
    for name, ratio in measured.items():
        if ratio < 1 and name.partition(",")[0] not in _LESS_THAN_FLOOR:
            yield name


def _table(measured: Mapping[str, float], baseline: Mapping[str, float], bad: list[str]) -> str:
    lines = [f"{'':29} {'baseline':>9} {'now':>9}"]
    for name, ratio in measured.items():
        before = baseline.get(name)
        change = f"{100 * (ratio / before - 1):+7.0f} %" if before else "    new"
        lines.append(
            f"{name:29} {'-' if before is None else f'{before:.3f}':>9} {ratio:9.3f} {change}"
            f"{'   WORSE' if name in bad else ''}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=parse_size, action="append", help="transcript; 10MB and 100MB if none is named")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--again", type=int, default=2, help="processes more for a baseline, or for what seems worse")
    parser.add_argument("--tolerance", type=float, default=0.2)
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    parser.add_argument("--update", action="store_true", help="save what is measured as the baseline")
    parser.add_argument("--results", type=Path, help="compare the ratios in this file; measure nothing")
    parser.add_argument("--only", default="", help="only this: what stands before the comma in the table")
    parser.add_argument("--burden", type=int, default=0, help="make every render decode its file so many times more")
    parser.add_argument(
        "--folder", type=Path, help="keep the files that are measured here, and use those that are there"
    )
    choices = parser.parse_args()
    baseline: dict[str, float] = {}
    if not choices.update:
        if not choices.baseline.exists():
            print(f"no baseline at {choices.baseline}; --update makes one", file=sys.stderr)
            return 2
        baseline = json.loads(choices.baseline.read_text(encoding="utf-8"))["ratios"]
    if choices.results:
        measured: dict[str, float] = json.loads(choices.results.read_text(encoding="utf-8"))["ratios"]
    else:
        with tempfile.TemporaryDirectory(prefix="bottlepipe-compare-") as temporary:
            measured = measure(Files(choices.folder or Path(temporary)), choices, baseline)
    bad = list(worse(measured, baseline, choices.tolerance))
    print(_table(measured, baseline, bad))
    if choices.update and measured:
        if wrong := list(impossible(measured)):
            print(f"not saved, less than the floor in it: {', '.join(wrong)}; measure again", file=sys.stderr)
            return 2
        choices.baseline.write_text(json.dumps({"ratios": measured}, indent=2) + "\n", encoding="utf-8")
        return 0
    if not measured.keys() & baseline.keys():
        print("nothing was measured that the baseline has", file=sys.stderr)
        return 2
    if bad:
        print(f"more than {choices.tolerance:.0%} worse than the baseline: {', '.join(bad)}", file=sys.stderr)
    return 1 if bad else 0


def measure(files: Files, choices: argparse.Namespace, baseline: Mapping[str, float]) -> dict[str, float]:
    """The ratio of everything, each part measured once and again while it seems worse; for a baseline more than once.

    A baseline that cannot be right is measured as often again, in the hope that the machine comes to rest.
    """
    measured: dict[str, float] = {}
    most = choices.again * (2 if choices.update else 1)
    for part in parts(files, choices):
        least: dict[str, _Pair] = {}
        for done in range(most + 1):
            for name, (value, floor) in part().items():
                before = least.get(name, (value, floor))
                least[name] = (min(before[0], value), min(before[1], floor))
            ratios = {name: round(value / floor, 4) for name, (value, floor) in least.items()}
            bad = list(impossible(ratios) if choices.update else worse(ratios, baseline, choices.tolerance))
            if done == most or (not bad and (done >= choices.again or not choices.update)):
                break
            if bad:
                print(f"measuring again: {', '.join(bad)}", file=sys.stderr)
        measured |= ratios
    return measured


if __name__ == "__main__":
    sys.exit(main())
