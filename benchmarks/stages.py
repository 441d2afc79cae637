"""Each stage of a render by itself, on what the real pipeline gives it. Run as a worker, in a process of its own.

    python benchmarks/stages.py transcript.jsonl claude-mem.db --rounds 5

One whole render is recorded: which functions of which stage it calls, and with what. A stage is then these calls once
more. Only `read` and `classify`, which work hand in hand, are taken apart: `classify` gets decoded entries from memory.
Prints one line of JSON like `engines.py`, with the floor and the whole measured in the same turns.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import GeneratorType
from typing import Any

import msgspec
from engines import Answer, decode, lines_of, peak_bytes, render, timed

from bottlepipe import pipeline
from bottlepipe.bottle import Bottle
from bottlepipe.classify import classify_entries
from bottlepipe.locate import SessionRef, ref_of_file
from bottlepipe.read import Entry, open_transcript, read_entries
from bottlepipe.settings import Settings
from bottlepipe.write import Standing, write_bottle

# Module of a function → stage; `number` is two, since only one of them needs a database.
_MODULES = ("branch", "number", "redact", "join", "task", "layout", "memory")
_ALIGNING = ("align_prompts", "insert_stored", "place_rows")
STAGES = ("read", "classify", "branch", "number", "align", "redact", "join", "task", "layout", "write", "memory")
NOW = datetime(2026, 12, 1, tzinfo=UTC)
_Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Stages:
    """The stages of one render, ready to be run again. `work[stage]()` does its work, `answer[stage]` reads the result."""

    def __init__(self, transcript: Path, database: Path, folder: Path) -> None:
        self.transcript, self.database, self.folder = transcript, database, folder
        self.ref: SessionRef = ref_of_file(transcript)
        self.calls: dict[str, list[_Call]] = {}
        self.bottle = self._record()
        self.entries = self._decoded()
        self.work: dict[str, Callable[[], Any]] = {
            stage: (lambda stage=stage: self._replay(stage)) for stage in self.calls if stage in STAGES
        }
        self.work |= {"read": self._read, "classify": self._classify, "write": self._write}

    def render(self) -> Bottle:
        """The whole, with the database."""
        settings = Settings(home=self.folder, config_dir=self.folder, data_dir=self.folder, zone=UTC)
        options = pipeline.Options(database=self.database)
        (bottle,) = pipeline.render_sessions([self.ref], settings, options, NOW)
        assert isinstance(bottle, Bottle), bottle
        return bottle

    def _record(self) -> Bottle:
        originals = {}
        for name, function in list(vars(pipeline).items()):
            module = getattr(function, "__module__", "")
            stage = module.removeprefix("bottlepipe.")
            if callable(function) and not isinstance(function, type) and stage in _MODULES:
                originals[name] = function
                setattr(pipeline, name, self._recorder("align" if name in _ALIGNING else stage, function))
        try:
            return self.render()
        finally:
            for name, function in originals.items():
                setattr(pipeline, name, function)

    def _recorder(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def record(*arguments: Any, **named: Any) -> Any:
            self.calls.setdefault(stage, []).append((function, arguments, named))
            return function(*arguments, **named)

        return record

    def _replay(self, stage: str) -> list[Any]:
        results = []
        for function, arguments, named in self.calls[stage]:
            result = function(*arguments, **named)
            results.append("".join(result) if isinstance(result, GeneratorType) else result)
        return results

    def _decoded(self) -> list[Entry]:
        # From bytes of their own: what an entry leaves undecoded looks into its line.
        decode_line = msgspec.json.Decoder(Entry).decode
        return [decode_line(bytes(line)) for line in lines_of(self.transcript)]

    def _read(self) -> int:
        with open_transcript(self.transcript) as file:
            return sum(1 for _ in read_entries(file, self.transcript.stat().st_size))

    def _classify(self) -> Any:
        return classify_entries(self.entries, self.ref.bottle_id)

    def _write(self) -> Path:
        # Each time a new bottle: replacing would read the old one, and keep it.
        path = self.folder / "bottles" / f"{self.ref.bottle_id}.md"
        path.unlink(missing_ok=True)
        bottle = self.bottle
        standing = Standing(
            bottle.mode, bottle.user_turns, bottle.source_bytes, bottle.assistant_messages, bottle.observations
        )
        return write_bottle(path.parent, self.ref.bottle_id, [bottle.text], standing, 1_800_000_000_000).path

    def answer(self, stage: str, result: Any) -> Answer:
        """What a stage found, in the words of the generator's truth."""
        match stage:
            case "read":
                return {"lines": result}
            case "classify":
                return {"spoken": _spoken(result.messages, "message_id")}
            case "branch":
                rows = next(frame for frame in result if hasattr(frame, "columns") and "text" in frame.columns)
                return {"rewound_messages": _spoken(rows.filter(rows["branch"] != 0), "message_id")}
            case "number":
                return {"spoken": _spoken(result[-1], "message")}
            case "align":
                placed = next(frame for frame in result if "observation_id" in getattr(frame, "columns", ()))
                return {"observations": placed.get_column("turn").drop_nulls().len()}
            case "redact":
                rows = next(frame for frame in result if "public_text" in getattr(frame, "columns", ()))
                return _speakers(rows)
            case "join":
                return _speakers(result[0])
            case "layout":
                return {"bottle_bytes": len(next(text for text in result if isinstance(text, str)).encode())}
            case "write":
                return {"bottle_bytes": result.stat().st_size}
            case "memory":
                return {"observations": result[0].observations.height}
            case _:
                return {"found": int(any(bool(one) for one in result if isinstance(one, str)))}


def _spoken(rows: Any, key: str) -> int:
    return int(rows.filter(rows["speaker"].is_in(["user", "assistant"])).get_column(key).n_unique())


def _speakers(rows: Any) -> Answer:
    tally = Counter(rows.get_column("speaker").to_list())
    return {"user_turns": tally["user"], "assistant_messages": tally["assistant"]}


def _works(
    stages: Stages, transcript: Path, burden: int
) -> Iterator[tuple[str, Callable[[], Any], Callable[[Any], Answer]]]:
    def burdened_render() -> Answer:
        for _ in range(burden):
            decode(transcript)
        return render(transcript)

    yield "decode", lambda: decode(transcript), lambda answer: answer
    yield "render", burdened_render, lambda answer: answer
    yield (
        "render with database",
        stages.render,
        lambda b: {"user_turns": b.user_turns, "observations": b.observations, "bottle_bytes": len(b.text.encode())},
    )
    for stage in STAGES:
        if stage in stages.work:
            yield stage, stages.work[stage], lambda result, stage=stage: stages.answer(stage, result)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run every stage of a render by itself, in turns.")
    parser.add_argument("transcript", type=Path)
    parser.add_argument("database", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--burden", type=int, default=0, help="decode the file so many times more in every render")
    parser.add_argument("--only", default="", help="beside decode-only, only this")
    choices = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bottlepipe-stages-") as folder:
        stages = Stages(choices.transcript, choices.database, Path(folder))
        works = [
            one
            for one in _works(stages, choices.transcript, choices.burden)
            if choices.only in ("", one[0]) or one[0] == "decode"
        ]
        found: dict[str, dict[str, Any]] = {name: {"cpu": [], "wall": []} for name, _, _ in works}
        for _ in range(choices.rounds):
            for name, work, answer in works:
                result, cpu, wall = timed(work)
                found[name]["answer"] = answer(result)
                found[name]["cpu"].append(cpu)
                found[name]["wall"].append(wall)
                del result
    print(json.dumps({"engines": found, "peak": peak_bytes()}))


if __name__ == "__main__":
    main()
