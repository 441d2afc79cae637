"""Stage 2, `classify`: entries in, MESSAGES, TOOL_CALLS and TREE rows out.

The decision this stage owns: who said it, and is it conversation? User words stand in nine kinds of places (see the
conformance page); text that Claude Code injects is recognised by known tag names or opening words at the start
of a text, never by "begins with `<`", because users paste HTML.

When in doubt a text is kept.
"""

from __future__ import annotations

import re
from array import array
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
from bottlepipe.frames import MESSAGES, TOOL_CALLS, TREE, conform, frame
from bottlepipe.queue import InputQueue
from bottlepipe.read import NO_RAW, Block, Blocks, Entry, Skipped, decode_raw
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

_MEDIA = ("image", "document")

# What TREE says of an entry, in bits.
_IS_SIDECHAIN, _IS_META, _IS_PROMPT = 1, 2, 4
_NO_PARENT = -1  # which no string hashes to


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


class _Tree:
    """TREE while it grows, in columns of machine words: a transcript of a gigabyte has 400,000 entries."""

    def __init__(self) -> None:
        self.uuids = array("q")
        self.parents = array("q")
        self.marks = bytearray()

    def as_frame(self, session_id: str) -> pl.DataFrame:
        columns = {"uuid_hash": self.uuids, "parent_hash": self.parents, "marks": self.marks}
        rows = pl.DataFrame({name: pl.Series(list(values), dtype=pl.Int64) for name, values in columns.items()})
        return conform(
            rows.with_columns(
                session_id=pl.lit(session_id),
                parent_hash=pl.when(pl.col("parent_hash") != _NO_PARENT).then("parent_hash"),
                is_sidechain=pl.col("marks") & _IS_SIDECHAIN != 0,
                is_meta=pl.col("marks") & _IS_META != 0,
                is_prompt=pl.col("marks") & _IS_PROMPT != 0,
            ),
            TREE,
        )


@dataclass(slots=True)
class _State:
    session_id: str
    messages: list[tuple[Any, ...]] = field(default_factory=list)
    tree: _Tree = field(default_factory=_Tree)
    tool_calls: list[tuple[Any, ...]] = field(default_factory=list)
    queue: InputQueue = field(default_factory=InputQueue)
    tools: dict[str, str] = field(default_factory=dict)
    # Rows said by a result that stands before its call, with the call's id and the tool that alone may say them.
    unsure: list[tuple[int, str, str]] = field(default_factory=list)
    typed: tuple[str | None, str] = (None, "")
    skipped: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    seq: int = 0
    entry: int = -1

    def say(self, speaker: str, kind: str, text: str, timestamp: str | None, message_id: str) -> None:
        row = (self.session_id, self.seq, speaker, kind, text, parse_ms(timestamp), self.entry, message_id)
        self.messages.append(row)


def classify_entries(entries: Iterable[Entry | Skipped], session_id: str, *, as_subagent: bool = False) -> Classified:
    """Judge every entry of one transcript. With `as_subagent`, sidechain entries are the conversation.

    `skipped` counts what `read` could not use, by reason; `left_out` what is nobody's speech, by what it is.
    """
    state = _State(session_id)
    tree, messages = state.tree, state.messages
    add_uuid, add_parent, add_marks = tree.uuids.append, tree.parents.append, tree.marks.append
    folders: dict[str, None] = {}
    folder = content_session_id = started = None
    has_sidechain = has_main = False
    row = -1
    for entry in entries:
        if isinstance(entry, Skipped):
            state.skipped[entry.reason] += 1
            continue
        state.seq += 1
        judge = _JUDGES.get(entry.type)
        is_sidechain = entry.is_sidechain
        if is_sidechain:
            is_speech = judge is _judge_assistant or judge is _judge_user
            has_sidechain = has_sidechain or is_speech
            is_sidechain = not as_subagent
            state.left_out["subagent entries"] += is_sidechain and is_speech
        elif not has_main:
            has_main = judge is _judge_assistant or judge is _judge_user
        uuid = entry.uuid
        if uuid:
            parent = entry.parent_uuid or entry.logical_parent_uuid
            add_uuid(hash(uuid))
            add_parent(hash(parent) if parent else _NO_PARENT)
            add_marks((_IS_SIDECHAIN if is_sidechain else 0) | (_IS_META if entry.is_meta else 0))
            row += 1
        if is_sidechain:
            continue
        cwd = entry.cwd
        if cwd and cwd != folder:
            folder = cwd
            folders[cwd] = None
        if content_session_id is None:
            content_session_id = entry.session_id or None
        if started is None and uuid:
            started = parse_ms(entry.timestamp)
        if judge is not None:
            said = len(messages)
            state.entry = row if uuid else -1
            judge(state, entry)
            if uuid and len(messages) > said and any(message[3] == PROMPT for message in messages[said:]):
                tree.marks[-1] |= _IS_PROMPT
    forged = {row for row, call, only in state.unsure if state.tools.get(call, only) != only}
    messages = [message for row, message in enumerate(messages) if row not in forged]
    rows = tree.as_frame(session_id)
    for speaker, kind, text, seq, at_ms, message_id in state.queue.settle(messages, rows, state.seq + 1):
        messages.append((session_id, seq, speaker, kind, text, at_ms, -1, message_id))
    messages.sort(key=lambda row: row[1])
    return Classified(
        frame(messages, MESSAGES),
        rows,
        frame(state.tool_calls, TOOL_CALLS),
        list(folders),
        started,
        content_session_id,
        state.skipped,
        state.left_out,
        is_subagent=has_sidechain and not has_main,
    )


def _judge_assistant(state: _State, entry: Entry) -> None:
    message = entry.message
    if message is None or not message.content:
        return
    content = message.content
    for block in [content] if isinstance(content, str) else content:
        if isinstance(block, Block):
            if block.type == "tool_use" and block.id:
                name = block.name or ""
                at_ms = parse_ms(entry.timestamp)
                state.tool_calls.append((state.session_id, state.seq, block.id, name, at_ms, state.entry))
                state.tools[block.id] = name
                continue
            text = block.text if block.type == "text" else None
        else:
            text = block
        if not text or text.isspace():
            continue
        # A message's blocks stand in several entries under one API id; everything else is a message of its own.
        message_id = f"api:{message.id}" if message.id else f"entry:{state.seq}"
        if entry.is_api_error_message:
            state.say("notice", API_ERROR, text, entry.timestamp, message_id)
        elif message.model == "<synthetic>":
            state.left_out["synthetic answers"] += 1
        else:
            state.say("assistant", TEXT, text, entry.timestamp, message_id)


def _judge_user(state: _State, entry: Entry) -> None:
    message = entry.message
    if message is None or message.content is None:
        return
    content = message.content
    blocks: Blocks = [content] if isinstance(content, str) else content
    has_result = has_more = False
    for block in blocks:
        if isinstance(block, Block) and block.type == "tool_result":
            has_result = True
            if not entry.is_meta:
                _judge_result(state, entry, block)
        else:
            has_more = True
    if entry.is_compact_summary or entry.is_visible_in_transcript_only:
        state.left_out["compaction summaries"] += 1
        for text in _texts(blocks):
            state.say("notice", COMPACT_SUMMARY, text, entry.timestamp, f"entry:{state.seq}")
        return
    if has_more:
        kind = entry.origin.kind if entry.origin is not None else None
        if entry.is_meta or kind in ("task-notification", "peer"):
            if any(_texts(blocks)):
                state.left_out["injected texts"] += 1
            return
        for block in blocks:
            if isinstance(block, Block) and block.type in _MEDIA:
                place = f"entry:{state.seq}"
                state.say("user", REMARK if has_result else PROMPT, f"[{block.type}]", entry.timestamp, place)
            elif own := _block_text(block):
                _judge_user_text(state, entry, own, has_result)
    if entry.user_feedback is not NO_RAW and not entry.is_meta:
        _judge_feedback(state, entry)


def _judge_feedback(state: _State, entry: Entry) -> None:
    """Keep what the user wrote to a permission request, where it stands beside the result only."""
    words = decode_raw(entry.user_feedback)
    if not isinstance(words, str) or not words.strip():
        return
    if not any(row[1] == state.seq and words.strip() in row[4] for row in state.messages[-8:]):
        state.say("user", REMARK, words, entry.timestamp, f"entry:{state.seq}:feedback")


def _block_text(block: Block | str | None) -> str | None:
    if isinstance(block, Block):
        return block.text if block.type == "text" else None
    return block


def _texts(blocks: Blocks) -> list[str]:
    return [text for block in blocks if (text := _block_text(block))]


def _judge_user_text(state: _State, entry: Entry, text: str, has_result: bool) -> None:
    """Say what one text block of a user entry holds."""
    message_id = f"entry:{state.seq}"
    if text.startswith(CONTINUED) and entry.prompt_source is None and entry.origin is None and not has_result:
        state.left_out["compaction summaries"] += 1
        state.say("notice", COMPACT_SUMMARY, text, entry.timestamp, message_id)
        return
    if INTERRUPTION.match(text):
        state.say("notice", INTERRUPTED, "interrupted by the user", entry.timestamp, message_id)
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
    if kind == PROMPT and own.lstrip()[:1] == "/":
        state.typed = (entry.prompt_id, own.strip())
    if kind == PROMPT and has_result:
        kind = REMARK
    elif kind == PROMPT and is_local_command(own):
        kind = LOCAL_COMMAND
    elif kind == PROMPT and (entry.plan_content is not None and own.startswith(PLAN_HANDOVER)):
        kind = PLAN
    state.say("user", kind, own, entry.timestamp, message_id)


def _judge_result(state: _State, entry: Entry, block: Block) -> None:
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
            state.say("user", kind, words, entry.timestamp, message_id)
    elif tool in (_ASKING_TOOL, None) and (answers := _ANSWERS.match(text)):
        words = _answers(entry, answers.group(1))
        if words.strip():
            _doubt(state, block, tool, _ASKING_TOOL)
            state.say("user", ANSWER, words, entry.timestamp, message_id)
    elif tool in (_PLANNING_TOOL, None) and text.startswith(_APPROVED.decode()):
        _, heading, rest = text.partition("## Approved Plan")
        about = rest.partition("\n")[2] if heading else _result_field(entry, "plan")
        said = f"\n\n{about}" if isinstance(about, str) and about.strip() else ""
        _doubt(state, block, tool, _PLANNING_TOOL)
        state.say("user", PLAN, f"[approved plan]{said}", entry.timestamp, message_id)


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
    if entry.subtype == "compact_boundary":
        about = entry.compact_metadata
        facts = [about.trigger] if about and about.trigger else []
        if about and about.pre_tokens is not None:
            facts.append(f"{about.pre_tokens:,} tokens before")
        text = "context compacted" + (f" ({', '.join(facts)})" if facts else "")
        state.say("notice", COMPACTED, text, entry.timestamp, f"entry:{state.seq}")
    elif entry.subtype == "local_command" and isinstance(entry.content, str):
        kind, own = own_words(entry.content)
        if own and kind != PROMPT:
            kind = LOCAL_COMMAND if kind == COMMAND else kind
            state.say("user", kind, own, entry.timestamp, f"entry:{state.seq}")


def _judge_attachment(state: _State, entry: Entry) -> None:
    about = entry.attachment
    if about is None or about.type != "queued_command" or about.prompt is None:
        return
    if about.command_mode == "task-notification" or (about.origin and about.origin.kind not in (None, "human")):
        state.left_out["injected texts"] += 1
        return
    found = _queued_words([about.prompt] if isinstance(about.prompt, str) else about.prompt)
    if not found:
        state.left_out["injected texts"] += 1
    for kind, words in found:
        if kind == PROMPT:
            kind = LOCAL_COMMAND if is_local_command(words) else QUEUED
        state.say("user", kind, words, entry.timestamp, f"entry:{state.seq}")


def _queued_words(blocks: Blocks) -> list[tuple[str, str]]:
    words: list[tuple[str, str]] = []
    for block in blocks:
        if isinstance(block, Block) and block.type in _MEDIA:
            words.append((PROMPT, f"[{block.type}]"))
            continue
        text = _block_text(block)
        if text:
            kind, own = own_words(text)
            if own and own.strip():
                words.append((kind, own))
    return words


def _judge_queue(state: _State, entry: Entry) -> None:
    if entry.operation == "enqueue":
        content = entry.content
        blocks: Blocks = [content] if isinstance(content, str) else content or []
        words = "\n\n".join(text for _, text in _queued_words(blocks))
        state.queue.enqueue("\n\n".join(_texts(blocks)), words, state.seq, entry.timestamp)
    elif entry.operation == "popAll":
        state.queue.clear()
    elif entry.operation in ("dequeue", "remove"):
        raw = entry.content if isinstance(entry.content, str) else None
        state.queue.deliver(raw, state.seq, parse_ms(entry.timestamp))


_JUDGES = {
    "user": _judge_user,
    "assistant": _judge_assistant,
    "system": _judge_system,
    "attachment": _judge_attachment,
    "queue-operation": _judge_queue,
}
