"""What is measured: bottlepipe's render, and the floors it stands beside. Run as a worker, in a process of its own.

    python benchmarks/engines.py transcript.jsonl render orjson --floor --rounds 5

runs the engines in turns and prints one line of JSON: per engine its answer and the CPU and wall seconds of every round,
imports aside; and the peak memory of the process in bytes. With `--floor`, decode-only runs directly before each of them,
and its CPU seconds stand there too. Every engine returns what it found in the file, so that who measures can check that it
did the work.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

Answer = dict[str, int]

_CHUNK = 1 << 20


def lines_of(path: Path) -> Iterator[memoryview]:
    """The lines of a file in one reused buffer, as `read` goes through it."""
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    start = filled = 0
    with open(path, "rb", buffering=0) as file:
        while True:
            if start:
                view[: filled - start] = view[start:filled]
                filled -= start
                start = 0
            if filled == len(buffer):
                longer = bytearray(2 * len(buffer))
                longer[:filled] = view[:filled]
                buffer, view = longer, memoryview(longer)
            got = file.readinto(view[filled:])
            if not got:
                return
            scanned, filled = filled, filled + got
            while (end := buffer.find(b"\n", scanned, filled)) >= 0:
                yield view[start:end]
                start = scanned = end + 1


def _each_line(path: Path, load: Callable[[bytes], Any]) -> Iterator[Any]:
    """What `load` makes of each line: the plain way to go through a file."""
    with open(path, "rb") as file:
        for line in file:
            yield load(line)


def decode(path: Path) -> Answer:
    """Decode-only: every line into the structs that `read` uses, and no more. The floor of everything."""
    import msgspec

    from bottlepipe.read import Entry

    decode_line = msgspec.json.Decoder(Entry).decode
    lines = 0
    for line in lines_of(path):
        decode_line(line)
        lines += 1
    return {"lines": lines}


def decode_iterated(path: Path) -> Answer:
    """Decode-only in the other way to go through a file: its own iterator, a new bytes object per line."""
    import msgspec

    from bottlepipe.read import Entry

    return {"lines": sum(1 for _ in _each_line(path, msgspec.json.Decoder(Entry).decode))}


def render(path: Path) -> Answer:
    """The whole: from the transcript to the text of the bottle, no database."""
    from datetime import UTC, datetime

    from bottlepipe.bottle import Bottle
    from bottlepipe.locate import ref_of_file
    from bottlepipe.pipeline import Options, render_sessions
    from bottlepipe.settings import Settings

    nowhere = Path("/nowhere")
    settings = Settings(home=nowhere, config_dir=nowhere, data_dir=nowhere, zone=UTC)
    (bottle,) = render_sessions([ref_of_file(path)], settings, Options(), datetime(2026, 12, 1, tzinfo=UTC))
    assert isinstance(bottle, Bottle), bottle
    return {
        "user_turns": bottle.user_turns,
        "assistant_messages": bottle.assistant_messages,
        "rewound_messages": bottle.left_out.get("messages on rewound branches", 0),
        "private_spans": bottle.left_out.get("private spans", 0),
        "bottle_bytes": len(bottle.data),
    }


def _count_texts(entries: Iterator[Any]) -> Answer:
    """Count string contents and text blocks of user and assistant messages, as plain readers find them."""
    lines = texts = text_bytes = 0
    for entry in entries:
        lines += 1
        if entry.get("type") not in ("user", "assistant"):
            continue
        content = entry["message"]["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block.get("type") == "text":
                texts += 1
                text_bytes += len(block["text"].encode())
    return {"lines": lines, "texts": texts, "text_bytes": text_bytes}


def with_json(path: Path) -> Answer:
    """Python's own json, line by line."""
    return _count_texts(_each_line(path, json.loads))


def with_orjson(path: Path) -> Answer:
    """orjson, line by line."""
    import orjson

    return _count_texts(_each_line(path, orjson.loads))


def with_ijson(path: Path) -> Answer:
    """ijson over the whole file as a row of values."""
    import ijson

    with open(path, "rb") as file:
        return _count_texts(ijson.items(file, "", multiple_values=True, use_float=True, buf_size=_CHUNK))


def with_polars(path: Path) -> Answer:
    """polars' NDJSON reader: type and message of every line. `content` has no one type, so it comes as JSON text."""
    import polars as pl

    rows = pl.read_ndjson(path, schema={"type": pl.String, "message": pl.Struct({"role": pl.String, "id": pl.String})})
    messages = rows.filter(pl.col("type").is_in(["user", "assistant"]))
    return {"lines": rows.height, "messages": messages.get_column("message").struct.field("role").count()}


def with_duckdb(path: Path) -> Answer:
    """DuckDB's NDJSON reader, one thread, no extension from the network: the texts are picked out in SQL."""
    import duckdb

    connection = duckdb.connect(
        config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "threads": "1"}
    )
    row = connection.execute(
        """
        WITH entries AS (
            SELECT type, message -> 'content' AS content
            FROM read_json(?, format = 'newline_delimited', columns = {type: 'VARCHAR', message: 'JSON'},
                           maximum_object_size = 67108864)
        ), texts AS (
            SELECT CASE WHEN json_type(content) = 'VARCHAR' THEN [content ->> '$'] ELSE content ->> '$[*].text' END AS found
            FROM entries WHERE type IN ('user', 'assistant')
        )
        SELECT (SELECT count(*) FROM entries), (SELECT sum(len(found)) FROM texts),
               (SELECT sum(list_sum([strlen(text) FOR text IN found])) FROM texts)
        """,
        [str(path)],
    ).fetchone()
    assert row is not None
    return {"lines": int(row[0]), "texts": int(row[1]), "text_bytes": int(row[2])}


ENGINES: dict[str, Callable[[Path], Answer]] = {
    "decode": decode,
    "decode, iterated": decode_iterated,
    "render": render,
    "json": with_json,
    "orjson": with_orjson,
    "ijson": with_ijson,
    "polars": with_polars,
    "duckdb": with_duckdb,
}
_MODULES = {
    "render": ("bottlepipe.pipeline",),
    "decode": ("bottlepipe.read",),
    "decode, iterated": ("bottlepipe.read",),
}


# What is measured, and how its result becomes an answer that can be checked.
Work = tuple[Callable[[], Any], Callable[[Any], Answer]]


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What the work returns, and the CPU and wall seconds it took, in all threads of this process."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    answer = work()
    return answer, time.process_time() - cpu, time.perf_counter() - wall


def measure_in_turns(
    works: Mapping[str, Work], rounds: int, floor: Callable[[], Any] | None = None
) -> dict[str, dict[str, Any]]:
    """Per work its answer, and the CPU and wall seconds of every round.

    The floor runs directly before each work, and its CPU seconds are kept with that work: seconds apart, a busy machine
    is another machine, and a ratio of two of its moments says nothing.
    """
    found: dict[str, dict[str, Any]] = {name: {"cpu": [], "wall": [], "floor": []} for name in works}
    for _ in range(rounds):
        for name, (work, answer) in works.items():
            about = found[name]
            if floor is not None:
                about["floor"].append(timed(floor)[1])
            result, cpu, wall = timed(work)
            about["answer"] = answer(result)
            about["cpu"].append(cpu)
            about["wall"].append(wall)
            # The next work must not pay for what this one left.
            del result
    return found


def peak_bytes() -> int:
    """The highest memory of this process so far. Linux tells it without what the process before exec had."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="Run engines on one file, in turns.")
    parser.add_argument("path", type=Path)
    parser.add_argument("engines", nargs="+", choices=sorted(ENGINES), metavar="engine", help=", ".join(ENGINES))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--floor", action="store_true", help="decode-only directly before each engine")
    choices = parser.parse_args()
    for name in [*choices.engines, *(["decode"] if choices.floor else [])]:
        for module in _MODULES.get(name, (name,)):
            __import__(module)
    path: Path = choices.path
    works: dict[str, Work] = {name: (partial(ENGINES[name], path), dict) for name in choices.engines}
    found = measure_in_turns(works, choices.rounds, partial(decode, path) if choices.floor else None)
    print(json.dumps({"works": found, "peak": peak_bytes()}))


if __name__ == "__main__":
    main()
