"""What is measured: bottlepipe's render, and the floors it stands beside. Run as a worker, in a process of its own.

    python benchmarks/engines.py transcript.jsonl decode render --rounds 5

runs the engines in turns and prints one line of JSON: per engine its answer and the CPU and wall seconds of every round,
imports aside; and the peak memory of the process in bytes. Every engine returns what it found in the file, so that who
measures can check that it did the work.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
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

    decode_line = msgspec.json.Decoder(Entry).decode
    lines = 0
    with open(path, "rb") as file:
        for line in file:
            decode_line(line)
            lines += 1
    return {"lines": lines}


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
        "bottle_bytes": _utf8_length(bottle.text),
    }


def _utf8_length(text: str) -> int:
    """Without a copy of the text, which would count as memory of the render."""
    return sum(len(text[at : at + _CHUNK].encode()) for at in range(0, len(text), _CHUNK))


class _Texts:
    """Counts string contents and text blocks of user and assistant messages, as plain readers find them."""

    def __init__(self) -> None:
        self.lines = self.texts = self.text_bytes = 0

    def add(self, entry: Any) -> None:
        self.lines += 1
        if entry.get("type") not in ("user", "assistant"):
            return
        content = entry["message"]["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block.get("type") == "text":
                self.texts += 1
                self.text_bytes += len(block["text"].encode())

    def answer(self) -> Answer:
        return {"lines": self.lines, "texts": self.texts, "text_bytes": self.text_bytes}


def with_json(path: Path) -> Answer:
    """Python's own json, line by line."""
    found = _Texts()
    with open(path, "rb") as file:
        for line in file:
            found.add(json.loads(line))
    return found.answer()


def with_orjson(path: Path) -> Answer:
    """orjson, line by line."""
    import orjson

    found = _Texts()
    with open(path, "rb") as file:
        for line in file:
            found.add(orjson.loads(line))
    return found.answer()


def with_ijson(path: Path) -> Answer:
    """ijson over the whole file as a row of values."""
    import ijson

    found = _Texts()
    with open(path, "rb") as file:
        for entry in ijson.items(file, "", multiple_values=True, use_float=True, buf_size=_CHUNK):
            found.add(entry)
    return found.answer()


def with_polars(path: Path) -> Answer:
    """polars' NDJSON reader: type and message of every line. `content` has no one type, so it comes as JSON text."""
    import polars as pl

    rows = pl.read_ndjson(path, schema={"type": pl.String, "message": pl.Struct({"role": pl.String, "id": pl.String})})
    messages = rows.filter(pl.col("type").is_in(["user", "assistant"]))
    return {"lines": rows.height, "messages": messages.get_column("message").struct.field("role").is_not_null().sum()}


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


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What the work returns, and the CPU and wall seconds it took, in all threads of this process."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    answer = work()
    return answer, time.process_time() - cpu, time.perf_counter() - wall


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
    choices = parser.parse_args()
    for name in choices.engines:
        for module in _MODULES.get(name, (name,)):
            __import__(module)
    imported = peak_bytes()
    found: dict[str, dict[str, Any]] = {name: {"cpu": [], "wall": []} for name in choices.engines}
    for _ in range(choices.rounds):
        for name, about in found.items():
            engine = ENGINES[name]
            about["answer"], cpu, wall = timed(lambda engine=engine: engine(choices.path))
            about["cpu"].append(cpu)
            about["wall"].append(wall)
    print(json.dumps({"engines": found, "imported": imported, "peak": peak_bytes()}))


if __name__ == "__main__":
    main()
