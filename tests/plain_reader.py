"""A second reader of transcripts: slow, whole file in memory, nothing shared with the product, so plain that it can be checked by eye.

It reads like the rules: `read_values` which lines are whole, `hear` whose words are in an entry, `settle_queue` what a
queue entry adds to them, `find_branches` which entries were rewound, `join` what is one message, `strip_private` what
may be shown, `bottle_blocks` what a bottle says. Where it and the product differ, one of them is wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Json = dict[str, Any]
PENDING = "typed while the model worked, not delivered when this was rendered"


@dataclass
class Said:
    """One message; before `join`, one block of it. `entry` is the place of its entry in the file, `part` names the message."""

    speaker: str  # user | assistant | notice
    kind: str
    text: str
    at_ms: int | None
    entry: float
    part: tuple[str, Any]
    branch: int = 0  # of a rewound branch its number, else 0


@dataclass
class Reading:
    said: list[Said]  # in the order of the bottle, rewound branches and compaction summaries included
    torn: int = 0  # lines of which something could not be read, the unfinished last one too
    repeated: int = 0  # later copies of an entry
    rewound: set[int] = field(default_factory=set)  # numbers of the rewound branches


def read_transcript(path: Path) -> Reading:
    values, torn = read_values(path.read_bytes())
    entries = [entry for value in values if (entry := as_entry(value))]
    if spoken := [e for e in entries if e["type"] in ("user", "assistant")]:
        if all(e.get("isSidechain") is True for e in spoken):  # an agent's own file
            entries = [{**e, "isSidechain": False} for e in entries]
    first: dict[Any, int] = {}
    kept = []
    for entry in entries:
        name = entry.get("uuid")
        if entry.get("operation") == "enqueue" and entry.get("timestamp"):
            name = json.dumps([entry["timestamp"], entry.get("content")])
        if not name or first.setdefault(name, len(kept)) == len(kept):
            kept.append(entry)
    said = hear_all(kept)
    branches = find_branches(kept, said)
    of_tree = [sum("uuid" in e and e.get("isSidechain") is not True for e in some) for some in (entries, kept)]
    return Reading(join(said, branches), torn, of_tree[0] - of_tree[1], set(branches.values()))


# --- lines ---


def read_values(data: bytes) -> tuple[list[Any], int]:
    """Every JSON value of a file and the number of torn lines. Lines end at LF only."""
    values: list[Any] = []
    torn = 0
    for line in data.split(b"\n"):
        found, is_whole = values_of_line(line.decode("utf-8", "replace").strip("\0\ufeff \t\r"))
        values += found
        torn += not is_whole
    if not any(isinstance(value, dict) for value in values):  # perhaps an array, or pretty-printed values
        found, is_whole = values_of_line(data.decode("utf-8", "replace").strip("\0\ufeff \t\r\n"))
        values = [item for value in found for item in (value if isinstance(value, list) else [value])]
        torn = int(not is_whole)
    return [without_halves(value) for value in values], torn


def values_of_line(text: str) -> tuple[list[Any], bool]:
    """The values that stand one after the other; after a cut record the ones that run whole up to the end."""
    values, rest = decode(text)
    if not rest:
        return values, True
    for start in (match.start() for match in re.finditer(r'\{"', rest)):
        tail, left = decode(rest[start:])
        if tail and not left and all(is_record(value) for value in tail):
            return values + tail, False
    return values, False


def decode(text: str) -> tuple[list[Any], str]:
    """The whole values at the start of a text, and what follows them."""
    values = []
    while text:
        try:
            value, end = json.JSONDecoder(strict=False).raw_decode(text)
        except (ValueError, RecursionError):
            break
        values.append(value)
        text = text[end:].lstrip("\0 \t\r\n")
    return values, text


def is_record(value: Any) -> bool:
    return isinstance(value, dict) and "type" in value and ("uuid" in value or "sessionId" in value)


def without_halves(value: Any) -> Any:
    """Half a surrogate pair is no character."""
    if isinstance(value, str):
        return re.sub("[\ud800-\udfff]", "\ufffd", value)
    if isinstance(value, list):
        return [without_halves(item) for item in value]
    return {key: without_halves(item) for key, item in value.items()} if isinstance(value, dict) else value


def as_entry(value: Any) -> Json | None:
    """An entry; a bare API message stands for one."""
    if not isinstance(value, dict):
        return None
    if value.get("role") in ("user", "assistant") and value.get("type") in (None, "message") and "message" not in value:
        return {"type": value["role"], "message": value}
    return value if isinstance(value.get("type"), str) else None


# --- words ---


def hear_all(entries: list[Json]) -> list[Said]:
    """Every block that somebody said, in order."""
    tools = {}
    for entry in entries:
        for block in blocks(message(entry).get("content")):
            if block.get("type") == "tool_use":
                tools[block.get("id")] = block.get("name")
    said: list[Said] = []
    for place, entry in enumerate(entries):
        if entry.get("isSidechain") is True:
            continue
        part = ("entry", place)
        if entry["type"] == "assistant" and message(entry).get("id"):
            part = ("message", message(entry)["id"])
        for speaker, kind, text in hear(entry, tools):
            if not text.strip():
                continue
            if "command" in kind and is_command_again(entry, text, said, entries):
                continue
            said.append(Said(speaker, kind, text, time_of(entry), place, part))
    return settle_queue(entries, said)


def hear(entry: Json, tools: Json) -> Iterator[tuple[str, str, str]]:
    """(speaker, kind, text) of each block of an entry."""
    content = blocks(message(entry).get("content"))
    match entry["type"]:
        case "assistant":
            kind = ("notice", "api_error") if entry.get("isApiErrorMessage") is True else ("assistant", "text")
            if kind[0] == "notice" or message(entry).get("model") != "<synthetic>":
                yield from ((*kind, text_of(block)) for block in content)
        case "user":
            yield from hear_user(entry, content, tools)
        case "attachment":
            attached = entry.get("attachment") or {}
            is_prompt = attached.get("type") == "queued_command" and attached.get("commandMode") != "task-notification"
            if is_prompt and is_human(attached) and is_human(entry):
                yield from hear_blocks(blocks(attached.get("prompt")), "queued")
        case "system" if entry.get("subtype") == "local_command":
            yield from (one for one in words(str(entry.get("content")), "prompt") if "command" in one[1])
        case "system" if entry.get("subtype") == "compact_boundary":
            about = entry.get("compactMetadata") or {}
            tokens = about.get("preTokens")
            facts = [about.get("trigger"), f"{tokens:,} tokens before" if tokens else None]
            listed = ", ".join(fact for fact in facts if fact)
            yield "notice", "compacted", "context compacted" + (f" ({listed})" if listed else "")


def hear_user(entry: Json, content: list[Json], tools: Json) -> Iterator[tuple[str, str, str]]:
    """What a user entry says: a prompt, or the user's words in and beside tool results."""
    opening = next((text_of(block) for block in content if text_of(block).strip()), "")
    is_typed = "promptSource" in entry or "origin" in entry
    is_summary = opening.startswith("This session is being continued from a previous conversation") and not is_typed
    if entry.get("isCompactSummary") is True or is_summary:
        return
    has_result = any(block.get("type") == "tool_result" for block in content)
    is_plan = isinstance(entry.get("planContent"), str)
    kind = "remark" if has_result else "plan" if is_plan else "prompt"
    heard = []
    for block in content:
        if block.get("type") == "tool_result":
            heard += hear_result(block, entry.get("toolUseResult"), tools.get(block.get("tool_use_id")))
        elif entry.get("isMeta") is not True and is_human(entry):
            heard += hear_blocks([block], kind)
    feedback = entry.get("userFeedback")
    if isinstance(feedback, str) and not any(feedback.strip() == text.strip() for _, _, text in heard):
        heard.append(("user", "remark", feedback))
    yield from heard


def hear_blocks(content: list[Json], kind: str) -> Iterator[tuple[str, str, str]]:
    for block in content:
        if block.get("type") in ("image", "document"):
            yield "user", kind, f"[{block['type']}]"
        else:
            yield from words(text_of(block), kind)


# Whole texts, and what stands before the user's words, that the host writes.
HOST_TEXT = re.compile(
    r"\s*(?:<(?:local-command-caveat|local-command-stdout|local-command-stderr|bash-stdout|bash-stderr|(?:task|bash)-notification"
    r"|ci-monitor-event|agent-message|teammate-message|session-start-hook)[\s>]"
    r"|Caveat: The messages below were generated by the user while running local commands"
    r"|Another Claude session sent a message|Unknown (?:slash command|skill): \S+\s*\Z|\[Image: [^\]]*\]\s*\Z)"
)
HOST_PREFIX = re.compile(
    r"\s*<(ide_opened_file|ide_selection|ide_diagnostics|system-reminder|user-prompt-submit-hook)(?:\s[^>]*)?>.*?</\1>\s*",
    re.S,
)
LOCAL = "exit quit clear model compact cost usage"


def words(text: str, kind: str) -> Iterator[tuple[str, str, str]]:
    """What is the user's in a text that stands in their name."""
    while prefix := HOST_PREFIX.match(text):
        text = text[prefix.end() :]
    if text.strip() in ("[Request interrupted by user]", "[Request interrupted by user for tool use]"):
        yield "notice", "interrupted", "interrupted by the user"
    elif HOST_TEXT.match(text):
        return
    elif re.match(r"\s*<command-(name|message|args)>", text):
        yield (
            "user",
            "command",
            "/" + f"{inside('command-name', text)} {inside('command-args', text)}".strip().removeprefix("/"),
        )
    elif re.match(r"\s*<bash-input>", text):
        yield "user", "bash", f"! {inside('bash-input', text)}"
    elif re.match(r"\s*<user-memory-input>", text):
        yield "user", kind, inside("user-memory-input", text)
    elif re.fullmatch(rf"/({LOCAL.replace(' ', '|')})( .*)?", text.strip()):
        yield "user", "command", text
    else:
        yield "user", kind, text


def inside(tag: str, text: str) -> str:
    found = re.search(f"<{tag}>(.*?)</{tag}>", text, re.S)
    return found.group(1) if found else ""


REFUSED = "The user doesn't want to proceed with this tool use"
SAID = "To tell you how to proceed, the user said:\n"
NOTE = "\n\nNote: The user's next message may contain a correction or preference."
ANSWERED = (
    (r"User has answered your questions: ", r"\. You can now continue[^\"]*\Z"),
    (r"Your questions have been answered: ", r"\. You can now continue[^\"]*\Z"),
    (r"The user answered: ", r"\. Read the answers carefully[^\"]*\Z"),
)


def hear_result(block: Json, beside: Any, tool: str | None) -> Iterator[tuple[str, str, str]]:
    """The user's words in a tool result; `beside` is the host's own copy of the result."""
    text = "\n".join(text_of(one) for one in blocks(block.get("content")))
    beside = beside if isinstance(beside, dict) else {}
    if block.get("is_error") is True and text.startswith(REFUSED) and SAID in text:
        said = text.split(SAID, 1)[1].split(NOTE)[0]
        if not said.startswith("The user wants to clarify these questions"):
            yield "user", "rejection", said
            return
        pairs = re.findall(r'^- "(.*)"\n  Answer: (.*)$', said, re.M)
        yield "user", "answer", "\n".join(f"Q: {question}\nA: {answer}" for question, answer in pairs)
    elif text.startswith("User has approved your plan") and tool in ("ExitPlanMode", None):
        plan = re.split(r"## Approved Plan.*?:\n", text, maxsplit=1)[1:] or [beside.get("plan")]
        yield "user", "plan", f"[approved plan]\n\n{plan[0]}" if isinstance(plan[0], str) else "[approved plan]"
    elif tool in ("AskUserQuestion", None):
        for opening, closing in ANSWERED:
            if text.startswith(opening):
                yield "user", "answer", answers(re.split(closing, text[len(opening) :])[0].removesuffix("."), beside)


def answers(listed: str, beside: Json) -> str:
    """`Q: …` and `A: …` lines from the host's copy, else from `"Q"="A", "Q"="A"`, where a comma may stand in an answer."""
    lines = []
    given = beside.get("answers")
    if isinstance(given, dict) and given:
        for question, answer in given.items():
            answer = ", ".join(answer) if isinstance(answer, list) else answer
            notes = ((beside.get("annotations") or {}).get(question) or {}).get("notes")
            lines += [f"Q: {question}", f"A: {answer}", *([notes] if notes else [])]
        return "\n".join(lines)
    if '"="' not in listed:
        return f"A: {listed}" if listed.strip() else ""
    pairs: list[str] = []
    for piece in listed[1:-1].split('", "'):
        if '"="' in piece:
            pairs.append(piece)
        else:
            pairs[-1] += f'", "{piece}'
    return "\n".join(f"Q: {question}\nA: {answer}" for question, answer in (pair.split('"="', 1) for pair in pairs))


def is_command_again(entry: Json, text: str, said: list[Said], entries: list[Json]) -> bool:
    """A command can be written as typed and then in its envelope, under one promptId."""
    if entry.get("promptId") is None or not str(message(entry).get("content")).startswith("<command-"):
        return False
    same = [entries[int(one.entry)] for one in said if one.text.strip() == text]
    return any(other.get("promptId") == entry["promptId"] for other in same)


def is_human(about: Json) -> bool:
    origin = about.get("origin")
    return not isinstance(origin, dict) or origin.get("kind") in (None, "human")


def message(entry: Json) -> Json:
    found = entry.get("message")
    return found if isinstance(found, dict) else {}


def blocks(content: Any) -> list[Json]:
    """Content as a list of blocks, whether it is a string, a list of blocks, or of both."""
    listed = content if isinstance(content, list) else [content]
    as_blocks = ({"type": "text", "text": item} if isinstance(item, str) else item for item in listed)
    return [block for block in as_blocks if isinstance(block, dict)]


def text_of(block: Json) -> str:
    text = block.get("text") if block.get("type") == "text" else ""
    return text if isinstance(text, str) else ""


def time_of(entry: Json) -> int | None:
    try:
        moment = datetime.fromisoformat(entry["timestamp"])
    except (KeyError, TypeError, ValueError):
        return None
    return round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)


# --- the queue ---


def settle_queue(entries: list[Json], said: list[Said]) -> list[Said]:
    """Add what was typed while the model worked and stands in no other entry: where it was delivered, or at the end."""
    waiting: list[int] = []  # places of enqueued texts
    sent: list[tuple[int, int]] = []  # places of an enqueued text and of its delivery
    for place, entry in enumerate(entries):
        operation = entry.get("operation") if entry["type"] == "queue-operation" else None
        if operation == "enqueue":
            waiting.append(place)
        elif operation == "popAll":  # it went back to the input box
            waiting = []
        elif operation in ("dequeue", "remove") and waiting:
            text = content_text(entry)
            named = [one for one in waiting if text and operation == "remove" and content_text(entries[one]) == text]
            sent.append(((named or waiting)[0], place))
            waiting.remove(sent[-1][0])
    spoken: dict[int, list[Said]] = {}
    for one in said:
        if one.speaker == "user":
            spoken.setdefault(int(one.entry), []).append(one)
    used: set[int] = set()

    def is_shown(ways: list[tuple[int, int]]) -> bool:
        """Whether a user's entry says these texts, one below the other. Each entry is that of one delivery only.

        The same word typed again much later is another one: three entries on, or ten minutes; a fork can write older
        entries in between, so within a minute any entry counts. A longer prompt shows a text that is its first or last
        lines, or lines in its middle that are too long to be there by chance.
        """
        text = "\n".join(typed_text(entries[typed]) for typed, _ in ways)
        (typed, delivered), at_ms = ways[0], time_of(entries[ways[0][1]])
        for place, group in spoken.items():
            there = "\n\n".join(one.text for one in group if one.text not in ("[image]", "[document]"))
            between = sum(delivered < other < place for other in spoken)
            gap = None if group[0].at_ms is None or at_ms is None else abs(group[0].at_ms - at_ms)
            is_near = between < 3 if gap is None else gap <= 60_000 or (between < 3 and gap <= 600_000)
            if place > typed and place not in used and there.split() == text.split() and is_near:
                used.add(place)
                return True
            edges = there.startswith(f"{text}\n") or there.endswith(f"\n{text}")
            is_part = edges or (len(text) >= 20 and f"\n{text}\n" in there)
            if place > typed and text and len(ways) == 1 and between < 3 and is_part:
                return True
        return False

    ways = sorted(way for way in [*sent, *((typed, typed) for typed in waiting)] if typed_text(entries[way[0]]))
    joined: set[int] = set()
    for first in range(len(ways)):
        for end in range(len(ways), first + 1, -1):
            if ways[first][0] not in joined and is_shown(ways[first:end]):
                joined |= {typed for typed, _ in ways[first:end]}
    added = []
    for typed, delivered in sent:
        if typed not in joined and not is_shown([(typed, delivered)]):
            added += say(entries[typed], "queued", typed, delivered, time_of(entries[delivered]))
    for typed in waiting:
        at_ms = time_of(entries[typed])
        rows = (
            []
            if typed in joined or is_shown([(typed, typed)])
            else say(entries[typed], "pending", typed, len(entries), at_ms)
        )
        if rows:
            added.append(Said("notice", "note", PENDING, at_ms, len(entries), ("queue", -typed)))
        added += rows
    return sorted([*said, *added], key=lambda one: one.entry)


def say(entry: Json, kind: str, typed: int, place: int, at_ms: int | None) -> list[Said]:
    heard = hear_blocks(blocks(entry.get("content")), kind)
    return [Said(*one, at_ms, place, ("queue", typed)) for one in heard if one[2].strip()]


def typed_text(entry: Json) -> str:
    """What the user typed into the queue, without what the host put before it."""
    content = blocks(entry.get("content"))
    return "\n".join(text for block in content for _, _, text in words(text_of(block), "queued") if text).strip()


def content_text(entry: Json) -> str:
    return "\n".join(text for block in blocks(entry.get("content")) if (text := text_of(block)))


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
    off_chain = [place for place in places.values() if entries[place].get("isSidechain") is not True]
    chain = []
    while off_chain:
        parent = parents[chain[-1]] if chain else None
        earlier = [place for place in off_chain if not chain or place < chain[-1]]
        if parent not in off_chain and not earlier:
            break
        chain.append(parent if parent in off_chain else earlier[-1])
        off_chain.remove(chain[-1])
    prompts = {int(one.entry) for one in said if one.kind == "prompt" and one.part[0] == "entry"} & set(parents)
    forks = {parents[prompt] for prompt in prompts & set(chain)} - {None}
    forks -= {place for place in forks if entries[place].get("isMeta") is True}
    heads = sorted(prompt for prompt in prompts - set(chain) if parents[prompt] in forks)
    branches = {}
    for place in parents:
        above = [place]
        while parents[above[-1]] is not None and parents[above[-1]] not in [*above, *chain]:
            above.append(parents[above[-1]])
        rewound = [one for one in above if one in heads and place not in chain]
        if rewound:
            branches[place] = 1 + heads.index(rewound[-1])
    return branches


# --- messages ---


def join(said: list[Said], branches: dict[int, int]) -> list[Said]:
    """Blocks that follow one another in one message are one text, with blank lines between; its time is the first known.

    What hangs on no entry stands on a rewound branch if what is before and after it does.
    """
    messages: list[Said] = []
    tied = [one for one in said if one.part[0] != "queue"]
    for one in said:
        before = [other for other in tied if other.entry <= one.entry][-1:]
        after = [other for other in tied if other.entry >= one.entry][:1]
        around = {branches.get(int(other.entry), 0) for other in (before or [one]) + (after or [one])}
        one = replace(one, branch=around.pop() if len(around) == 1 else 0)
        last = messages[-1] if messages else None
        if last and (last.part, last.speaker, last.branch) == (one.part, one.speaker, one.branch):
            last.text += f"\n\n{one.text}"
            last.at_ms = one.at_ms if last.at_ms is None else last.at_ms
        else:
            messages.append(one)
    return messages


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
