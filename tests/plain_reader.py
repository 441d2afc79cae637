"""A second reader of transcripts: slow, the whole file in memory, nothing shared with the product, to be checked by eye.

`read_values` says which lines are whole, `hear` whose words are in an entry, `settle_queue` what the input queue adds,
`find_branches` what was rewound, `join` what is one message, `publish` what may be shown, `bottle_blocks` what a bottle
says. Where it and the product differ, one of them is wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Words = Iterator[tuple[str, str, str]]  # speaker, kind, text


@dataclass
class Said:
    """A message; before `join` a block of one. `place` is that of its entry in the file, `part` names the message."""

    speaker: str  # user | assistant | notice
    kind: str
    text: str
    at_ms: int | None
    place: int
    part: tuple[str, Any]
    branch: int = 0  # number of the rewound branch it stands on, 0 for none


@dataclass
class Reading:
    said: list[Said]  # in the order of the bottle, rewound branches included
    torn: int  # lines of which something could not be read, the unfinished last one too
    repeated: int  # later copies of an entry; the first one counts
    rewound: int  # branches


def read_transcript(path: Path) -> Reading:
    values, torn = read_values(path.read_bytes())
    entries = [as_entry(value) for value in values if isinstance(value, dict)]
    spoken = [entry for entry in entries if entry.get("type") in ("user", "assistant")]
    if all(is_sidechain(entry) for entry in spoken):  # an agent's own file
        entries = [{**entry, "isSidechain": False} for entry in entries]
    kept, names, repeated = [], set(), 0
    for entry in entries:
        name = entry.get("uuid")
        if entry.get("operation") == "enqueue" and entry.get("timestamp"):  # has no uuid
            name = f"{entry['timestamp']} {entry.get('content')}"
        if name in names:
            repeated += "uuid" in entry and not is_sidechain(entry)
        else:
            kept.append(entry)
            names |= {name} - {None}
    said = hear_all(kept)
    branches = find_branches(kept, said)
    return Reading(join(settle_queue(kept, said), branches), torn, repeated, len(set(branches.values())))


# --- lines ---


def read_values(data: bytes) -> tuple[list[Any], int]:
    """Every JSON value of a file, and the number of torn lines. Lines end at LF only."""
    found = [values_of(line) for line in data.split(b"\n")]
    if not any(isinstance(value, dict) for values, _ in found for value in values):
        values, is_torn = values_of(data)  # perhaps an array, or values over several lines
        found = [([item for value in values for item in (value if isinstance(value, list) else [value])], is_torn)]
    return [value for values, _ in found for value in values], sum(is_torn for _, is_torn in found)


def values_of(data: bytes) -> tuple[list[Any], bool]:
    """The values that stand one after the other, and whether a record is cut. After a cut one: those up to the end."""
    values, rest = decode(data.decode("utf-8", "replace").strip("\0\ufeff \t\r\n"))
    for start in [match.start() for match in re.finditer(r'\{"', rest)]:
        tail, left = decode(rest[start:])
        if not left and all("type" in one and ("uuid" in one or "sessionId" in one) for one in tail):
            return values + tail, True
    return values, bool(rest)


def decode(text: str) -> tuple[list[Any], str]:
    """The whole values at the start of a text, and what follows them. Half a surrogate pair is no character."""
    values = []
    while text:
        try:
            value, end = json.JSONDecoder(strict=False).raw_decode(text)
        except (ValueError, RecursionError):
            break
        values.append(json.loads(re.sub("[\ud800-\udfff]", "\ufffd", json.dumps(value, ensure_ascii=False))))
        text = text[end:].lstrip("\0 \t\r\n")
    return values, text


# --- entries ---


def as_entry(value: Json) -> Json:
    """A bare API message stands for an entry."""
    is_bare = value.get("role") in ("user", "assistant") and value.get("type", "message") == "message"
    return {**value, "type": value["role"], "message": value} if is_bare else value


def is_sidechain(entry: Json) -> bool:
    return entry.get("isSidechain") is True


def is_human(about: Json) -> bool:
    return fields(about, "origin").get("kind") in (None, "human")


def fields(entry: Json, name: str) -> Json:
    found = entry.get(name)
    return found if isinstance(found, dict) else {}


def blocks(content: Any) -> list[Json]:
    """Content as a list of blocks, be it a string, a list of blocks, or a list of both."""
    listed = content if isinstance(content, list) else [content]
    as_blocks = [{"type": "text", "text": item} if isinstance(item, str) else item for item in listed]
    return [block for block in as_blocks if isinstance(block, dict)]


def text_of(block: Json) -> str:
    return str(block["text"]) if block.get("type") == "text" and isinstance(block.get("text"), str) else ""


def time_of(entry: Json) -> int | None:
    try:
        return round(datetime.fromisoformat(entry["timestamp"]).timestamp() * 1000)
    except (KeyError, TypeError, ValueError):
        return None


# --- words ---


def hear_all(entries: list[Json]) -> list[Said]:
    """Every block that somebody said, in order."""
    calls = [block for entry in entries for block in blocks(fields(entry, "message").get("content"))]
    tools = {call.get("id"): call.get("name") for call in calls if call.get("type") == "tool_use"}
    said: list[Said] = []
    for place, entry in enumerate(entries):
        api_id = fields(entry, "message").get("id") if entry.get("type") == "assistant" else None
        part = ("message", api_id) if api_id else ("entry", place)
        for speaker, kind, text in [] if is_sidechain(entry) else hear(entry, tools):
            # A command can be written as typed and then in its envelope, under one promptId.
            is_envelope = str(fields(entry, "message").get("content")).startswith("<command-")
            same = [one for one in said if is_envelope and one.text.strip() == text]
            prompt_id = entry.get("promptId")
            if text.strip() and not any(prompt_id and entries[one.place].get("promptId") == prompt_id for one in same):
                said.append(Said(speaker, kind, text, time_of(entry), place, part))
    return said


def hear(entry: Json, tools: Json) -> Words:
    """What an entry says, block by block."""
    content = blocks(fields(entry, "message").get("content"))
    match entry.get("type"), entry.get("subtype"):
        case "assistant", _:
            if entry.get("isApiErrorMessage") is True:
                yield from (("notice", "api_error", text_of(block)) for block in content)
            elif fields(entry, "message").get("model") != "<synthetic>":
                yield from (("assistant", "text", text_of(block)) for block in content)
        case "user", _:
            yield from hear_user(entry, content, tools)
        case "attachment", _:
            about = fields(entry, "attachment")
            is_prompt = about.get("type") == "queued_command" and about.get("commandMode") != "task-notification"
            if is_prompt and is_human(about):
                yield from hear_blocks(blocks(about.get("prompt")), "queued")
        case "system", "local_command":
            yield from (one for one in words(str(entry.get("content")), "prompt") if one[1] == "command")
        case "system", "compact_boundary":
            about = fields(entry, "compactMetadata")
            facts = [about["trigger"]] if "trigger" in about else []
            facts += [f"{about['preTokens']:,} tokens before"] if "preTokens" in about else []
            yield "notice", "compacted", "context compacted" + (f" ({', '.join(facts)})" if facts else "")


def hear_user(entry: Json, content: list[Json], tools: Json) -> Words:
    """A prompt, or the user's words in and beside tool results."""
    opening = next((text for block in content if (text := text_of(block)).strip()), "")
    is_summary = opening.startswith("This session is being continued from a previous conversation")
    if entry.get("isCompactSummary") is True or (is_summary and "promptSource" not in entry):
        yield "notice", "compact_summary", opening
        return
    has_result = any(block.get("type") == "tool_result" for block in content)
    kind = "remark" if has_result else "plan" if "planContent" in entry else "prompt"
    heard = []
    for block in content:
        if block.get("type") == "tool_result":
            heard += hear_result(block, fields(entry, "toolUseResult"), tools.get(block.get("tool_use_id")))
        elif entry.get("isMeta") is not True and is_human(entry):
            heard += hear_blocks([block], kind)
    yield from heard
    feedback = entry.get("userFeedback")
    if isinstance(feedback, str) and not any(feedback.strip() == text.strip() for _, _, text in heard):
        yield "user", "remark", feedback


def hear_blocks(content: list[Json], kind: str) -> Words:
    for block in content:
        if block.get("type") in ("image", "document"):
            yield "user", kind, f"[{block['type']}]"
        else:
            yield from words(text_of(block), kind)


# What the host writes in the user's name: before the user's words, and as whole texts.
HOST_PREFIX = re.compile(
    r"\s*<(ide_opened_file|ide_selection|system-reminder|user-prompt-submit-hook)>.*?</\1>\s*", re.DOTALL
)
HOST_TEXT = re.compile(
    r"\s*(?:<(?:local-command-(?:caveat|stdout|stderr)|bash-(?:stdout|stderr|notification)|task-notification"
    r"|ci-monitor-event|agent-message|teammate-message|session-start-hook)[\s>]"
    r"|Caveat: The messages below were generated by the user while running local commands"
    r"|Another Claude session sent a message|(?:\[Image: [^\]]*\]|Unknown (?:slash command|skill): \S+)\s*\Z)"
)


def words(text: str, kind: str) -> Words:
    """What is the user's in a text that stands in their name."""

    def inside(tag: str) -> str:
        return (re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL) or [""])[0]

    while prefix := HOST_PREFIX.match(text):
        text = text[prefix.end() :]
    if text.strip() in ("[Request interrupted by user]", "[Request interrupted by user for tool use]"):
        yield "notice", "interrupted", "interrupted by the user"
    elif text.lstrip().startswith(("<command-name>", "<command-message>", "<command-args>")):
        yield "user", "command", f"/{inside('command-name').removeprefix('/')} {inside('command-args')}".rstrip()
    elif text.lstrip().startswith("<bash-input>"):
        yield "user", "bash", f"! {inside('bash-input')}"
    elif text.lstrip().startswith("<user-memory-input>"):
        yield "user", kind, inside("user-memory-input")
    elif re.fullmatch(r"\s*/(exit|clear|model|compact|cost|usage)( .*)?\s*", text):  # Claude Code's own
        yield "user", "command", text
    elif not HOST_TEXT.match(text):
        yield "user", kind, text


REJECTED = re.compile(
    r"The user doesn't want to proceed with this tool use.*?To tell you how to proceed, the user said:\n"
    r"(.*?)(?:\n\nNote: The user's next message may contain a correction or preference\..*)?",
    re.DOTALL,
)
ANSWERED = re.compile(
    r"(?:User has answered your questions|Your questions have been answered|The user answered): "
    r"(.*?)\.?(?: You can now continue[^\"]*| Read the answers carefully[^\"]*)?",
    re.DOTALL,
)


def hear_result(block: Json, beside: Json, tool: str | None) -> Words:
    """The user's words in a tool result; `beside` is the host's own copy of it. Only the right tool's are believed."""
    text = "\n".join(text_of(one) for one in blocks(block.get("content")))
    if (rejected := REJECTED.fullmatch(text)) and block.get("is_error") is True:
        if rejected[1].startswith("The user wants to clarify these questions"):
            pairs = re.findall(r'^- "(.*)"\n  Answer: (.*)$', rejected[1], re.MULTILINE)
            yield "user", "answer", "\n".join(f"Q: {question}\nA: {answer}" for question, answer in pairs)
        else:
            yield "user", "rejection", rejected[1]
    elif text.startswith("User has approved your plan") and tool in ("ExitPlanMode", None):
        plan = re.split(r"## Approved Plan.*\n", text, maxsplit=1)[1:] or [beside.get("plan")]
        yield "user", "plan", f"[approved plan]\n\n{plan[0]}" if isinstance(plan[0], str) else "[approved plan]"
    elif (answered := ANSWERED.fullmatch(text)) and tool in ("AskUserQuestion", None):
        yield "user", "answer", answers(answered[1], beside)


def answers(listed: str, beside: Json) -> str:
    """`Q: …` and `A: …` lines, from the host's copy, else from `"Q"="A", "Q"="A"`, where `", "` may stand in an A."""
    pairs = []
    for question, answer in fields(beside, "answers").items():
        notes = fields(fields(beside, "annotations"), question).get("notes")
        chosen = ", ".join(answer) if isinstance(answer, list) else answer
        pairs.append((question, f"{chosen}\n{notes}" if notes else chosen))
    if not pairs and '"="' not in listed:
        return f"A: {listed}" if listed.strip() else ""
    for piece in [] if pairs else listed[1:-1].split('", "'):
        question, is_pair, answer = piece.partition('"="')
        pairs.append((question, answer) if is_pair else (pairs[-1][0], f'{pairs.pop()[1]}", "{piece}'))
    return "\n".join(f"Q: {question}\nA: {answer}" for question, answer in pairs)


# --- the input queue ---


def settle_queue(entries: list[Json], said: list[Said]) -> list[Said]:
    """Add what was typed while the model worked and stands in no other entry: where it was delivered, or at the end."""
    waiting: list[int] = []  # places of enqueued texts
    sent: list[tuple[int, int]] = []  # places of an enqueued text and of its delivery
    for place, entry in enumerate(entries):
        match entry.get("type"), entry.get("operation"):
            case "queue-operation", "enqueue":
                waiting.append(place)
            case "queue-operation", "popAll":  # it went back to the input box
                waiting = []
            case "queue-operation", "dequeue" | "remove" if waiting:
                text = joined_text(entry, as_typed=False)
                named = [one for one in waiting if text and joined_text(entries[one], as_typed=False) == text]
                sent.append(((named or waiting)[0], place))
                waiting.remove(sent[-1][0])
    spoken = {one.place: [other for other in said if other.place == one.place] for one in said if one.speaker == "user"}
    used: set[int] = set()

    def is_shown(typed: int, delivered: int, text: str, *, is_run: bool) -> bool:
        """Whether a user's entry says this text, or this run of texts one below the other.

        An entry that says no more is that of one delivery. The same word typed again much later is another one: three
        entries on, or ten minutes; a fork can write older entries in between, so within a minute any entry counts. A
        longer prompt shows a text that is its first or last lines, or lines that are too long to be there by chance.
        """
        for place, group in spoken.items():
            there = "\n\n".join(one.text for one in group if one.text not in ("[image]", "[document]"))
            is_next = sum(delivered < other < place for other in spoken) < 3
            times = group[0].at_ms, time_of(entries[delivered])
            gap = 0 if None in times else abs(times[0] - times[1])  # type: ignore[operator]
            is_near = (is_next and (is_run or gap <= 600_000)) or (gap <= 60_000 and None not in times)
            if place > typed and place not in used and there.split() == text.split() and is_near:
                used.add(place)
                return True
            is_edge = there.startswith(f"{text}\n") or there.endswith(f"\n{text}")
            is_part = is_edge or (len(text) >= 20 and f"\n{text}\n" in there)
            if place > typed and not is_run and text and is_next and is_part:
                return True
        return False

    ways = sorted([*sent, *((typed, typed) for typed in waiting)])
    texts = {typed: text for typed, _ in ways if (text := joined_text(entries[typed], as_typed=True))}
    ways = [way for way in ways if way[0] in texts]
    shown: set[int] = set()
    for first, (typed, delivered) in enumerate(ways):  # several can be sent as one prompt, one below the other
        for last in range(len(ways) - 1, first, -1):
            run = [one for one, _ in ways[first : last + 1]]
            below = "\n".join(texts[one] for one in run)
            if typed not in shown and is_shown(typed, delivered, below, is_run=True):
                shown |= set(run)
    added = []
    for typed, delivered in [*sent, *((typed, typed) for typed in waiting)]:
        kind, place = ("pending", len(entries)) if typed in waiting else ("queued", delivered)
        heard = [one for one in hear_blocks(blocks(entries[typed].get("content")), kind) if one[2].strip()]
        if typed not in shown and heard and not is_shown(typed, delivered, texts.get(typed, ""), is_run=False):
            if kind == "pending":
                heard.insert(
                    0, ("notice", "note", "typed while the model worked, not delivered when this was rendered")
                )
            added += [Said(*one, time_of(entries[delivered]), place, ("queue", typed)) for one in heard]
    return sorted([*said, *added], key=lambda one: one.place)


def joined_text(entry: Json, *, as_typed: bool) -> str:
    """The text of a queue entry, with what the host put before it or `as_typed`."""
    texts = [text_of(block) for block in blocks(entry.get("content"))]
    if as_typed:
        texts = [heard for text in texts for _, _, heard in words(text, "queued")]
    return "\n".join(text for text in texts if text).strip()


# --- branches ---


def find_branches(entries: list[Json], said: list[Said]) -> dict[int, int]:
    """Place of an entry that does not stand → number of its rewound branch."""
    places = {entry["uuid"]: place for place, entry in enumerate(entries) if isinstance(entry.get("uuid"), str)}
    parents = {}
    for place in places.values():
        entry = entries[place]
        is_boundary = entry.get("subtype") == "compact_boundary" and entry.get("parentUuid") is None
        parent = places.get(entry.get("logicalParentUuid" if is_boundary else "parentUuid"))
        parents[place] = None if parent == place else parent
    # The chain: from the newest entry to its parent and so on; where there is none to go to, the nearest earlier entry.
    free = [place for place in parents if not is_sidechain(entries[place])]
    chain: list[int] = []
    while earlier := [place for place in free if not chain or place < chain[-1] or place == parents[chain[-1]]]:
        parent = parents[chain[-1]] if chain else None
        chain.append(parent if parent in free else earlier[-1])
        free.remove(chain[-1])
    # Only a plain prompt whose sibling is a plain prompt on the chain was rewound, and what hangs below it.
    prompts = {one.place for one in said if one.kind == "prompt"} & set(parents)
    forks = {parents[prompt] for prompt in prompts & set(chain)} - {None}
    forks = {fork for fork in forks if entries[fork].get("isMeta") is not True}
    heads = sorted(prompt for prompt in prompts - set(chain) if parents[prompt] in forks)
    branches = {}
    for place in set(parents) - set(chain):
        above: list[int] = [place]
        while (parent := parents[above[-1]]) is not None and parent not in [*above, *chain]:
            above.append(parent)
        if rewound := [one for one in above if one in heads]:
            branches[place] = 1 + heads.index(rewound[-1])
    return branches


# --- messages ---


def join(said: list[Said], branches: dict[int, int]) -> list[Said]:
    """Neighbours of one message are one text, with blank lines between; its time is the first that is known.

    What hangs on no entry stands on a rewound branch if what is before it and after it does.
    """
    messages: list[Said] = []
    tied = [one for one in said if one.part[0] != "queue"]
    for one in said:
        around = [other for other in tied if other.place <= one.place][-1:]
        around += [other for other in tied if other.place >= one.place][:1]
        numbers = {branches.get(other.place, 0) for other in around} if len(around) == 2 else {0}
        one = replace(one, branch=numbers.pop() if len(numbers) == 1 else 0)
        last = messages[-1] if messages else one
        if messages and (last.part, last.speaker, last.branch) == (one.part, one.speaker, one.branch):
            last.text += f"\n\n{one.text}"
            last.at_ms = one.at_ms if last.at_ms is None else last.at_ms
        else:
            messages.append(one)
    return [one for one in messages if one.kind != "compact_summary"]


# --- privacy ---

STRICT = ("private", "claude-mem-context")
TAG = re.compile(
    r"<\s{0,8}(?P<end>/?)\s{0,8}"
    rf"(?P<name>{'|'.join(STRICT)}|system_instruction|system-instruction|persisted-output|system-reminder)"
    r"(?![\w.:-])(?P<attributes>[^<>]*)>?",
    re.IGNORECASE | re.ASCII,
)


def strip_private(text: str, *, keep_code: bool) -> tuple[str, bool]:
    """The text without tagged spans, and whether a private one was among them; what is left holds no tag."""
    was_private = False
    while True:
        once, hid = strip_once(text, keep_code)
        was_private |= hid
        if once == text:
            return text, was_private
        text = once


def strip_once(text: str, keep_code: bool) -> tuple[str, bool]:
    """Take the tags one by one, the leftmost first.

    An opening tag becomes a mark. A closing tag takes away all back to the nearest mark of its name but other marks.
    Then all is looked at anew, as if the marks were not there: what was apart may now make a tag. In the end a mark
    that is left takes away all behind it if it is strict.
    """
    code = code_of(text) if keep_code else [False] * len(text)
    cells = list(zip(text, code, strict=True))  # a character and whether it is code; a mark is the name of its tag
    hid = False
    while True:
        places = [place for place, (cell, _) in enumerate(cells) if len(cell) == 1]
        for tag in TAG.finditer("".join(cells[place][0] for place in places)):
            start, end = places[tag.start()], places[tag.end() - 1] + 1
            if not cells[start][1] or any(cell in STRICT for cell, _ in cells[:start]):
                break
        else:
            break
        name, attributes = tag["name"].lower(), tag["attributes"]
        is_alone = tag[0].endswith("/>") and (attributes == "/" or attributes[-2] in " \t\r\n\"'")
        cells[start:end] = marks = [cell for cell in cells[start:end] if len(cell[0]) > 1]
        end = start + len(marks)
        opened = [place for place, (cell, _) in enumerate(cells[:end]) if cell == name]
        if tag["end"] and opened:
            hid |= name in STRICT
            cells[opened[-1] : end] = [cell for cell in cells[opened[-1] + 1 : end] if len(cell[0]) > 1]
        elif not tag["end"] and not is_alone:
            cells.insert(end, (name, False))
    strict = [place for place, (cell, _) in enumerate(cells) if cell in STRICT]
    left = cells[: strict[0]] if strict else cells
    return "".join(cell for cell, _ in left if len(cell) == 1), hid or bool(strict)


def code_of(text: str) -> list[bool]:
    """For each character whether it stands in a closed Markdown fence or code span."""
    code = [False] * len(text)
    opened = None
    for line in re.finditer(r"^ {0,3}(`{3,}|~{3,})(.*)$", text, re.MULTILINE):
        fence, info = line.groups()
        if opened is None and not (fence[0] == "`" and "`" in info):
            opened = line
        elif opened and fence.startswith(opened[1]) and not info.strip():
            code[opened.start() : line.end()] = [True] * (line.end() - opened.start())
            opened = None
    prose = "".join("\n" if is_code else character for character, is_code in zip(text, code, strict=True))
    for span in re.finditer(r"(?<![\\`])(`+)(?!`)(?:(?!\n[ \t]*\n).)*?(?<!`)\1(?!`)", prose, re.DOTALL):
        code[span.start() : span.end()] = [True] * len(span[0])
    return code


def publish(said: list[Said]) -> list[Said]:
    """The messages as they may be shown. One whose parts stand apart is put together if a span runs over the gap."""
    parts: dict[Any, list[Said]] = {}
    for one in (said := [replace(one) for one in said]):
        parts.setdefault((one.part, one.speaker), []).append(one)
    for apart in parts.values():
        keep_code = apart[0].speaker == "assistant"
        whole = "\n\n".join(one.text for one in apart)
        stripped = "\n\n".join(strip_private(one.text, keep_code=keep_code)[0] for one in apart)
        if len(apart) > 1 and strip_private(whole, keep_code=keep_code)[0] != stripped:
            for one in apart:
                one.text = whole if one is apart[0] else ""
    return [shown for one in said if (shown := public(one))]


def public(one: Said) -> Said | None:
    text, was_private = strip_private(one.text, keep_code=one.speaker == "assistant")
    text = text.replace("\0", "\ufffd")
    if one.speaker == "notice":
        text = " ".join(text.split())  # one line
    elif not text.strip() and was_private and one.speaker == "user":
        return replace(one, text="[private]", kind="private")
    return replace(one, text=text) if text.strip() else None


# --- the bottle ---


def bottle_blocks(reading: Reading) -> list[tuple[str, str, str]]:
    """(speaker, text, time) of every block of a bottle without observations, in UTC."""
    listed = []
    day = None
    for one in publish([one for one in reading.said if not one.branch]):
        moment = None if one.at_ms is None else datetime.fromtimestamp(one.at_ms / 1000, UTC)
        label = "--:--" if moment is None else f"{moment:%H:%M}"
        if one.speaker == "notice":
            label = ""
        elif moment and moment.date() != day:
            day = moment.date()
            label = f"{day} {label}"
        listed.append((one.speaker, one.text, label))
    return listed
