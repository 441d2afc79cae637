"""A coverage-guided run over the parts that meet raw input first: `read`, `tags` and the bottle parser.

    pip install '.[fuzz]' && python tests/fuzz_guided.py tags -max_total_time=3600 CORPUS_FOLDER

The arguments behind the target are libFuzzer's. What fails is written beside, as crash-<digest>, and comes again with

    python tests/fuzz_guided.py tags crash-<digest>
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from fuzz_sources import Sources
from mutated_transcripts import mutate_transcript
from mutated_values import decode_entry, encode, mutate_json

TESTS = Path(__file__).parent


def _instrumented() -> contextlib.AbstractContextManager[None]:
    """Coverage comes from rewritten bytecode: the modules must be imported under it, and only in a guided run."""
    if __name__ != "__main__":
        return contextlib.nullcontext()
    import atheris

    return atheris.instrument_imports(include=["bottlepipe", "bottle_parser"])  # type: ignore[no-any-return]


with _instrumented():
    import bottle_parser
    import polars as pl

    from bottlepipe.classify import classify_entries
    from bottlepipe.frames import TIMELINE, frame
    from bottlepipe.header import MODE_FULL, Header
    from bottlepipe.layout import escape, render_bottle
    from bottlepipe.read import Entry, Skipped, read_entries
    from bottlepipe.redact import public
    from bottlepipe.tags import LOOSE_NAMES, STRICT_NAMES, open_strict_tags, strip_tags

NOW = datetime(2026, 1, 2, tzinfo=UTC)
_NAMES = sorted(STRICT_NAMES | LOOSE_NAMES)
# One byte is one token: whole tags and their pieces are found much sooner than letter by letter.
_TOKENS = [
    *(f"<{name}>" for name in _NAMES),
    *(f"</{name}>" for name in _NAMES),
    *"<private/>|<PRIVATE x='<>'>|</private|<private|< private |<priv|</priv|ate>|private>|<system-|reminder>|<|>|/|</".split("|"),
    *(" ", "\n", "\n\n", "\\", "`", "``", "```", "\n```\n", "\n~~~\n", "~~~", "a", "é", "\x00", "\u2028", "=", "'", "-", "_"),
    *("**User**", "**Assistant** (10:32)\n", "*What happened:*\n", "> Session summary (generated", "*[bottlepipe] x*", "---\n"),
    *("\r", "\v", "\f", "\x85", "\u2029", "- [#1] x\n", "# Session bottle — ", "## Original request\n", "\ud800", "(--:--)\n"),
]  # fmt: skip


def _soup(data: bytes) -> str:
    return "".join(_TOKENS[byte] if byte < len(_TOKENS) else chr(byte) for byte in data)


def read(data: bytes) -> pl.DataFrame:
    """Any bytes: entries and counts, nothing raised; no record on a clean line of its own is lost. Gives the messages."""
    found = list(_read(data))
    entries = sum(isinstance(entry, Entry) for entry in found)
    classified = classify_entries(_read(data), "s")
    assert classified.skipped.total() == len(found) - entries
    assert all(text.strip() for text in classified.messages.get_column("text"))
    opening = data.lstrip(b"\xef\xbb\xbf\x00 \t\r\n")
    if not opening.startswith((b"[", b"{\n", b"{ ", b"{\t", b"{\r")):
        # Otherwise it may be read as one document.
        assert sum(map(_is_record, data.split(b"\n"))) <= entries
    return classified.messages


def _read(data: bytes) -> Iterator[Entry | Skipped]:
    return read_entries(io.BytesIO(data), len(data))


def _is_record(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def tags(data: bytes) -> None:
    """A soup of tags: stable, only removing, linear, and what a slow rewriter gives."""
    from test_tags import rewrite

    text = _soup(data)
    for keep_code in (False, True):
        stripped = strip_tags(text, keep_code=keep_code)
        assert strip_tags(stripped.text, keep_code=keep_code).text == stripped.text
        rest = iter(text)
        assert all(character in rest for character in stripped.text)
    stored = strip_tags(text, is_stored=True).text
    assert strip_tags(stored, is_stored=True).text == stored
    if len(text) <= 150:
        assert rewrite(text) == strip_tags(text).text
    # What is cut off behind open tags stays as hidden as it was.
    at = len(text) // 2
    hidden = f"{text[:at]}> <private> {text[at:]}"
    head, tail = hidden[: at + 12], f"SECRET{hidden[at + 12 :]}"
    if "SECRET" not in strip_tags(f"{head}{tail}").text:
        assert "SECRET" not in strip_tags(f"{open_strict_tags(head)}{tail}").text
    if data.startswith(b"\xfe\xff\xfe"):
        # libFuzzer's time limit is the judge.
        long = text * (30_000 // len(text))
        strip_tags(long)
        strip_tags(long, keep_code=True)


def bottle(data: bytes) -> None:
    """Any messages come back from a bottle as they went in; and any text is parsed or refused with a word."""
    text = _soup(data)
    escaped = escape(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")
    assert bottle_parser.unescape(escaped) == text
    texts = [part for part in public(text).split("\x1d") if part]
    speakers = ["user", "assistant"]
    rows = [("s", n, 0, speakers[n % 2], "prompt", part, None, None) for n, part in enumerate(texts)]
    timeline: pl.DataFrame = frame(rows, TIMELINE)
    header = Header("s", public(text)[:50], None, NOW, MODE_FULL, [("contents", public(text)[:100])])
    pieces = render_bottle(header, timeline, texts[0] if texts else "", UTC)
    parsed = bottle_parser.parse_bottle(b"".join(pieces).decode())
    assert parsed.messages == [(row[3], row[5]) for row in rows]
    assert parsed.request == (texts[0] if texts else "")[:4000] or len(texts[0]) > 4000
    for start in ("", "# Session bottle — s\nproject: p\nmode: full\n\n---\n"):
        with contextlib.suppress(AssertionError):
            bottle_parser.parse_bottle(start + text)


TARGETS: dict[str, Callable[[bytes], object]] = {"read": read, "tags": tags, "bottle": bottle}


def seeds(name: str) -> list[bytes]:
    """Where a run begins."""
    if name == "read":
        sources = Sources(TESTS / "nowhere")
        cases = [mutate_transcript(seed, sources).data for seed in range(1, 40)]
        return [data for data in cases if len(data) < 20_000]
    rng = random.Random(name)
    return [bytes(rng.choices(range(len(_TOKENS)), k=length)) for length in (0, 1, 3, 8, 20, 60)]


def _mutate_read(data: bytes, max_size: int, seed: int) -> bytes:
    """Half of the time a change of JSON structure, else libFuzzer's own."""
    import atheris

    rng = random.Random(seed)
    lines = data.split(b"\n")
    index = rng.randrange(len(lines))
    decoded = decode_entry(lines[index])
    if decoded is None or rng.random() < 0.5:
        return bytes(atheris.Mutate(data, max_size))
    changed = encode(mutate_json(decoded, rng), ascii_only=rng.random() < 0.5)
    lines[index] = changed.encode("utf-8", "replace")
    return b"\n".join(lines)[:max_size]


def main() -> None:
    import atheris

    name, *arguments = sys.argv[1:]
    folders = [
        Path(argument) for argument in arguments if not argument.startswith("-") and not Path(argument).is_file()
    ]
    for folder in folders[:1]:
        folder.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds(name)):
            (folder / f"seed-{number}").write_bytes(seed)
    options = {"custom_mutator": _mutate_read} if name == "read" else {}
    atheris.Setup([sys.argv[0], *arguments], TARGETS[name], **options)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
