"""Each stage of a render by itself, on what the real pipeline gives it. Run as a worker, in a process of its own.

    python benchmarks/stages.py transcript.jsonl claude-mem.db --rounds 5

One whole render is recorded: which functions of which stage it calls, and with what. A stage is then these calls once
more. Only `read` and `classify`, which work hand in hand, are taken apart: `classify` gets decoded entries from memory.
Prints one line of JSON like `engines.py`, with the whole measured in the same turns, and decode-only directly before each.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import GeneratorType
from typing import Any

import msgspec
from engines import Answer, Work, decode, lines_of, measure_in_turns, peak_bytes, render

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
        self.first_prompt = _first_prompt(transcript)
        self.work: dict[str, Callable[[], Any]] = {
            stage: partial(self._replay, stage) for stage in self.calls if stage in STAGES
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
            # The pieces of the bottle, put together as the pipeline does it.
            results.append(b"".join(result) if isinstance(result, GeneratorType) else result)
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
        return write_bottle(path.parent, self.ref.bottle_id, [bottle.data], standing, 1_800_000_000_000).path

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
                return {"bottle_bytes": len(next(data for data in result if isinstance(data, bytes)))}
            case "write":
                return {"bottle_bytes": result.stat().st_size}
            case "memory":
                return {"observations": result[0].observations.height}
            case "task":
                # Words that it is cut to, not only words that it starts with.
                ((request, length),) = (
                    (found, arguments[2])
                    for found, (function, arguments, _) in zip(result, self.calls[stage], strict=True)
                    if function.__name__ == "original_request"
                )
                return {"is_first_prompt": int(request == self.first_prompt[:length])}
            case _:
                raise ValueError(stage)


def _spoken(rows: Any, key: str) -> int:
    return int(rows.filter(rows["speaker"].is_in(["user", "assistant"])).get_column(key).n_unique())


def _speakers(rows: Any) -> Answer:
    tally = Counter(rows.get_column("speaker").to_list())
    return {"user_turns": tally["user"], "assistant_messages": tally["assistant"]}


def _first_prompt(transcript: Path) -> str:
    """The first prompt of a generated transcript, found without bottlepipe."""
    with open(transcript, "rb") as file:
        entry = next(entry for entry in map(json.loads, file) if "promptSource" in entry)
    content = entry["message"]["content"]
    return str(content if isinstance(content, str) else content[0]["text"])


def _works(stages: Stages, burden: int) -> dict[str, Work]:
    def burdened_render() -> Answer:
        for _ in range(burden):
            decode(stages.transcript)
        return render(stages.transcript)

    def bottle_answer(bottle: Bottle) -> Answer:
        return {
            "user_turns": bottle.user_turns,
            "observations": bottle.observations,
            "bottle_bytes": len(bottle.data),
        }

    works: dict[str, Work] = {
        "decode": (partial(decode, stages.transcript), dict),
        "render": (burdened_render, dict),
        "render with database": (stages.render, bottle_answer),
    }
    return works | {name: (stages.work[name], partial(stages.answer, name)) for name in STAGES if name in stages.work}


def main() -> None:
    parser = argparse.ArgumentParser(description="Run every stage of a render by itself, in turns.")
    parser.add_argument("transcript", type=Path)
    parser.add_argument("database", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--burden", type=int, default=0, help="decode the file so many times more in every render")
    parser.add_argument("--only", default="", help="only this")
    choices = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bottlepipe-stages-") as folder:
        stages = Stages(choices.transcript, choices.database, Path(folder))
        works = {name: work for name, work in _works(stages, choices.burden).items() if choices.only in ("", name)}
        found = measure_in_turns(works, choices.rounds, partial(decode, choices.transcript))
    print(json.dumps({"works": found, "peak": peak_bytes()}))


if __name__ == "__main__":
    main()
