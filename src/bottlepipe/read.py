"""Stage 1, `read`: a transcript file in, decoded entries and counted `Skipped` lines out.

The decision this stage owns: is this line whole? A transcript is appended to while it is read, may hold torn lines in
the middle (two records on one line, a cut record before a whole one, runs of NUL), and is sometimes not line-delimited
at all. Nothing here judges what an entry means.

Memory: one line at a time in a reused buffer. `msgspec.Raw` fields alias that buffer, so an `Entry` is valid until the
next one is asked for.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import msgspec

from bottlepipe.errors import NothingToRender, SourceUnreadable

T = TypeVar("T")
_CHUNK = 1 << 20
_MAX_DEPTH = 500
_DEEP_COST = 10_000
# What a Raw field holds that its record does not have: this very object.
NO_RAW = msgspec.Raw(b"")

# A cut record can only be followed by a record that starts as Claude Code writes one.
_RECORD_START = re.compile(
    r'\{\s*"(?:parentUuid|type|isSidechain|uuid|sessionId|timestamp|message|summary|leafUuid|cwd|logicalParentUuid)"\s*:'
)
_PRETTY_START = re.compile(rb'\s*\{[ \t]*\r?\n\s*"')
_SURROGATE = re.compile("[\ud800-\udfff]")
# JSON escapes, from left to right; the groups are a surrogate pair and half a one.
_ESCAPES = re.compile(
    r"\\(?:(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(u[dD][89a-fA-F][0-9a-fA-F]{2})|[^\\]|\\)",
    re.DOTALL,
)
# An escape, or half a surrogate pair, that a chunk may end in.
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?\Z")
_LONGEST_ESCAPE = 12


class Block(msgspec.Struct, gc=False):
    """One content block of a message. Only the keys that the stages use; all others pass unread."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    tool_use_id: str | None = None
    is_error: bool | None = None
    content: msgspec.Raw = NO_RAW


Blocks = list[Block | str | None]


class Message(msgspec.Struct, gc=False):
    """The API message inside an entry."""

    role: str | None = None
    id: str | None = None
    model: str | None = None
    content: str | Blocks | None = None


class Origin(msgspec.Struct, gc=False):
    """Who caused an entry, as far as Claude Code says so."""

    kind: str | None = None


class CompactMetadata(msgspec.Struct, rename="camel", gc=False):
    """What a compaction boundary tells of itself; `pre_tokens` counts tokens before it."""

    trigger: str | None = None
    pre_tokens: int | None = None


class Attachment(msgspec.Struct, rename="camel", gc=False):
    """An attachment entry's payload; only `queued_command` carries words of the user."""

    type: str = ""
    prompt: str | Blocks | None = None
    command_mode: str | None = None
    origin: Origin | None = None


class Entry(msgspec.Struct, rename="camel", gc=False):
    """One record of a transcript. Raw fields die with the next entry."""

    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    is_api_error_message: bool | None = None
    origin: Origin | None = None
    prompt_source: str | None = None
    prompt_id: str | None = None
    plan_content: str | None = None
    operation: str | None = None
    role: str | None = None
    message: Message | None = None
    attachment: Attachment | None = None
    compact_metadata: CompactMetadata | None = None
    content: str | Blocks | None = None
    tool_use_result: msgspec.Raw = NO_RAW
    user_feedback: msgspec.Raw = NO_RAW


class Skipped(NamedTuple):
    """A piece of the file that could not be used. `reason` is one of the REASON_* words, for counting."""

    line: int
    reason: str


REASON_TORN = "torn line"
REASON_UNFINISHED = "unfinished last line"
REASON_NOT_OBJECT = "line that is no record"
REASON_TOO_DEEP = "line nested too deeply"
REASON_MISTYPED = "record with a mistyped field"
REASON_REST = "unreadable end of the file"
REASON_SHRANK = "end lost while the file shrank"

_decode = msgspec.json.Decoder(Entry).decode
_decode_message = msgspec.json.Decoder(Message).decode
_raw_decode = json.JSONDecoder(
    strict=False,
    parse_constant=lambda _: None,
    # Python refuses to read whole numbers of thousands of digits; no stage needs one.
    parse_int=lambda digits: int(digits) if len(digits) < 20 else None,
    parse_float=lambda digits: number if math.isfinite(number := float(digits)) else None,
).raw_decode


def open_transcript(path: Path) -> BinaryIO:
    """Open a transcript for reading. Raises NothingToRender when it is missing, else SourceUnreadable."""
    try:
        # Not blocking: a named pipe without a writer would hold us here before we can see that it is one.
        file = open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115 - the caller closes it
    except FileNotFoundError:
        raise NothingToRender(
            f"{path}: no such file", hint="`bottlepipe list` shows the sessions that are there"
        ) from None
    except IsADirectoryError:
        raise SourceUnreadable(f"{path}: is a folder, not a transcript", hint="name a .jsonl file inside it") from None
    except OSError as error:
        raise SourceUnreadable(f"{path}: cannot be read: {error.strerror}", hint="check its permissions") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise SourceUnreadable(f"{path}: is not a regular file", hint="name a transcript file")
    return file


def read_entries(file: BinaryIO, size: int, progress: Callable[[int], None] | None = None) -> Iterator[Entry | Skipped]:
    """Yield every entry in the first `size` bytes of an unbuffered binary file, in file order.

    `progress` is called with the number of bytes read so far. A last line that is not whole is still being written:
    it is reported as REASON_UNFINISHED, not as torn.
    """
    head = file.read(min(size, _CHUNK)) or b""
    file.seek(0)
    opening = head.lstrip(b"\xef\xbb\xbf\x00 \t\r\n")
    if _is_one_document(opening, len(head) < size):
        yield from _read_documents(file, size, progress)
    else:
        yield from _read_lines(file, size, progress)


def _is_one_document(opening: bytes, has_more: bool) -> bool:
    """True when the file is not line-delimited: one JSON array, or pretty-printed values."""
    if _PRETTY_START.match(opening):
        return True
    if not opening.startswith(b"["):
        return False
    line, newline, rest = opening.partition(b"\n")
    if not newline or not (rest.strip() or has_more) or line.strip() == b"[":
        return True
    # An array that ends with its line, or a torn one before a whole record: the lines after it stand for themselves.
    return not _is_whole(line) and not (rest.lstrip()[:1] == b"{" and _is_whole(rest.lstrip().partition(b"\n")[0]))


def _is_whole(line: bytes) -> bool:
    try:
        _recurse(msgspec.json.Decoder(msgspec.Raw).decode, line)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _read_lines(file: BinaryIO, size: int, progress: Callable[[int], None] | None) -> Iterator[Entry | Skipped]:
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    start = filled = total = number = 0
    while total < size:
        if start:
            view[: filled - start] = view[start:filled]
            filled -= start
            start = 0
        if filled == len(buffer):
            # A new buffer, not a longer one: a bytearray cannot grow while a Raw of the last entry looks into it.
            longer = bytearray(2 * len(buffer))
            longer[:filled] = view[:filled]
            buffer, view = longer, memoryview(longer)
        got = file.readinto(view[filled : min(len(buffer), filled + size - total)])  # type: ignore[attr-defined]
        if not got:
            break
        scanned, filled, total = filled, filled + got, total + got
        if progress:
            progress(total)
        while (end := buffer.find(b"\n", scanned, filled)) >= 0:
            number += 1
            try:
                entry = _decode(view[start:end])
                if entry.role:
                    _fill_bare(entry, view[start:end])
            except RecursionError:
                yield from _decode_deep(bytes(view[start:end]), number)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                yield from _salvage(bytes(view[start:end]), number, is_last=False)
            else:
                yield entry
            start = scanned = end + 1
    if filled > start:
        yield from _salvage(bytes(view[start:filled]), number + 1, is_last=True)
    if total < size:
        yield Skipped(number + 1, REASON_SHRANK)


def _fill_bare(entry: Entry, line: bytes | memoryview) -> None:
    """Let a bare API message ({role, content}) stand for an entry."""
    if entry.role and entry.message is None and entry.type in ("", "message"):
        entry.message = _decode_message(line)
        entry.type = entry.role


def _decode_clean(line: bytes) -> Entry:
    entry = _decode(line)
    _fill_bare(entry, line)
    return entry


def _decode_deep(line: bytes, number: int) -> Iterator[Entry | Skipped]:
    try:
        entry = _recurse(_decode_clean, line)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        yield from _salvage(line, number, is_last=False)
    else:
        yield entry


def _recurse(function: Callable[..., T], *arguments: Any) -> T:
    """Call what goes as deep as a value is nested: again in a thread of its own if too little stack is left here.

    So it does not depend on the caller how deep that may be. Raises RecursionError where it is deeper than Python goes.
    """
    try:
        return function(*arguments)
    except RecursionError:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as executor:
            return executor.submit(function, *arguments).result()


def decode_raw(raw: msgspec.Raw) -> Any:
    """The value of a Raw field, None where it has none. Call it before the next entry is asked for.

    Raw fields pass unchecked: here they may still hold bad UTF-8, lone surrogates or endless nesting.
    """
    data = bytes(raw)
    if not data:
        return None
    try:
        return _recurse(msgspec.json.decode, data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        pass
    try:
        value, _ = _recurse(_raw_decode, data.decode("utf-8", "replace").strip())
        return _recurse(msgspec.json.decode, _recurse(_as_line, value))
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _as_line(value: object) -> bytes:
    # Lone surrogates are legal in Python's str and nowhere else.
    return _SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False)).encode("utf-8")


def _salvage(line: bytes, number: int, *, is_last: bool) -> Iterator[Entry | Skipped]:
    """Yield what can be had from a line that is not one clean record."""
    text = line.replace(b"\x00", b"").decode("utf-8", "replace").strip().removeprefix("\ufeff").strip()
    position = 0
    # Looking for a record after each bad place may read the line a few times over, but not once per bad place.
    budget = 8 * len(text)
    while position < len(text):
        try:
            value, position_after = _recurse(_raw_decode, text, position)
        except (ValueError, RecursionError) as error:
            is_deep = isinstance(error, RecursionError)
            budget -= _cost(error, position)
            following = _find_record(text, position + 1, budget)
            if following is None and is_last and not is_deep:
                yield Skipped(number, REASON_UNFINISHED)
                return
            yield Skipped(number, REASON_TOO_DEEP if is_deep else REASON_TORN)
            if following is None:
                return
            position = following
            continue
        position = _skip_blank(text, position_after)
        yield from _entry_from_value(value, number)


def _find_record(text: str, position: int, budget: int) -> int | None:
    """Where, after a cut record, a whole one begins: an object that says whose record it is, with nothing but records
    after it. An object inside the cut record is followed by more of that record.
    """
    while budget > 0 and (start := _RECORD_START.search(text, position)):
        position = start.end()
        try:
            value, end = _recurse(_raw_decode, text, start.start())
        except (ValueError, RecursionError) as error:
            budget -= _cost(error, start.start())
            continue
        budget -= end - start.start()
        is_record = isinstance(value, dict) and "type" in value and ("uuid" in value or "sessionId" in value)
        end = _skip_blank(text, end)
        if is_record and (end == len(text) or text[end] == "{"):
            return start.start()
    return None


def _cost(error: Exception, start: int) -> int:
    """How many characters a failed decode went through. Making its error counts lines from the start."""
    if not isinstance(error, json.JSONDecodeError):
        return _DEEP_COST
    return 1 + error.pos - start + error.pos // 16


def _skip_blank(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n,":
        position += 1
    return position


def _entry_from_value(value: object, number: int) -> Iterator[Entry | Skipped]:
    """Yield an Entry from a decoded JSON value, dropping single fields that have a wrong type."""
    if not isinstance(value, dict):
        yield Skipped(number, REASON_NOT_OBJECT)
        return
    try:
        line = _recurse(_as_line, value)
    except RecursionError:
        yield Skipped(number, REASON_TOO_DEEP)
        return
    try:
        yield _recurse(_decode_clean, line)
    except (msgspec.MsgspecError, RecursionError):
        try:
            # From the line: there lone surrogates are replaced, and msgspec takes none.
            fitting, mistyped = _fit(_recurse(json.loads, line), Entry)
        except RecursionError:
            yield Skipped(number, REASON_TOO_DEEP)
            return
        if mistyped & {"message", "content", "attachment"}:
            yield Skipped(number, REASON_MISTYPED)
        try:
            yield _recurse(_decode_clean, _recurse(_as_line, fitting))
        except (msgspec.MsgspecError, RecursionError, ValueError):
            yield Skipped(number, REASON_MISTYPED)


def _fit(value: dict[str, Any], struct: type[msgspec.Struct]) -> tuple[dict[str, Any], set[str]]:
    """Keep the fields of a JSON object that fit `struct`; name those that do not. Nested structs are fitted too."""
    fitting: dict[str, Any] = {}
    mistyped: set[str] = set()
    for field in msgspec.structs.fields(struct):
        name = field.encode_name
        if name not in value or field.type is msgspec.Raw:
            if name in value:
                fitting[name] = value[name]
            continue
        item = value[name]
        nested = next((t for t in (Message, Attachment, Origin, CompactMetadata) if field.type == (t | None)), None)
        if nested is not None and isinstance(item, dict):
            fitting[name], inner = _fit(item, nested)
            mistyped |= {name} if inner & {"content", "prompt"} else set()
        elif isinstance(item, list) and name in ("content", "prompt"):
            blocks = [_fit(block, Block) if isinstance(block, dict) else (block, set()) for block in item]
            fitting[name] = [block for block, _ in blocks if isinstance(block, dict | str)]
            if any("text" in inner for _, inner in blocks) or len(fitting[name]) < sum(
                b is not None for b, _ in blocks
            ):
                mistyped.add(name)
        else:
            try:
                msgspec.convert(item, field.type)
            except msgspec.ValidationError:
                mistyped.add(name)
            else:
                fitting[name] = item
    return fitting, mistyped


def _read_documents(file: BinaryIO, size: int, progress: Callable[[int], None] | None) -> Iterator[Entry | Skipped]:
    """Stream a file that is not line-delimited: one array of entries or messages, or whole values one after another."""
    import ijson

    number = depth = 0
    is_array = has_record = False
    builder: Any = None
    source = _Bounded(file, size, progress)
    try:
        # Depth is watched on the basic events: building deep values is what costs memory.
        for event, value in ijson.basic_parse(source, multiple_values=True, use_float=True, buf_size=_CHUNK):
            if event in ("start_map", "start_array"):
                if depth == 0 and event == "start_array":
                    is_array, depth = True, 1
                    continue
                if depth == is_array:
                    number += 1
                    builder = ijson.ObjectBuilder()
                depth += 1
                if depth > _MAX_DEPTH and builder is not None:
                    builder = None
                    yield Skipped(number, REASON_TOO_DEEP)
            elif event in ("end_map", "end_array"):
                depth -= 1
                if is_array and depth == 0:
                    is_array = False
                    continue
            elif depth == is_array:
                number += 1
                yield Skipped(number, REASON_NOT_OBJECT)
                continue
            if builder is not None:
                builder.event(event, value)
                if depth == is_array:
                    has_record = has_record or isinstance(builder.value, dict)
                    yield from _entry_from_value(builder.value, number)
                    builder = None
    except ijson.JSONError as error:
        is_cut = "premature EOF" in str(error)
        if not has_record and not is_cut:
            # It only looked like one document: a first line that is torn can begin like one.
            file.seek(0)
            yield from _read_lines(file, size, progress)
            return
        yield Skipped(number + 1, REASON_UNFINISHED if is_cut and source.total == size else REASON_REST)
    if source.total < size:
        yield Skipped(number + 1, REASON_SHRANK)


class _Bounded:
    """The first `size` bytes of a file as a stream for ijson: valid UTF-8, without byte order mark and raw NULs."""

    def __init__(self, file: BinaryIO, size: int, progress: Callable[[int], None] | None) -> None:
        self.file, self.size, self.progress, self.total = file, size, progress, 0
        self.decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self.rest = ""

    def read(self, length: int = -1) -> bytes:
        if length == 0:
            return b""
        while True:
            room = self.size - self.total
            data = self.file.read(min(room, length) if length > 0 else room) or b""
            self.total += len(data)
            if self.progress and data:
                self.progress(self.total)
            text = self.rest + self.decoder.decode(data, final=not data).replace("\0", "")
            cut = _cut_escape(text) if data else len(text)
            text, self.rest = text[:cut], text[cut:]
            if "\\ud" in text or "\\uD" in text:
                # ijson's parser takes half a surrogate pair for text and then cannot decode it.
                text = _ESCAPES.sub(lambda found: "\\ufffd" if found[2] else found[0], text)
            clean = text.encode()
            # Nothing at all would mean the end.
            if clean or not data:
                return clean


def _cut_escape(text: str) -> int:
    """Where the escape begins that the end of a chunk cuts in two; its length where none is cut."""
    position = max(0, len(text) - _LONGEST_ESCAPE)
    while found := _CUT_ESCAPE.search(text, position):
        start = found.start()
        backslashes = start - len(text[:start].rstrip("\\")) if start and text[start - 1] == "\\" else 0
        if backslashes % 2 == 0:
            return start
        position = start + 1
    return len(text)
