"""Measures everything and prints the tables of README.md as Markdown, each aim beside its figure.

    python benchmarks/report.py                                        everything: up to 1 GB and a million observations
    python benchmarks/report.py --part whole --part memory --size 10MB

All times are CPU seconds, user and system, in all threads; the least of several rounds taken in turns, the floor of a ratio
directly before what stands over it. `render` goes from the transcript to the text of the bottle, imports aside. Everything
that is measured checks its own answer.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from compare import TAG_SIZES, measure_lookup, measure_stages, rounds_for
from measure import HERE, MB, Files, Missing, Process, Timing, check, run, work
from startup import FLOOR, Home
from transcript import LONGEST, PERCENTILES, SHARES, parse_size, weigh

LIBRARIES = ("polars", "duckdb", "rich", "typer", "msgspec", "ijson")
_LINE_MB = 50


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print("| " + " | ".join(heads) + " |")
    print("|" + "|".join("---" if at == 0 else "--:" for at in range(len(heads))) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def aim(what: str, figure: float, limit: float, unit: str = "", *, at_least: bool = False) -> None:
    """One line: the figure, what it should be, and whether it is."""
    is_reached = figure >= limit if at_least else figure <= limit
    word = "at least" if at_least else "at most"
    print(
        f"* {what}: **{figure:.2f}{unit}**, aim {word} {limit:g}{unit}: {'reached' if is_reached else '**not reached**'}"
    )


def ms(seconds: float) -> str:
    return f"{1000 * seconds:,.1f}" if seconds < 0.1 else f"{1000 * seconds:,.0f}"


def mb(size: float) -> str:
    return f"{size / MB:,.0f}"


def of_size(size: int) -> str:
    return f"{size / MB:g} MB" if size < 1000 * MB else f"{size / MB / 1000:g} GB"


def machine() -> None:
    cpu = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = next(line.partition(": ")[2] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    node = run(["node", "--version"]).out.strip() if shutil.which("node") else "none"
    versions = ", ".join(f"{name} {version(name)}" for name in ("msgspec", "polars", "duckdb"))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(
        f"{cpu}, {os.cpu_count()} cores, {platform.system()}; Python {platform.python_version()}, {versions}, Node {node}."
    )
    print(f"Load average when it began: {load}.\n")


def weight(files: Files, choices: argparse.Namespace) -> None:
    """What is measured on, beside what it should be like."""
    print("### The transcripts\n")
    sizes = [size for size in choices.size if size < 500 * MB]
    weights = [weigh(files.transcript(size)[0]) for size in sizes]
    rows = [[name, f"{share:.2f}", *(f"{one.shares[name]:.2f}" for one in weights)] for name, share in SHARES.items()]
    table(["percent of the bytes", "real", *map(of_size, sizes)], rows)
    rows = [
        [f"p{at}", f"{size:,}", *(f"{one.percentiles[at]:,}" for one in weights)] for at, size in PERCENTILES.items()
    ]
    rows.append(["longest", f"{LONGEST:,}", *(f"{one.longest:,}" for one in weights)])
    table(["bytes of a line", "real", *map(of_size, sizes)], rows)


# The whole, and the floors

_ENGINES = ("decode, iterated", "json", "orjson", "ijson", "polars", "duckdb")
_PLAIN_NODE = ("node", str(HERE / "plain.js"))


@dataclass(frozen=True, slots=True)
class Floor:
    """What something else takes for the same file, CPU and wall, and over decode-only directly before it; or why not."""

    name: str
    cpu: float = 0
    wall: float = 0
    ratio: float = 0
    problem: str = ""


@cache
def measure_render(files: Files, size: int, rounds: int) -> dict[str, Timing]:
    """Decode-only and the render, decode-only before each."""
    path, truth = files.transcript(size)
    timings, _ = work("engines.py", path, "decode", "render", "--floor", "--rounds", str(rounds_for(size, rounds)))
    check("decode", timings["decode"].answer, truth)
    _check_render(timings["render"], truth)
    return timings


def _check_render(found: Timing, truth: dict[str, int]) -> None:
    check("render", {key: number for key, number in found.answer.items() if key != "bottle_bytes"}, truth)


@cache
def measure_floors(files: Files, size: int, rounds: int) -> list[Floor]:
    """Everything that the render and its stages stand beside, once per run of the report."""
    path, truth = files.transcript(size)
    floors = []
    for name in _ENGINES:
        try:
            timings, _ = work("engines.py", path, name, "--floor", "--rounds", str(rounds_for(size, rounds)))
        except Missing as missing:
            floors.append(Floor(name, problem=f"{missing}"))
            continue
        found = timings[name]
        check(name, found.answer, truth)
        floors.append(Floor(name, found.cpu, found.wall, found.ratio))
    floors.append(_process_floor("wc -l", ("wc", "-l"), path, truth, rounds))
    floors.append(_process_floor("node", _PLAIN_NODE, path, truth, rounds))
    return floors


def _process_floor(name: str, command: Sequence[str], path: Path, truth: dict[str, int], rounds: int) -> Floor:
    """A whole process, in turns with processes that decode."""
    runs, decoded = [], []
    for _ in range(rounds):
        timings, _ = work("engines.py", path, "decode", "--rounds", "2")
        decoded.append(timings["decode"].cpu)
        done = run_plain(command, path, truth)
        if isinstance(done, str):
            return Floor(name, problem=done)
        runs.append(done)
    cpu = min(one.cpu for one in runs)
    return Floor(name, cpu, min(one.wall for one in runs), cpu / min(decoded))


def run_plain(command: Sequence[str], path: Path, truth: dict[str, int]) -> Process | str:
    """A program that is not Python's on a transcript, its answer checked; or why it gave nothing."""
    if not shutil.which(command[0]):
        return f"no {command[0]} here"
    done = run([*command, path])
    if done.code:
        word = next((word for word in done.err.replace("'", " ").split() if word.startswith("ERR_")), "")
        return f"fails: {word or f'exit code {done.code}'}"
    check(command[0], json.loads(done.out) if command[0] == "node" else {"lines": int(done.out.split()[0])}, truth)
    return done


def whole(files: Files, choices: argparse.Namespace) -> None:
    print("### Transcript to bottle, and its floors\n")
    for size in choices.size:
        _, truth = files.transcript(size)
        rows = [
            _row(name, found.cpu, found.wall, found.ratio, size)
            for name, found in measure_render(files, size, choices.rounds).items()
        ]
        for floor in measure_floors(files, size, choices.rounds):
            row = _row(floor.name, floor.cpu, floor.wall, floor.ratio, size) if not floor.problem else None
            rows.append(row or [floor.name, floor.problem, "", "", ""])
        print(f"**{of_size(size)}**, {truth['lines']:,} lines, {truth['text_bytes'] / truth['bytes']:.1%} words\n")
        table(["", "CPU ms", "wall ms", "MB/s", "CPU over decode-only"], rows)
    print("`wc -l` and node are whole processes. Decode-only over itself shows what is noise.\n")
    if 100 * MB in choices.size:
        render = measure_render(files, 100 * MB, choices.rounds)["render"]
        aim("100 MB, render over decode-only", render.ratio, 2.5)
        node = next(one for one in measure_floors(files, 100 * MB, choices.rounds) if one.name == "node")
        if not node.problem:
            aim("100 MB, Node's whole process over render", node.ratio / render.ratio, 2, at_least=True)
        if 1000 * MB in choices.size:
            aim("1 GB, render's CPU per byte over that of 100 MB, in turns", growth(files, choices.rounds), 1.1)
    print()


def growth(files: Files, rounds: int) -> float:
    """CPU per byte of a render of 1 GB over that of 100 MB. In turns: minutes apart, the machine is another one."""
    per_byte: dict[int, list[float]] = {100 * MB: [], 1000 * MB: []}
    for _ in range(rounds):
        for size, found in per_byte.items():
            path, truth = files.transcript(size)
            # The first render of a process also pays for what only the first one does, which weighs more in a short one.
            timings, _ = work("engines.py", path, "render", "--rounds", "2")
            _check_render(timings["render"], truth)
            found.append(timings["render"].cpu / truth["bytes"])
    return min(per_byte[1000 * MB]) / min(per_byte[100 * MB])


def _shown(name: str) -> str:
    return "decode-only" if name == "decode" else name


def _row(name: str, cpu: float, wall: float, ratio: float, size: int) -> list[str]:
    return [_shown(name), ms(cpu), ms(wall), f"{size / MB / cpu:,.0f}", f"{ratio:.2f}"]


def stages(files: Files, choices: argparse.Namespace) -> None:
    print("### Stages, over every floor\n")
    for size in (size for size in choices.size if size < 500 * MB):
        floors = [one for one in measure_floors(files, size, choices.rounds) if not one.problem]
        rows = [
            [
                _shown(name),
                ms(found.cpu),
                ms(found.wall),
                f"{found.ratio:.2f}",
                *(f"{found.ratio / one.ratio:.2f}" for one in floors),
            ]
            for name, found in measure_stages(files, size, choices.rounds).items()
        ]
        print(f"**{of_size(size)}**\n")
        table(["", "CPU ms", "wall ms", "over decode-only", *(one.name for one in floors)], rows)
    print("Over the other floors: what a stage takes over decode-only, by what that floor takes over decode-only.")
    print("DuckDB's extension is loaded once per process, and not counted here: the start-up table has it.\n")


# Memory


def memory(files: Files, choices: argparse.Namespace) -> None:
    print("### Peak memory, each in a process of its own\n")
    files_of: dict[str, tuple[Path, dict[str, int]]] = {of_size(size): files.transcript(size) for size in choices.size}
    prompts = {f"one prompt of {_LINE_MB} MB{', an emoji in it' * emoji}": emoji for emoji in (False, True)}
    files_of |= {name: files.long_prompt(_LINE_MB * MB, emoji) for name, emoji in prompts.items()}
    home, written = Home(files.folder / "home"), files.folder / "bottle.md"
    rows, peaks, bottles = [], {}, {}
    for name, (path, truth) in files_of.items():
        timings, peaks[name] = work("engines.py", path, "render")
        _check_render(timings["render"], truth)
        bottles[name] = timings["render"].answer["bottle_bytes"]
        decoded, floor = work("engines.py", path, "decode")
        check("decode", decoded["decode"].answer, truth)
        line: list[str | Path] = [sys.executable, "-m", "bottlepipe", "render", path, "--no-db", "-o", written]
        command = run(line, home.environment)
        # The same bottle, but for the zone of its times.
        same = {"is_bottle": int(abs(written.stat().st_size - bottles[name]) < 1000)}
        check(f"bottlepipe render: {command.err}", same, {"is_bottle": 1})
        written.unlink()
        plain = run_plain(_PLAIN_NODE, path, truth)
        shown = plain if isinstance(plain, str) else mb(plain.peak)
        rows.append([name, f"{bottles[name] / MB:.1f}", mb(peaks[name]), mb(command.peak), mb(floor), shown])
    table(["", "bottle MB", "render MB", "`bottlepipe render -o` MB", "decode-only MB", "node MB"], rows)
    if {"10 MB", "1 GB"} <= bottles.keys():
        limit = 3 * bottles["1 GB"] / MB + 160
        aim("1 GB above 10 MB", (peaks["1 GB"] - peaks["10 MB"]) / MB, round(limit), " MB")
    for name in prompts:
        aim(name, peaks[name] / MB, 400, " MB")
    print()


# The database


def lookups(files: Files, choices: argparse.Namespace) -> None:
    print("### One session out of a database\n")
    rows, most = [], dict[str, float]()
    for observations in choices.observations:
        path, truths = files.database(observations)
        for name in ("plain", "orphans"):
            timings = measure_lookup(path, truths, name, 4 * choices.rounds)
            guessing = measure_lookup(path, truths, name, choices.rounds, "--guess")
            python = measure_lookup(path, truths, name, 4 * choices.rounds, "--sqlite")
            found, guessed = timings["read_memory"], guessing["read_memory"]
            if observations == 1_000_000:
                most |= {name: found.cpu, f"{name}, guessing too": guessed.cpu}
            rows.append(
                [
                    f"{observations:,}",
                    name,
                    ms(found.cpu),
                    ms(found.wall),
                    ms(found.floor),
                    f"{found.ratio:.2f}",
                    ms(guessed.cpu),
                    *(ms(one.cpu) for one in python.values()),
                ]
            )
    heads = ["CPU ms", "wall ms", "one bare query", "over that", "guessing too", "bare query in sqlite3"]
    table(["observations", "session", *heads], rows)
    for name, cpu in sorted(most.items()):
        aim(f"one session out of a million, {name}", 1000 * cpu, 10, " ms")
    print()


# The tag scanner


def tags(files: Files, choices: argparse.Namespace) -> None:
    print("### Tag scanner on hostile texts\n")
    short, long = TAG_SIZES
    sizes = (short // 10, short, long)
    timings, _ = work("tags.py", *map(str, sizes), "--floor", str(short), "--rounds", "3")
    rows, growths = [], []
    for kind in dict.fromkeys(name.rpartition(" ")[0] for name in timings):
        several = [timings[f"{kind} {size}"] for size in sizes]
        for found in several:
            check(kind, found.answer, {"is_right": 1})
        growths.append(several[-1].ratio * short / long)
        costs = (found.cpu / size for found, size in zip(several, sizes, strict=True))
        rows.append([kind, *(f"{1e9 * cost:,.0f}" for cost in costs), f"{growths[-1]:.2f}"])
    table(["ns a byte", *map(of_size, sizes), f"{of_size(long)} over {of_size(short)}"], rows)
    # Quadratic would be 10.
    aim(f"most growth per byte from {of_size(short)} to {of_size(long)}", max(growths), 2)
    print()


# Start-up

_LOADED = """
import sys
from bottlepipe.__main__ import main
sys.argv = ["bottlepipe", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
print("LOADED", *(name for name in {names!r} if name in sys.modules), file=sys.stderr)
"""


def startup(files: Files, choices: argparse.Namespace) -> None:
    print("### Start-up, whole processes\n")
    home = Home(files.folder / "home")
    measured = home.measure(list(home.commands), choices.rounds)
    bare = [floor for _, floors in measured.values() for floor in floors]
    rows = [[f"`{FLOOR}`", ms(min(one.cpu for one in bare)), ms(min(one.wall for one in bare)), "1.00", "none"]]
    for name, (runs, floors) in measured.items():
        script = _LOADED.format(names=LIBRARIES)
        done = run([sys.executable, "-c", script, *home.commands[name].arguments], home.environment)
        loaded = done.err.rpartition("LOADED")[2].strip().replace(" ", ", ")
        cpu = min(one.cpu for one in runs)
        ratio = cpu / min(one.cpu for one in floors)
        rows.append(
            [f"`bottlepipe {name}`", ms(cpu), ms(min(one.wall for one in runs)), f"{ratio:.1f}", loaded or "none"]
        )
    table(["", "CPU ms", "wall ms", "over the bare interpreter", f"loads, of {', '.join(LIBRARIES)}"], rows)


PARTS: dict[str, Callable[[Files, argparse.Namespace], None]] = {
    "weight": weight,
    "whole": whole,
    "stages": stages,
    "memory": memory,
    "lookups": lookups,
    "tags": tags,
    "startup": startup,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--part", action="append", choices=PARTS, help="only these tables")
    parser.add_argument(
        "--size", type=parse_size, action="append", help="transcripts; 10MB, 100MB and 1GB if none is named"
    )
    parser.add_argument(
        "--observations", type=int, action="append", help="databases; 1,000 to 1,000,000 if none is named"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--folder", type=Path, help="keep the files that are measured here, and use those that are there"
    )
    choices = parser.parse_args()
    choices.size = choices.size or [10 * MB, 100 * MB, 1000 * MB]
    choices.observations = choices.observations or [1_000, 10_000, 100_000, 1_000_000]
    with tempfile.TemporaryDirectory(prefix="bottlepipe-report-") as temporary:
        files = Files(choices.folder or Path(temporary))
        machine()
        for part in choices.part or PARTS:
            PARTS[part](files, choices)


if __name__ == "__main__":
    main()
