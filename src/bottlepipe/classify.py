"""Stage 2, `classify`: entries in, MESSAGES, TOOL_CALLS and TREE rows out.

The decision this stage owns: who said it, and is it conversation? User words stand in nine places (see `_USER_PLACES`
in the conformance page); text that Claude Code injects is recognised by known tag names or opening words at the start
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
    COMMAND_LINE,
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
    own_words,
)
from bottlepipe.frames import MESSAGES, TOOL_CALLS, TREE, frame
from bottlepipe.read import Block, Entry, Skipped
from bottlepipe.times import parse_ms

_REJECTED = b"the user said:"
_REJECTION = re.compile(r"The user doesn't want to proceed with this tool use\..*?the user said:\r?\n(.*)\Z", re.DOTALL)
_REJECTION_NOTE = re.compile(
    r"\n\nNote: The user's next message may contain a correction or preference\..*\Z", re.DOTALL
)
_CLARIFY = "The user wants to clarify these questions"
_ANSWERED = (b"answered your questions:", b"questions have been answered:", b"The user answered:")
_ANSWERS = re.compile(
    r"\s*(?:User has answered your questions: |Your questions have been answered: |The user answered: )(.*)\Z",
    re.DOTALL,
)
_ANSWER_PAIR = re.compile(r'"((?:[^"]|"(?!=))*)"="(.*?)"(?=, "|\. |\.?\Z)', re.DOTALL)
_APPROVED = b"User has approved your plan"
_APPROVED_PLAN = re.compile(r"## Approved Plan[^\n]*:\n(.*)\Z", re.DOTALL)
_MARKS = (_REJECTED, *_ANSWERED, _APPROVED)


@dataclass(slots=True)
class Classified:
    """Everything one transcript gives. `cwd` and `started_ms` come from its first entries that have them."""

    messages: pl.DataFrame
    tree: pl.DataFrame
    tool_calls: pl.DataFrame
    cwd: str | None
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


@dataclass(slots=True)
class _State:
    session_id: str
    messages: list[tuple[Any, ...]] = field(default_factory=list)
    tree: list[tuple[Any, ...]] = field(default_factory=list)
    tool_calls: list[tuple[Any, ...]] = field(default_factory=list)
    queue: list[_Queued] = field(default_factory=list)
    delivered: list[tuple[_Queued, int, int | None]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    seq: int = 0
    entry: int = -1

    def say(self, speaker: str, kind: str, text: str, at_ms: int | None, message_id: str) -> None:
        self.messages.append((self.session_id, self.seq, speaker, kind, text, at_ms, self.entry, message_id))


def classify_entries(entries: Iterable[Entry | Skipped], session_id: str, *, as_subagent: bool = False) -> Classified:
    """Judge every entry of one transcript. With `as_subagent`, sidechain entries are the conversation.

    `skipped` counts what `read` could not use, by reason; `left_out` counts text that is nobody's speech, by what it is.
    """
    state = _State(session_id)
    cwd = content_session_id = None
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
            cwd = cwd or entry.cwd
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
        if entry.uuid is not None and any(row[3] == PROMPT for row in state.messages[first_row:]):
            state.tree[-1] = (*state.tree[-1][:-1], True)
    _settle_queue(state)
    state.messages.sort(key=lambda row: row[1])
    return Classified(
        frame(state.messages, MESSAGES),
        frame(state.tree, TREE),
        frame(state.tool_calls, TOOL_CALLS),
        cwd,
        started_ms,
        content_session_id,
        state.skipped,
        state.left_out,
        is_subagent=sidechain_entries > 0 and main_entries == 0,
    )


def _grow_tree(state: _State, entry: Entry, is_sidechain: bool) -> None:
    if entry.uuid is None:
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
            continue
        text = _block_text(block)
        if not text:
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
        text = _block_text(block)
        if text:
            _judge_user_text(state, entry, text, at_ms, has_result)


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
    if own is None:
        state.left_out["injected texts"] += 1
        return
    if not own.strip():
        return
    if kind == PROMPT and has_result:
        kind = REMARK
    elif kind == PROMPT and (entry.plan_content is not None and own.startswith(PLAN_HANDOVER)):
        kind = PLAN
    state.say("user", kind, own, at_ms, message_id)


def _judge_result(state: _State, entry: Entry, block: Block, at_ms: int | None) -> None:
    """Cut the user's words out of a tool result: a rejection, answers to questions, an approved plan."""
    # The Raw aliases the read buffer: look for the markers now, decode only where one stands.
    raw = bytes(block.content)
    if not raw or not any(mark in raw for mark in _MARKS):
        return
    text = _result_text(raw)
    message_id = f"entry:{state.seq}:{block.tool_use_id}"
    if rejection := _REJECTION.match(text):
        words = _REJECTION_NOTE.sub("", rejection.group(1))
        if words.strip() and not words.lstrip().startswith(_CLARIFY):
            state.say("user", REJECTION, words, at_ms, message_id)
    elif answers := _ANSWERS.match(text):
        state.say("user", ANSWER, _answers(entry, answers.group(1)), at_ms, message_id)
    elif text.startswith(_APPROVED.decode()):
        plan = _APPROVED_PLAN.search(text)
        words = plan.group(1) if plan else _result_field(entry, "plan")
        state.say("user", PLAN, "[approved plan]" + (f"\n\n{words}" if words else ""), at_ms, message_id)


def _result_text(raw: bytes) -> str:
    value = msgspec.json.decode(raw)
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(b["text"] for b in value if isinstance(b, dict) and isinstance(b.get("text"), str))
    return ""


def _result_field(entry: Entry, name: str) -> Any:
    raw = bytes(entry.tool_use_result)
    value = msgspec.json.decode(raw) if raw else None
    return value.get(name) if isinstance(value, dict) else None


def _answers(entry: Entry, text: str) -> str:
    """`Q: …` and `A: …` lines; the clean answers beside the result where they are, else cut out of its text."""
    answers = _result_field(entry, "answers")
    if isinstance(answers, dict) and answers:
        pairs = [(q, a if isinstance(a, str) else msgspec.json.encode(a).decode()) for q, a in answers.items()]
    else:
        pairs = _ANSWER_PAIR.findall(text)
    if not pairs:
        return f"A: {text}"
    return "\n".join(f"Q: {question}\nA: {answer}" for question, answer in pairs)


def _judge_system(state: _State, entry: Entry) -> None:
    at_ms = parse_ms(entry.timestamp)
    if entry.subtype == "compact_boundary":
        about = entry.compact_metadata
        facts = [about.trigger] if about and about.trigger else []
        if about and about.pre_tokens is not None:
            facts.append(f"{about.pre_tokens:,} tokens before")
        text = "context compacted" + (f" ({', '.join(facts)})" if facts else "")
        state.say("notice", COMPACTED, text, at_ms, f"entry:{state.seq}")
    elif entry.subtype == "local_command" and isinstance(entry.content, str) and COMMAND_LINE.match(entry.content):
        kind, own = own_words(entry.content)
        if own:
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
    for kind, words in _queued_words(blocks):
        state.say("user", QUEUED if kind == PROMPT else kind, words, at_ms, f"entry:{state.seq}")


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
        state.queue.append(_Queued(state.seq, at_ms, words, "\n\n".join(_texts(blocks))))
    elif entry.operation == "popAll":
        # The texts went back to the input box: nothing was sent.
        state.queue.clear()
    elif entry.operation in ("dequeue", "remove") and state.queue:
        named = (i for i, queued in enumerate(state.queue) if queued.raw == entry.content)
        state.delivered.append((state.queue.pop(next(named, 0)), state.seq, at_ms))


def _settle_queue(state: _State) -> None:
    """Say every queued text that left no other trace: where it was delivered, or at the end if it still waits.

    A trace is a user text that says the same, or holds it as whole lines, no later than three user texts after the
    delivery. Each equal text is the trace of one queued text only.
    """
    spoken = [(row[1], row[4]) for row in state.messages if row[2] == "user"]
    used: set[int] = set()

    def has_trace(queued: _Queued, delivered: int) -> bool:
        words = queued.words.strip()
        start = bisect_left(spoken, (queued.seq,))
        end = bisect_left(spoken, (delivered,)) + 3
        for index in range(start, min(end, len(spoken))):
            if index not in used and _key(spoken[index][1]) == _key(words):
                used.add(index)
                return True
        return any(
            f"\n{words}\n" in f"\n{text.strip()}\n" for _, text in spoken[start:end] if _key(text) != _key(words)
        )

    state.entry = -1
    for queued, delivered, at_ms in state.delivered:
        if queued.words.strip() and not has_trace(queued, delivered):
            state.seq = delivered
            state.say("user", QUEUED, queued.words, at_ms, f"queue:{queued.seq}")
    end_of_file = max((row[1] for row in state.tree), default=0) + 1
    for queued in state.queue:
        if queued.words.strip() and not has_trace(queued, queued.seq):
            state.seq = max(end_of_file, queued.seq)
            note = "typed while the model worked, not delivered when this was rendered"
            state.say("notice", NOTE, note, queued.at_ms, f"note:{queued.seq}")
            state.say("user", PENDING, queued.words, queued.at_ms, f"queue:{queued.seq}")


def _key(text: str) -> str:
    return " ".join(text.split())
