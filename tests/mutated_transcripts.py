"""Mutations of transcripts for the fuzz tests. One seed gives one case, always the same one.

Private text is planted as a placeholder and written in last, so that whatever a mutation does to the JSON around it,
the bytes of the span and of its tags stay whole: a planted word that is read must be hidden.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from typing import Any

from fuzz_sources import Sources
from mutated_values import TIMES, any_text, decode_entry, encode, mutate_json, paths, private_span, value_at

# A plant's place in a text: no JSON writer escapes it and no mutation splits it.
_PLACE = "PLANT{}TNALP"
_PLACES = re.compile(rb"PLANT(\d+)TNALP")


@dataclass
class Transcript:
    """A mutated transcript. `planted` are words that no output may hold."""

    data: bytes
    name: str
    planted: list[str]
    all_branches: bool = False
    about: str = ""


def mutate_transcript(seed: int, sources: Sources) -> Transcript:
    """The mutated transcript of a seed."""
    rng = random.Random(seed)
    lines = sources.lines(rng)
    if rng.random() < 0.2:
        lines = _spliced(lines, sources.lines(rng), rng)
    planted: dict[int, str] = {}
    words: list[str] = []
    about = []
    entries: list[Any] = list(lines)
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        _plant(entries, rng, planted, words, seed)
    has_plants = bool(planted)
    for _ in range(rng.choice((0, 1, 2, 8))):
        index = rng.randrange(len(entries))
        decoded = decode_entry(entries[index])
        if decoded is not None:
            entries[index] = mutate_json(decoded, rng, with_code=not has_plants)
            about.append("structure")
    for _ in range(rng.choice((0, 0, 1, 3))):
        about.append(_reorder(entries, rng))
    pieces = _written(entries, rng, about)
    data = _with_plants(b"".join(pieces), planted, rng)
    for _ in range(rng.choice((0, 0, 1, 1, 3, 20))):
        about.append(_mutate_bytes(data, rng, has_plants=has_plants))
    whole = b"".join(part for part, _ in data)
    if rng.random() < 0.004:
        whole = whole + b"\n" + _huge(rng)
        about.append("huge")
    name = "a3f1c2d4-0001-4a6b-9c11-5d2e7f8a9b01.jsonl" if rng.random() < 0.5 else "mutated.jsonl"
    return Transcript(whole, name, words, rng.random() < 0.3, " ".join(sorted(set(about))))


def _huge(rng: random.Random) -> bytes:
    size = rng.choice((100_000, 1_000_000, 4_000_000))
    filler = rng.choice(('x', "<private>", "<private", "<", "a<pri<private>", "`", "\\n**User**", "\\ud800", "{", '{\\"type\\":', "\\u0000"))  # fmt: skip
    body = filler * (size // len(filler))
    form = rng.randrange(4)
    if form == 0:
        return body.replace("\\", "").encode()
    if form == 1:
        return b'{"type":"user","uuid":"h","message":{"role":"user","content":"' + body.encode()
    if form == 2:
        return b'{"type":"user","uuid":"h","message":{"role":"user","content":"' + body.encode() + b'"}}\n'
    return b'{"type":' * (size // 40) + b"\n"


def _plant(entries: list[Any], rng: random.Random, planted: dict[int, str], words: list[str], seed: int) -> None:
    """Put a private span into a new entry, or into the text of one that is there."""
    number = len(planted)
    word = f"CANARY-PLANT-{seed}-{number}"
    tagged = private_span(word, rng)
    place = _PLACE.format(number)
    around = (any_text(rng, with_code=False), any_text(rng, with_code=False))
    said = f"{around[0]}{place}{around[1]}" if rng.random() < 0.8 else place
    entry = _speech(said, rng, f"plant-{number}", place)
    if rng.random() < 0.3:
        index = rng.randrange(len(entries))
        other = decode_entry(entries[index])
        if other is not None and (ways := [way for way in paths(other) if isinstance(value_at(other, way), str)]):
            # In a message of its own, without code around it: in code a tag would be text.
            other = decode_entry(encode(other).replace("`", "'").replace("~", "-").encode())
            assert other is not None
            way = rng.choice(ways) if rng.random() < 0.3 else rng.choice([w for w in ways if w[-1] in ("text", "content")] or ways)  # fmt: skip
            if way in set(paths(other)) and _is_text(way):
                value_at(other, way[:-1])[way[-1]] = said
                message = other.get("message")
                if isinstance(message, dict):
                    message["id"] = f"msg-plant-{number}"
                entry = other
                del entries[index]
    planted[number] = tagged
    words.append(word)
    entries.insert(rng.randint(0, len(entries)), entry)


def _is_text(way: tuple[Any, ...]) -> bool:
    # Ids and file names are no texts: nobody writes a private span there.
    return way[-1] not in ("uuid", "parentUuid", "logicalParentUuid", "sessionId", "id", "type", "role", "tool_use_id")


def _speech(said: str, rng: random.Random, uuid: str, place: str) -> dict[str, Any]:
    """An entry of any kind that can hold words."""
    base = {"uuid": uuid, "sessionId": "s", "parentUuid": None, "timestamp": rng.choice(TIMES)}
    block = {"type": "text", "text": said}
    tool = {"type": "tool_result", "tool_use_id": f"toolu-{uuid}", "is_error": rng.random() < 0.5}
    result = rng.choice((
        f"The user doesn't want to proceed with this tool use. x the user said:\n{said}",
        f'User has answered your questions: "Q"="{place}"',
        f'Your questions have been answered: "{place}"="A", "R"="B". You can now continue with it',
        f"The user answered: {said}",
        f"User has approved your plan\n## Approved Plan:\n{said}",
        "The user doesn't want to proceed with this tool use. x the user said:\nThe user wants to clarify these questions"
        f'\n- "{place}"\n  Answer: {place}\n',
    ))  # fmt: skip
    command = f"<command-name>/review</command-name><command-args>{said}</command-args>"
    forms: tuple[dict[str, Any], ...] = (
        {"type": "user", "message": {"role": "user", "content": said}},
        {"type": "user", "message": {"role": "user", "content": [block, {"type": "image"}, block]}},
        {"type": "user", "message": {"role": "user", "content": rng.choice((command, f"<bash-input>{said}</bash-input>", f"<user-memory-input>{said}</user-memory-input>", f"<ide_selection>{place}</ide_selection>{said}", f"<bash-stdout>{place}</bash-stdout>{said}"))}},
        {"type": "assistant", "message": {"role": "assistant", "id": f"msg-{uuid}", "content": [block]}},
        {"type": "assistant", "isApiErrorMessage": True, "message": {"role": "assistant", "id": f"msg-{uuid}", "content": said}},
        {"type": "user", "message": {"role": "user", "content": [{**tool, "content": result}, block]}, "userFeedback": said},
        {"type": "user", "message": {"role": "user", "content": [{**tool, "content": [{"type": "text", "text": result}]}]},
         "toolUseResult": {"answers": {place: said}, "annotations": {place: {"notes": said}}, "plan": said}},
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": rng.choice((said, [block]))}},
        {"type": "queue-operation", "operation": "enqueue", "content": said},
        {"type": "system", "subtype": "local_command", "content": command},
        {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": said, "preTokens": 5}},
        {"role": "user", "content": said},
        {"type": "user", "cwd": said, "message": {"role": "user", "content": "hello"}},
    )  # fmt: skip
    return {**base, **(forms[2] if rng.random() < 0.2 else rng.choice(forms))}


def _spliced(lines: list[bytes], others: list[bytes], rng: random.Random) -> list[bytes]:
    if rng.random() < 0.5:
        return lines[: rng.randint(0, len(lines))] + others[rng.randint(0, len(others)) :] or lines
    return [line for pair in zip(lines, others, strict=False) for line in pair] or lines


def _reorder(entries: list[Any], rng: random.Random) -> str:
    index, other = rng.randrange(len(entries)), rng.randrange(len(entries))
    match rng.randrange(6):
        case 0:
            rng.shuffle(entries)
        case 1:
            entries.insert(other, entries[index])
        case 2:
            entries.extend(entries[index : index + 5])
        case 3 if len(entries) > 1:
            del entries[index]
        case 4:
            entries.reverse()
        case _:
            entries[index], entries[other] = entries[other], entries[index]
    return "order"


def _written(entries: list[Any], rng: random.Random, about: list[str]) -> list[bytes]:
    """The bytes of the entries: lines, or a form that is not line-delimited."""
    form = rng.random()
    if form < 0.08:
        about.append("array")
        indent = rng.choice((None, 2))
        whole = [decoded for entry in entries if (decoded := decode_entry(entry)) is not None]
        return [encode(whole, indent=indent, ascii_only=rng.random() < 0.5).encode()]
    if form < 0.16:
        about.append("pretty")
        return [
            encode(d, indent=rng.choice((1, 4))).encode() + b"\n" for e in entries if (d := decode_entry(e)) is not None
        ]
    end = rng.choice((b"\n",) * 9 + (b"\r\n", b"\n\n", b"", b" ", b"\x00\n", b"\n\xef\xbb\xbf", ",\u2028".encode()))
    if end != b"\n":
        about.append("line end")
    pieces = []
    for entry in entries:
        ascii_only = rng.random() < 0.3
        line = entry if isinstance(entry, bytes) else encode(entry, ascii_only=ascii_only).encode("utf-8", "replace")
        pieces.append(line.rstrip(b"\r\n") + (end if rng.random() < 0.9 else b"\n"))
    if rng.random() < 0.3:
        pieces[-1] = pieces[-1].rstrip()
    return pieces


def _with_plants(data: bytes, planted: dict[int, str], rng: random.Random) -> list[tuple[bytes, bool]]:
    """The bytes in parts, (bytes, is planted), with the spans written in place of their placeholders."""
    parts = []
    position = 0
    for found in _PLACES.finditer(data):
        parts.append((data[position : found.start()], False))
        parts.append((_escaped(planted[int(found[1])], rng).encode(), True))
        position = found.end()
    parts.append((data[position:], False))
    return parts


def _escaped(tagged: str, rng: random.Random) -> str:
    """A span as some JSON writer might put it."""
    plain = json.dumps(tagged)[1:-1]
    style = rng.random()
    if style < 0.6:
        return plain
    if style < 0.8:
        return plain.replace("<", "\\u003c").replace(">", "\\u003E").replace("/", "\\/")
    return "".join(f"\\u{ord(character):04x}" for character in tagged)


def _mutate_bytes(parts: list[tuple[bytes, bool]], rng: random.Random, *, has_plants: bool) -> str:
    """Change some bytes outside of planted spans. With plants no code marks come in: in code a tag would be text."""
    choices = [index for index, (data, is_planted) in enumerate(parts) if data and not is_planted]
    if not choices:
        return ""
    index = rng.choice(choices)
    data = parts[index][0]
    at = rng.randint(0, len(data))
    end = min(len(data), at + rng.choice((1, 1, 2, 50, 1000)))
    kind = rng.randrange(8)
    match kind:
        case 0 if at < len(data):
            data = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        case 1:
            data = data[:at] + data[end:]
        case 2:
            data = data[:at] + data[at:end] + data[at:]
        case 3:
            data = data[:at] + bytes(rng.randrange(256) for _ in range(rng.choice((1, 1, 4, 40)))) + data[at:]
        case 4:
            odd = rng.choice(
                (b"\x00" * 9, b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", "\u2028".encode(),
                 b"\xf0\x9f\x98", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"null", b"\\u0000", b"\\ud83d", b"/*", b"\x1a")
            )  # fmt: skip
            data = data[:at] + odd + data[at:]
        case 5 if rng.random() < 0.3:
            # A torn end: everything after it goes too.
            del parts[index + 1 :]
            data = data[:at]
        case 6 if rng.random() < 0.3:
            del parts[:index]
            index, data = 0, data[at:]
        case _:
            data = data[:at] + data[at:].replace(b"\n", rng.choice((b"", b" ", b"\n\n", b"\r")), 1)
    if has_plants:
        clean = data.translate(bytes.maketrans(b"`~", b"'-"))
        data = clean if data.count(b"`") + data.count(b"~") > parts[index][0].count(b"`") + parts[index][0].count(b"~") else data  # fmt: skip
        # A backslash before the span would take its first escape apart.
        data = data.rstrip(b"\\") if index + 1 < len(parts) else data
    parts[index] = (data, False)
    return "bytes"
