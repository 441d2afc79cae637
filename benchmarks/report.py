"""Measures everything and prints the tables of README.md as Markdown, each aim beside its figure.

    python benchmarks/report.py                                        everything: up to 1 GB and a million observations
    python benchmarks/report.py --part whole --part memory --size 10MB

All times are CPU seconds, user and system, in all threads; the least of several rounds taken in turns. `render` goes from
the transcript to the text of the bottle, imports aside. Everything that is measured checks its own answer.
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
from pathlib import Path

from compare import measure_stages
from measure import HERE, MB, Files, Missing, Process, Timing, check, run, work
from transcript import PERCENTILES, SHARES, parse_size, weigh

BUNDLED = HERE.parent / "src" / "bottlepipe" / "demo"
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
    from importlib.metadata import version

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
    rows.append(["longest", "1,603,574", *(f"{one.longest:,}" for one in weights)])
    table(["bytes of a line", "real", *map(of_size, sizes)], rows)


# The whole, and the floors


def node_process(path: Path, truth: dict[str, int], rounds: int) -> Process | str:
    """The plain Node script as a whole process, the least of several; or why it gave nothing."""
    if not shutil.which("node"):
        return "no node here"
    runs = [run(["node", HERE / "plain.js", path]) for _ in range(rounds)]
    failed = next((one for one in runs if one.code), None)
    if failed:
        word = next((word for word in failed.err.replace("'", " ").split() if word.startswith("ERR_")), "")
        return f"fails: {word or f'exit code {failed.code}'}"
    check("node", json.loads(runs[0].out), truth)
    return min(runs, key=lambda one: one.cpu)


def whole(files: Files, choices: argparse.Namespace) -> None:
    print("### Transcript to bottle, and its floors\n")
    ratios, per_byte, node_cpu, render_cpu = {}, {}, {}, {}
    for size in choices.size:
        path, truth = files.transcript(size)
        rounds = choices.rounds if size < 500 * MB else max(choices.rounds // 2, 2)
        rows = []
        for name in ("render", "decode, iterated", "json", "orjson", "ijson", "polars", "duckdb"):
            # Each in turns with decode-only, so that each ratio is of one moment.
            slow = name in ("json", "ijson", "polars", "duckdb")
            try:
                times = 2 if slow and size >= 500 * MB else rounds
                timings, _ = work("engines.py", path, "decode", name, "--rounds", str(times))
            except Missing as missing:
                rows.append([name, f"{missing}", "", "", ""])
                continue
            known = truth if name != "render" else {**truth, "bottle_bytes": timings[name].answer["bottle_bytes"]}
            check(name, timings[name].answer, known)
            check("decode", timings["decode"].answer, truth)
            if name == "render":
                rows.append(_row("decode-only", timings["decode"], timings["decode"], size))
                ratios[size] = timings[name].cpu / timings["decode"].cpu
                per_byte[size], render_cpu[size] = timings[name].cpu / truth["bytes"], timings[name].cpu
            rows.append(_row(name, timings[name], timings["decode"], size))
            floor = timings["decode"]
        counted = min((run(["wc", "-l", path]) for _ in range(rounds)), key=lambda one: one.cpu)
        check("wc", {"lines": int(counted.out.split()[0])}, truth)
        rows.append(_row("wc -l, whole process", counted, floor, size))
        plain = node_process(path, truth, 2 if size >= 500 * MB else rounds)
        if isinstance(plain, Process):
            node_cpu[size] = plain.cpu
            rows.append(_row("node, whole process", plain, floor, size))
        else:
            rows.append(["node, whole process", plain, "", "", ""])
        print(f"**{of_size(size)}**, {truth['lines']:,} lines, {truth['text_bytes'] / truth['bytes']:.1%} words\n")
        table(["", "CPU ms", "wall ms", "MB/s", "CPU over decode-only"], rows)
    if 100 * MB in ratios:
        aim("100 MB, render over decode-only", ratios[100 * MB], 2.5)
        if 100 * MB in node_cpu:
            aim("100 MB, Node's whole process over render", node_cpu[100 * MB] / render_cpu[100 * MB], 2, at_least=True)
        if 1000 * MB in per_byte:
            aim("1 GB, render's CPU per byte over that of 100 MB", per_byte[1000 * MB] / per_byte[100 * MB], 1.1)
    print()


def _row(name: str, found: Timing | Process, floor: Timing, size: int) -> list[str]:
    return [name, ms(found.cpu), ms(found.wall), f"{size / MB / found.cpu:,.0f}", f"{found.cpu / floor.cpu:.2f}"]


def stages(files: Files, choices: argparse.Namespace) -> None:
    print("### Stages\n")
    sizes = [size for size in choices.size if size < 500 * MB]
    found = {size: measure_stages(files, size, choices.rounds) for size in sizes}
    names = list(found[sizes[0]]) if sizes else []
    rows = []
    for name in names:
        row = [name]
        for size in sizes:
            timing, floor = found[size][name], found[size]["decode"]
            row += [ms(timing.cpu), ms(timing.wall), f"{timing.cpu / floor.cpu:.2f}"]
        rows.append(row)
    heads = [head for size in sizes for head in (f"{of_size(size)}: CPU ms", "wall ms", "over decode")]
    table(["", *heads], rows)
    print("DuckDB's extension is loaded once per process, and not counted here: the start-up table has it.\n")


# Memory


def memory(files: Files, choices: argparse.Namespace) -> None:
    print("### Peak memory, each in a process of its own\n")
    rows, peaks, bottles = [], {}, {}
    for size in choices.size:
        path, truth = files.transcript(size)
        timings, peak = work("engines.py", path, "render")
        _, floor = work("engines.py", path, "decode")
        bottle = timings["render"].answer["bottle_bytes"]
        check("render", timings["render"].answer, {**truth, "bottle_bytes": bottle})
        plain = node_process(path, truth, 1)
        peaks[size], bottles[size] = peak, bottle
        shown = mb(plain.peak) if isinstance(plain, Process) else plain
        rows.append([of_size(size), f"{bottle / MB:.1f}", mb(peak), mb(floor), shown])
    for emoji in (False, True):
        path, truth = files.long_prompt(_LINE_MB * MB, emoji)
        timings, peak = work("engines.py", path, "render")
        bottle = timings["render"].answer["bottle_bytes"]
        check("render", timings["render"].answer, {**truth, "bottle_bytes": bottle})
        _, floor = work("engines.py", path, "decode")
        plain = node_process(path, truth, 1)
        shown = mb(plain.peak) if isinstance(plain, Process) else plain
        name = f"one prompt of {_LINE_MB} MB{', an emoji in it' if emoji else ''}"
        rows.append([name, f"{bottle / MB:.1f}", mb(peak), mb(floor), shown])
        peaks[name] = peak
    table(["", "bottle MB", "render MB", "decode-only MB", "node MB"], rows)
    if 10 * MB in bottles and 1000 * MB in bottles:
        limit = (3 * bottles[1000 * MB]) / MB + 160
        aim("1 GB above 10 MB", (peaks[1000 * MB] - peaks[10 * MB]) / MB, round(limit), " MB")
    aim("one prompt of 50 MB", peaks[f"one prompt of {_LINE_MB} MB"] / MB, 400, " MB")
    print()


# The database


def lookups(files: Files, choices: argparse.Namespace) -> None:
    print("### One session out of a database\n")
    rows, most = [], {}
    for observations in choices.observations:
        path, asked = files.database(observations)
        for name in ("plain", "orphans"):
            session = asked[name]["id"]
            timings, _ = work("lookups.py", path, session)
            check(name, timings["read_memory"].answer, asked[name])
            floor, _ = work("lookups.py", path, session, "--sqlite")
            guessed, _ = work("lookups.py", path, session, "--guess", "--rounds", "3")
            check(name, guessed["read_memory"].answer, asked[name])
            found = timings["read_memory"]
            most[observations, name] = found.cpu
            rows.append(
                [
                    f"{observations:,}",
                    name,
                    ms(found.cpu),
                    ms(found.wall),
                    ms(guessed["read_memory"].cpu),
                    ms(timings["one bare query"].cpu),
                    ms(floor["sqlite3, one bare query"].cpu),
                ]
            )
    heads = ["observations", "session", "CPU ms", "wall ms", "guessing too", "one bare query", "same in sqlite3"]
    table(heads, rows)
    for name in ("plain", "orphans"):
        if (1_000_000, name) in most:
            aim(f"one session out of a million, {name}", 1000 * most[1_000_000, name], 10, " ms")
    print()


# The tag scanner


def tags(files: Files, choices: argparse.Namespace) -> None:
    print("### Tag scanner on hostile texts\n")
    sizes = (100_000, 1_000_000, 10_000_000)
    timings, _ = work("tags.py", *map(str, sizes), "--rounds", "3")
    rows, growth = [], []
    for kind in dict.fromkeys(name.rpartition(" ")[0] for name in timings):
        per_byte = []
        for size in sizes:
            found = timings[f"{kind} {size}"]
            check(f"{kind}, {size}", found.answer, {"is_right": 1})
            per_byte.append(found.cpu / size)
        growth.append(per_byte[2] / per_byte[1])
        rows.append([kind, *(f"{1e9 * value:,.0f}" for value in per_byte), f"{growth[-1]:.2f}"])
    table(["ns a byte", "0.1 MB", "1 MB", "10 MB", "10 MB over 1 MB"], rows)
    # Quadratic would be 10.
    aim("most growth per byte from 1 MB to 10 MB", max(growth), 2)
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
import sys
print("LOADED", *(name for name in {names!r} if name in sys.modules), file=sys.stderr)
"""


def startup(files: Files, choices: argparse.Namespace) -> None:
    print("### Start-up, whole processes\n")
    home = files.folder / "home"
    project = home / ".claude" / "projects" / "-home-ada-src-tidepool"
    project.mkdir(parents=True, exist_ok=True)
    (session,) = (path for path in BUNDLED.glob("*.jsonl"))
    shutil.copyfile(session, project / session.name)
    (home / ".claude-mem").mkdir(exist_ok=True)
    shutil.copyfile(BUNDLED / "claude-mem.db", home / ".claude-mem" / "claude-mem.db")
    environment = {**os.environ, "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude")}
    environment["CLAUDE_MEM_DATA_DIR"] = str(home / ".claude-mem")
    observation = "2101"
    commands = {
        "python -c pass": [],
        "bottlepipe --version": ["--version"],
        "bottlepipe --help": ["--help"],
        "bottlepipe list": ["list"],
        f"bottlepipe show {observation}": ["show", observation],
        "bottlepipe render": ["render", session.stem],
        "bottlepipe demo": ["demo"],
    }
    runs: dict[str, list[Process]] = {name: [] for name in commands}
    for _ in range(choices.rounds):
        for name, arguments in commands.items():
            start = [sys.executable, "-m", "bottlepipe", *arguments] if arguments else [sys.executable, "-c", "pass"]
            runs[name].append(run(start, environment))
    rows = []
    for name, arguments in commands.items():
        if wrong := next((one for one in runs[name] if one.code), None):
            raise RuntimeError(f"{name}: {wrong.err}")
        loaded = ""
        if arguments:
            done = run([sys.executable, "-c", _LOADED.format(names=LIBRARIES), *arguments], environment)
            loaded = done.err.rpartition("LOADED")[2].strip().replace(" ", ", ")
        cpu, wall = min(one.cpu for one in runs[name]), min(one.wall for one in runs[name])
        rows.append([f"`{name}`", ms(cpu), ms(wall), loaded or "none"])
    table(["", "CPU ms", "wall ms", f"loads, of {', '.join(LIBRARIES)}"], rows)


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
