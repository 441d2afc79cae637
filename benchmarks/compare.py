"""The gate: measures, compares with the saved baseline, and exits with 1 when anything got more than 20 % slower.

    python benchmarks/compare.py             measures 10 MB and 100 MB, and compares
    python benchmarks/compare.py --update    … and saves what was measured as the new baseline

The baseline holds ratios only: CPU of a thing over CPU of the floor that was measured in turns with it, the least of
several rounds each. For a transcript the floor is decode-only, for a database one bare query. What seems slower is
measured twice more before it counts. What costs less than a twentieth of the floor is not compared by itself: that is
finer than a busy machine can tell, and it is part of the whole.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from measure import HERE, MB, Files, Timing, check, least, work
from transcript import parse_size

BASELINE = HERE / "baseline.json"
OBSERVATIONS = 10_000
FINEST = 0.05
# The floor itself, and what has a floor of its own below.
_NOT_COMPARED = ("decode", "memory")


@dataclass(slots=True)
class Measured:
    """What was measured so far: per name the least timing of it and of its floor."""

    timings: dict[str, tuple[Timing, Timing]]

    def add(self, name: str, timing: Timing, floor: Timing) -> None:
        before = self.timings.get(name)
        self.timings[name] = (least([before[0], timing]), least([before[1], floor])) if before else (timing, floor)

    def ratios(self) -> dict[str, float]:
        return {name: round(timing.cpu / floor.cpu, 4) for name, (timing, floor) in self.timings.items()}


def measure_size(files: Files, size: int, choices: argparse.Namespace, measured: Measured) -> None:
    """Measure the whole and every stage on a transcript of `size` bytes, beside decode-only."""
    timings = measure_stages(files, size, choices.rounds, choices.only, choices.burden)
    for name, timing in timings.items():
        if name not in _NOT_COMPARED:
            measured.add(f"{name}, {size / MB:g} MB", timing, timings["decode"])


def measure_stages(files: Files, size: int, rounds: int, only: str = "", burden: int = 0) -> dict[str, Timing]:
    """The floor, the whole and every stage on one transcript, their answers checked."""
    transcript, truth = files.transcript(size)
    database, asked = files.database(OBSERVATIONS, transcript)
    choices = ("--rounds", str(rounds), "--only", only, "--burden", str(burden))
    timings, _ = work("stages.py", transcript, database, *choices)
    check_stages(timings, truth, asked["transcript"]["observations"])
    return timings


def check_stages(timings: dict[str, Timing], truth: dict[str, int], observations: int) -> None:
    """Raise WrongAnswer unless every stage found what the generators put in."""
    spoken = truth["user_turns"] + truth["assistant_messages"] + truth["rewound_messages"]
    known = {**truth, "spoken": spoken, "found": 1, "observations": observations}
    if whole := timings.get("render with database"):
        # The other stages must come to the same bottle. An observation on a rewound branch is left out of it.
        known["bottle_bytes"] = whole.answer["bottle_bytes"]
        check("observations", {"is_near": int(whole.answer["observations"] > 0.9 * observations)}, {"is_near": 1})
    for name, timing in timings.items():
        left = {"render": "bottle_bytes", "render with database": "observations"}.get(name)
        check(name, {key: number for key, number in timing.answer.items() if key != left}, known)


def measure_lookup(files: Files, rounds: int, measured: Measured) -> None:
    """Measure one session out of a database, beside one bare query."""
    database, asked = files.database(OBSERVATIONS)
    for name in ("plain", "orphans"):
        timings, _ = work("lookups.py", database, asked[name]["id"], "--rounds", str(3 * rounds))
        check(name, timings["read_memory"].answer, asked[name])
        measured.add(f"one session, {name}", timings["read_memory"], timings["one bare query"])


def slower(measured: dict[str, float], baseline: dict[str, float], tolerance: float) -> Iterator[str]:
    """Yield the names that got more than `tolerance` slower."""
    for name, before in baseline.items():
        if name in measured and measured[name] > max(before, FINEST) * (1 + tolerance):
            yield name


def _table(measured: dict[str, float], baseline: dict[str, float], bad: list[str]) -> str:
    lines = [f"{'':28} {'baseline':>9} {'now':>9}"]
    for name, ratio in measured.items():
        before = baseline.get(name)
        change = f"{100 * (ratio / before - 1):+7.0f} %" if before else "    new"
        lines.append(
            f"{name:28} {'-' if before is None else f'{before:.3f}':>9} {ratio:9.3f} {change}"
            f"{'   SLOWER' if name in bad else ''}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=parse_size, action="append", help="transcript; 10MB and 100MB if none is named")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--again", type=int, default=2, help="how often what seems slower is measured again")
    parser.add_argument("--tolerance", type=float, default=0.2)
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    parser.add_argument("--update", action="store_true", help="save what is measured as the baseline")
    parser.add_argument("--results", type=Path, help="compare the ratios in this file; measure nothing")
    parser.add_argument("--only", default="", help="only this stage, or only `render`")
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
    with tempfile.TemporaryDirectory(prefix="bottlepipe-compare-") as temporary:
        files = Files(choices.folder or Path(temporary))
        found = Measured({})
        for left in range(choices.again, -1, -1):
            if choices.results:
                measured = json.loads(choices.results.read_text(encoding="utf-8"))["ratios"]
            else:
                for size in choices.size or (10 * MB, 100 * MB):
                    measure_size(files, size, choices, found)
                if not choices.only:
                    measure_lookup(files, choices.rounds, found)
                measured = found.ratios()
            measured = {name: ratio for name, ratio in measured.items() if choices.only in ("", name.partition(",")[0])}
            bad = list(slower(measured, baseline, choices.tolerance))
            if not bad or not left or choices.results:
                break
            print(f"measuring again: {', '.join(bad)}", file=sys.stderr)
    print(_table(measured, baseline, bad))
    if choices.update:
        text = json.dumps({"ratios": measured}, indent=2) + "\n"
        choices.baseline.write_text(text, encoding="utf-8")
        return 0
    if not measured.keys() & baseline.keys():
        print("nothing that was measured is in the baseline", file=sys.stderr)
        return 2
    if bad:
        print(f"more than {choices.tolerance:.0%} slower than the baseline: {', '.join(bad)}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
