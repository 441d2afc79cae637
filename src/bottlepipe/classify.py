"""Stage 2, `classify`: entries in, MESSAGES, TOOL_CALLS and TREE rows out.

The decision this stage owns: who said it, and is it conversation? User words stand in nine kinds of places (see the
conformance page); text that Claude Code injects is recognised by known tag names or opening words at the start
of a text, never by "begins with `<`", because users paste HTML.

When in doubt a text is kept.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import polars as pl

from bottlepipe.envelopes import (
    ANSWER,
    API_ERROR,
    COMMAND,
    COMPACT_SUMMARY,
    COMPACTED,
    CONTINUED,
    INTERRUPTED,
    INTERRUPTION,
    LOCAL_COMMAND,
    NOTE,
    PENDING,
    PLAN,
    PLAN_HANDOVER,
    PROMPT,
    QUEUED,
    REJECTION,
    REMARK,
    TEXT,
    is_local_command,
    own_words,
)
from bottlepipe.frames import MESSAGES, TOOL_CALLS, TREE, frame
from bottlepipe.read import Block, Entry, Skipped, decode_raw
from bottlepipe.times import parse_ms

_REJECTED = b"he user said:"
_REJECTION = re.compile(
    r"\s*(?:The user doesn't want to proceed with this tool use|Permission for this tool use was denied)\."
    r".*?[Tt]he user said:\r?\n(.*)\Z",
    re.DOTALL,
)
_REJECTION_NOTE = re.compile(
    r"\n\nNote: The user's next message may contain a correction or preference\..*\Z", re.DOTALL
)
# Written by Claude Code when the user breaks off a questionnaire; the answers given until then stand in it.
_BROKEN_OFF = re.compile(
    r"\s*The user (?:wants to clarify these questions|has indicated they have provided enough answers)"
)
_ANSWER_SO_FAR = re.compile(r'^- "(.*)"\n  Answer: (.*(?:\n(?!- "|  \().*)*)', re.MULTILINE)
_ANSWERED = (b"answered your questions:", b"questions have been answered:", b"The user answered:")
_ANSWERS = re.compile(
    r"\s*(?:User has answered your questions|Your questions have been answered|The user answered): ?(.*?)"
    r"(?:\. (?:You can now continue with|Read the answers carefully)[^\n]*)?\Z",
    re.DOTALL,
)
_APPROVED = b"User has approved your plan"
_MARKS = (_REJECTED, *_ANSWERED, _APPROVED)
# The tools whose results may speak for the user. What another tool returns can look the same: it is a file's text.
_ASKING_TOOL = "AskUserQuestion"
_PLANNING_TOOL = "ExitPlanMode"

_MEDIA = ("[image]", "[document]")
_NEAR_MS = 60_000
_SOON_MS = 600_000
_MANY = 64
_SURE = 20  # so many characters do not stand in another prompt by chance


@dataclass(slots=True)
class Classified:
    """Everything one transcript gives. `folders` are the working folders it was ever in, the first one first."""

    messages: pl.DataFrame
    tree: pl.DataFrame
    tool_calls: pl.DataFrame
    folders: list[str]
    started_ms: int | None
    content_session_id: str | None
    skipped: Counter[str]
    left_out: Counter[str]
    is_subagent: bool


@dataclass(frozen=True, slots=True)
class _Queued:
    """A text in Claude Code's input queue: the user's words in it, and the raw content as the queue holds it."""

    seq: int
    at_ms: int | None
    words: str
    raw: str

    @property
    def kind(self) -> str | None:
        return LOCAL_COMMAND if is_local_command(self.words) else None


@dataclass(slots=True)
class _State:
    session_id: str
    messages: list[tuple[Any, ...]] = field(default_factory=list)
    tree: list[tuple[Any, ...]] = field(default_factory=list)
    tool_calls: list[tuple[Any, ...]] = field(default_factory=list)
    queue: list[_Queued] = field(default_factory=list)
    delivered: list[tuple[_Queued, int, int | None]] = field(default_factory=list)
    enqueued: set[tuple[str, str]] = field(default_factory=set)
    tools: dict[str, str] = field(default_factory=dict)
    # Rows said by a result that stands before its call, with the call's id and the tool that alone may say them.
    unsure: list[tuple[int, str, str]] = field(default_factory=list)
    typed: tuple[str | None, str] = (None, "")
    skipped: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    seq: int = 0
    entry: int = -1

    def say(self, speaker: str, kind: str, text: str, at_ms: int | None, message_id: str) -> None:
        self.messages.append((self.session_id, self.seq, speaker, kind, text, at_ms, self.entry, message_id))


def classify_entries(entries: Iterable[Entry | Skipped], session_id: str, *, as_subagent: bool = False) -> Classified:
    """Judge every entry of one transcript. With `as_subagent`, sidechain entries are the conversation.

    `skipped` counts what `read` could not use, by reason; `left_out` what is nobody's speech, by what it is.
    """
    state = _State(session_id)
    folders: dict[str, None] = {}
    content_session_id = None
    started_ms: int | None = None
    sidechain_entries = main_entries = 0
    for entry in entries:
        if isinstance(entry, Skipped):
            state.skipped[entry.reason] += 1
            continue
        state.seq += 1
        is_sidechain = bool(entry.is_sidechain) and not as_subagent
        if entry.type in ("user", "assistant"):
            sidechain_entries += bool(entry.is_sidechain)
            main_entries += not entry.is_sidechain
        if not is_sidechain:
            if entry.cwd:
                folders[entry.cwd] = None
            content_session_id = content_session_id or entry.session_id
            if started_ms is None and entry.timestamp and entry.uuid:
                started_ms = parse_ms(entry.timestamp)
        _grow_tree(state, entry, is_sidechain)
        if is_sidechain:
            if entry.type in ("user", "assistant"):
                state.left_out["subagent entries"] += 1
            continue
        first_row = len(state.messages)
        _judge(state, entry)
        if entry.uuid and any(row[3] == PROMPT for row in state.messages[first_row:]):
            state.tree[-1] = (*state.tree[-1][:-1], True)
    forged = {row for row, call, only in state.unsure if state.tools.get(call, only) != only}
    state.messages = [message for row, message in enumerate(state.messages) if row not in forged]
    _settle_queue(state)
    state.messages.sort(key=lambda row: row[1])
    return Classified(
        frame(state.messages, MESSAGES),
        frame(state.tree, TREE),
        frame(state.tool_calls, TOOL_CALLS),
        list(folders),
        started_ms,
        content_session_id,
        state.skipped,
        state.left_out,
        is_subagent=sidechain_entries > 0 and main_entries == 0,
    )


def _grow_tree(state: _State, entry: Entry, is_sidechain: bool) -> None:
    if not entry.uuid:
        state.entry = -1
        return
    parent = entry.parent_uuid
    if parent is None and entry.logical_parent_uuid is not None:
        parent = entry.logical_parent_uuid
    state.entry = len(state.tree)
    state.tree.append(
        (
            state.session_id,
            state.seq,
            hash(entry.uuid),
            None if parent is None else hash(parent),
            is_sidechain,
            bool(entry.is_meta),
            False,
        )
    )


def _judge(state: _State, entry: Entry) -> None:
    match entry.type:
        case "user":
            _judge_user(state, entry)
        case "assistant":
            _judge_assistant(state, entry)
        case "system":
            _judge_system(state, entry)
        case "attachment":
            _judge_attachment(state, entry)
        case "queue-operation":
            _judge_queue(state, entry)


def _message_id(state: _State, entry: Entry) -> str:
    # A message's blocks stand in several entries under one API id; everything else is a message of its own.
    if entry.message is not None and entry.message.id:
        return f"api:{entry.message.id}"
    return f"entry:{state.seq}"


def _judge_assistant(state: _State, entry: Entry) -> None:
    if entry.message is None:
        return
    at_ms = parse_ms(entry.timestamp)
    message_id = _message_id(state, entry)
    content = entry.message.content
    blocks: list[Block | str | None] = [content] if isinstance(content, str) else content or []
    for block in blocks:
        if isinstance(block, Block) and block.type == "tool_use" and block.id:
            state.tool_calls.append((state.session_id, state.seq, block.id, block.name or "", at_ms, state.entry))
            state.tools[block.id] = block.name or ""
            continue
        text = _block_text(block)
        if not text or not text.strip():
            continue
        if entry.is_api_error_message:
            state.say("notice", API_ERROR, text, at_ms, message_id)
        elif entry.message.model == "<synthetic>":
            state.left_out["synthetic answers"] += 1
        else:
            state.say("assistant", TEXT, text, at_ms, message_id)


def _judge_user(state: _State, entry: Entry) -> None:
    message = entry.message
    if message is None or message.content is None:
        return
    at_ms = parse_ms(entry.timestamp)
    content = message.content
    blocks: list[Block | str | None] = [content] if isinstance(content, str) else content
    has_result = False
    for block in blocks:
        if isinstance(block, Block) and block.type == "tool_result":
            has_result = True
            if not entry.is_meta:
                _judge_result(state, entry, block, at_ms)
    if entry.is_compact_summary or entry.is_visible_in_transcript_only:
        state.left_out["compaction summaries"] += 1
        for text in _texts(blocks):
            state.say("notice", COMPACT_SUMMARY, text, at_ms, f"entry:{state.seq}")
        return
    kind = entry.origin.kind if entry.origin is not None else None
    if entry.is_meta or kind in ("task-notification", "peer"):
        if any(_texts(blocks)):
            state.left_out["injected texts"] += 1
        return
    for block in blocks:
        if isinstance(block, Block) and block.type in ("image", "document"):
            state.say("user", REMARK if has_result else PROMPT, f"[{block.type}]", at_ms, f"entry:{state.seq}")
            continue
        if own := _block_text(block):
            _judge_user_text(state, entry, own, at_ms, has_result)
    _judge_feedback(state, entry, at_ms)


def _judge_feedback(state: _State, entry: Entry, at_ms: int | None) -> None:
    """Keep what the user wrote to a permission request, where it stands beside the result only."""
    words = decode_raw(entry.user_feedback)
    if not isinstance(words, str) or not words.strip():
        return
    if not any(row[1] == state.seq and words.strip() in row[4] for row in state.messages[-8:]):
        state.say("user", REMARK, words, at_ms, f"entry:{state.seq}:feedback")


def _block_text(block: Block | str | None) -> str | None:
    if isinstance(block, Block):
        return block.text if block.type == "text" else None
    return block


def _texts(blocks: list[Block | str | None]) -> list[str]:
    return [text for block in blocks if (text := _block_text(block))]


def _judge_user_text(state: _State, entry: Entry, text: str, at_ms: int | None, has_result: bool) -> None:
    """Say what one text block of a user entry holds."""
    message_id = f"entry:{state.seq}"
    if text.startswith(CONTINUED) and entry.prompt_source is None and entry.origin is None and not has_result:
        state.left_out["compaction summaries"] += 1
        state.say("notice", COMPACT_SUMMARY, text, at_ms, message_id)
        return
    if INTERRUPTION.match(text):
        state.say("notice", INTERRUPTED, "interrupted by the user", at_ms, message_id)
        return
    kind, own = own_words(text)
    if own is None or (own != text and text.endswith(own)):
        state.left_out["injected texts"] += 1
    if own is None:
        return
    if not own.strip():
        return
    if kind in (COMMAND, LOCAL_COMMAND) and entry.prompt_id and state.typed == (entry.prompt_id, own):
        # Some versions write the command as it was typed first, and then again in its envelope.
        return
    if kind == PROMPT:
        state.typed = (entry.prompt_id, own.strip())
    if kind == PROMPT and has_result:
        kind = REMARK
    elif kind == PROMPT and is_local_command(own):
        kind = LOCAL_COMMAND
    elif kind == PROMPT and (entry.plan_content is not None and own.startswith(PLAN_HANDOVER)):
        kind = PLAN
    state.say("user", kind, own, at_ms, message_id)


def _judge_result(state: _State, entry: Entry, block: Block, at_ms: int | None) -> None:
    """Cut the user's words out of a tool result: a rejection, answers to questions, an approved plan."""
    tool = state.tools.get(block.tool_use_id or "")
    if tool not in (_ASKING_TOOL, _PLANNING_TOOL, None) and not block.is_error:
        return
    # The Raw aliases the read buffer: look for the markers now, decode only where one stands.
    raw = bytes(block.content)
    if not raw or not any(mark in raw for mark in _MARKS):
        return
    text = _result_text(block.content)
    message_id = f"entry:{state.seq}:{block.tool_use_id}"
    if block.is_error and (rejection := _REJECTION.match(text)):
        kind, words = REJECTION, _REJECTION_NOTE.sub("", rejection.group(1))
        if _BROKEN_OFF.match(words):
            kind, words = ANSWER, _questions_and_answers(_ANSWER_SO_FAR.findall(words))
        if words.strip():
            state.say("user", kind, words, at_ms, message_id)
    elif tool in (_ASKING_TOOL, None) and (answers := _ANSWERS.match(text)):
        if words := _answers(entry, answers.group(1)).strip("\n"):
            _doubt(state, block, tool, _ASKING_TOOL)
            state.say("user", ANSWER, words, at_ms, message_id)
    elif tool in (_PLANNING_TOOL, None) and text.startswith(_APPROVED.decode()):
        _, heading, rest = text.partition("## Approved Plan")
        about = rest.partition("\n")[2] if heading else _result_field(entry, "plan")
        said = f"\n\n{about}" if isinstance(about, str) and about.strip() else ""
        _doubt(state, block, tool, _PLANNING_TOOL)
        state.say("user", PLAN, f"[approved plan]{said}", at_ms, message_id)


def _doubt(state: _State, block: Block, tool: str | None, only: str) -> None:
    """Any tool's output can look like the user's answer: what comes before its call is judged when that is known."""
    if tool is None and block.tool_use_id:
        state.unsure.append((len(state.messages), block.tool_use_id, only))


def _result_text(raw: msgspec.Raw) -> str:
    value = decode_raw(raw)
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(b["text"] for b in value if isinstance(b, dict) and isinstance(b.get("text"), str))
    return ""


def _result_field(entry: Entry, name: str) -> Any:
    value = decode_raw(entry.tool_use_result)
    return value.get(name) if isinstance(value, dict) else None


def _answers(entry: Entry, text: str) -> str:
    """`Q: …` and `A: …` lines; the clean answers beside the result where they are, else cut out of its text."""
    answers = _result_field(entry, "answers")
    if isinstance(answers, dict):
        notes = _result_field(entry, "annotations")
        return _questions_and_answers(
            (question, _answer(answer) + _note(notes, question)) for question, answer in answers.items()
        )
    if not (text.startswith('"') and '"="' in text):
        return f"A: {text}" if text.strip(" .") else ""
    pairs: list[list[str]] = []
    for piece in text.removesuffix(".").removeprefix('"').removesuffix('"').split('", "'):
        question, is_pair, answer = piece.partition('"="')
        if is_pair or not pairs:
            pairs.append([question, answer])
        else:
            # Quotes and a comma inside an answer: it is not over yet.
            pairs[-1][1] += f'", "{piece}'
    return _questions_and_answers((question, answer) for question, answer in pairs)


def _questions_and_answers(pairs: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"Q: {question}\nA: {answer}" for question, answer in pairs)


def _answer(answer: Any) -> str:
    if isinstance(answer, list) and all(isinstance(choice, str) for choice in answer):
        return ", ".join(answer)
    return answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()


def _note(notes: Any, question: str) -> str:
    """What the user wrote beside a choice."""
    about = notes.get(question) if isinstance(notes, dict) else None
    note = about.get("notes") if isinstance(about, dict) else None
    return f"\n{note}" if isinstance(note, str) and note.strip() else ""


def _judge_system(state: _State, entry: Entry) -> None:
    at_ms = parse_ms(entry.timestamp)
    if entry.subtype == "compact_boundary":
        about = entry.compact_metadata
        facts = [about.trigger] if about and about.trigger else []
        if about and about.pre_tokens is not None:
            facts.append(f"{about.pre_tokens:,} tokens before")
        text = "context compacted" + (f" ({', '.join(facts)})" if facts else "")
        state.say("notice", COMPACTED, text, at_ms, f"entry:{state.seq}")
    elif entry.subtype == "local_command" and isinstance(entry.content, str):
        kind, own = own_words(entry.content)
        if own and kind != PROMPT:
            state.say("user", LOCAL_COMMAND if kind == COMMAND else kind, own, at_ms, f"entry:{state.seq}")


def _judge_attachment(state: _State, entry: Entry) -> None:
    about = entry.attachment
    if about is None or about.type != "queued_command" or about.prompt is None:
        return
    if about.command_mode == "task-notification" or (about.origin and about.origin.kind not in (None, "human")):
        state.left_out["injected texts"] += 1
        return
    at_ms = parse_ms(entry.timestamp)
    blocks: list[Block | str | None] = [about.prompt] if isinstance(about.prompt, str) else about.prompt
    found = _queued_words(blocks)
    if not found:
        state.left_out["injected texts"] += 1
    for kind, words in found:
        if kind == PROMPT:
            kind = LOCAL_COMMAND if is_local_command(words) else QUEUED
        state.say("user", kind, words, at_ms, f"entry:{state.seq}")


def _queued_words(blocks: list[Block | str | None]) -> list[tuple[str, str]]:
    words: list[tuple[str, str]] = []
    for block in blocks:
        if isinstance(block, Block) and block.type in ("image", "document"):
            words.append((PROMPT, f"[{block.type}]"))
            continue
        text = _block_text(block)
        if text:
            kind, own = own_words(text)
            if own and own.strip():
                words.append((kind, own))
    return words


def _judge_queue(state: _State, entry: Entry) -> None:
    """Pair queue operations first in, first out; what became of each text is settled at the end of the file."""
    at_ms = parse_ms(entry.timestamp)
    if entry.operation == "enqueue":
        content = entry.content
        blocks: list[Block | str | None] = [content] if isinstance(content, str) else content or []
        words = "\n\n".join(text for _, text in _queued_words(blocks))
        raw = "\n\n".join(_texts(blocks))
        # These entries have no uuid: where a file was appended to itself, time and text tell that one came before.
        identity = (entry.timestamp or f"{state.seq}", raw)
        if identity not in state.enqueued:
            state.enqueued.add(identity)
            state.queue.append(_Queued(state.seq, at_ms, words, raw))
    elif entry.operation == "popAll":
        # The texts went back to the input box: nothing was sent.
        state.queue.clear()
    elif entry.operation in ("dequeue", "remove") and state.queue:
        named = (i for i, queued in enumerate(state.queue) if queued.raw == entry.content)
        state.delivered.append((state.queue.pop(next(named, 0)), state.seq, at_ms))


def _settle_queue(state: _State) -> None:
    """Say every queued text that left no other trace: where it was delivered, or at the end if it still waits.

    A trace is a user message that says the same, no later than three messages or a minute after the delivery (a fork
    writes the older entries of its session in between), or one that the text was joined into. Each message is the
    trace of one equal text only.
    """
    spoken = _spoken(state)
    seqs = [seq for seq, _, _ in spoken]
    by_key: dict[str, list[int]] = {}
    for index, (_, _, text) in enumerate(spoken):
        by_key.setdefault(_key(text), []).append(index)

    def has_trace(queued: _Queued, delivered: int, at_ms: int | None) -> bool:
        start, end = bisect_left(seqs, queued.seq), bisect_left(seqs, delivered) + 3
        key = _key(_without_media(queued.words))
        equal = by_key.get(key, [])
        first = bisect_left(equal, start)
        for position, index in enumerate(equal[first : first + 16], first):
            said_ms = spoken[index][1]
            gap = abs(said_ms - at_ms) if at_ms is not None and said_ms is not None else None
            # The same word typed again much later is another one.
            if (index < end and (gap is None or gap <= _SOON_MS)) or (gap is not None and gap <= _NEAR_MS):
                del equal[position]
                return True
        words = queued.words.strip()
        return any(
            _holds(text.strip(), words) for _, _, text in spoken[max(start, end - _MANY) : end] if _key(text) != key
        )

    state.entry = -1
    for queued, delivered, at_ms in state.delivered:
        if queued.words.strip() and not has_trace(queued, delivered, at_ms):
            state.seq = delivered
            state.say("user", queued.kind or QUEUED, queued.words, at_ms, f"queue:{queued.seq}")
    end_of_file = max((row[1] for row in state.tree), default=0) + 1
    for queued in state.queue:
        if queued.words.strip() and not has_trace(queued, queued.seq, queued.at_ms):
            state.seq = max(end_of_file, queued.seq)
            note = "typed while the model worked, not delivered when this was rendered"
            state.say("notice", NOTE, note, queued.at_ms, f"note:{queued.seq}")
            state.say("user", queued.kind or PENDING, queued.words, queued.at_ms, f"queue:{queued.seq}")


def _spoken(state: _State) -> list[tuple[int, int | None, str]]:
    """Place, time and words of each user message, without the entries that repeat an earlier one."""
    first: dict[int, int] = {}
    for row, (_, _, uuid_hash, *_) in enumerate(state.tree):
        first.setdefault(uuid_hash, row)
    messages: dict[str, tuple[int, int | None, list[str]]] = {}
    for _, seq, speaker, _, text, at_ms, entry, message_id in state.messages:
        if speaker == "user" and (entry < 0 or first[state.tree[entry][2]] == entry):
            messages.setdefault(message_id, (seq, at_ms, []))[2].append(text)
    return [(seq, at_ms, _without_media("\n\n".join(texts))) for seq, at_ms, texts in messages.values()]


def _without_media(text: str) -> str:
    """The words of a message: its placeholders for images and documents stand in places of their own."""
    return "\n\n".join(part for part in text.split("\n\n") if part not in _MEDIA)


def _holds(text: str, words: str) -> bool:
    """True for a prompt that a queued text was joined into: at its start or end, or anywhere if it is no short word."""
    if len(words) >= _SURE:
        return f"\n{words}\n" in f"\n{text}\n"
    return text.startswith(f"{words}\n") or text.endswith(f"\n{words}")


def _key(text: str) -> str:
    return " ".join(text.split())
