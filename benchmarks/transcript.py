"""Makes transcripts that weigh what real ones weigh: the shares of the bytes, the lengths of the lines, the odd cases.

The targets are those of 650 real transcripts (518 MB, 152,000 lines): half of the lines below 1.1 kB, one in a hundred
above 45 kB, tool output stored twice, 1.6 % of the bytes words of the conversation. Sizes are drawn from quantile tables
in shuffled strata, so that a small file has the shares of a large one; contents are slices of pools made beforehand, so
that a gigabyte takes less than a minute. The same seed gives the same bytes.

    python benchmarks/transcript.py 100MB transcript.jsonl      writes a file and prints what a right answer must have
    python benchmarks/transcript.py --weigh transcript.jsonl    prints shares and percentiles of any transcript
"""

from __future__ import annotations

import argparse
import json
import math
import random
import string
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SESSION = "be7c4a11-0000-4000-8000-000000000001"
START_MS = 1_777_626_000_000  # 2026-05-01 09:00 UTC

# Percent of the bytes, and bytes of a line at each percentile, as counted in the real transcripts.
SHARES = {
    "toolUseResult": 37.3,
    "progress": 15.4,
    "tool_result": 14.1,
    "envelope assistant": 11.4,
    "envelope user": 3.6,
    "thinking": 6.1,
    "tool_use": 4.1,
    "attachment": 3.3,
    "image": 0.9,
    "other lines": 1.9,
    "assistant text": 1.07,
    "user text": 0.50,
    "injected text": 0.40,
}
PERCENTILES = {50: 1_109, 90: 5_558, 99: 44_955, 99.9: 107_786}
LONGEST = 1_603_574  # of a set that holds no file above 4 MB

# Bytes at each quantile; between two of them the logarithm runs straight.
_SIZES: dict[str, Sequence[tuple[float, float]]] = {
    "output": ((0, 15), (0.3, 110), (0.5, 360), (0.7, 1_500), (0.85, 4_300), (0.95, 12_000), (0.98, 24_000), (0.997, 53_000), (1, 400_000)),
    "file": ((0, 200), (0.25, 3_000), (0.5, 8_500), (0.75, 19_000), (0.91, 44_000), (0.995, 105_000), (1, 250_000)),
    "call": ((0, 60), (0.25, 90), (0.5, 150), (0.75, 440), (0.9, 1_200), (0.95, 2_300), (0.99, 7_000), (1, 20_000)),
    "thinking": ((0, 300), (0.1, 400), (0.25, 520), (0.5, 900), (0.75, 2_550), (0.9, 5_400), (0.95, 8_500), (0.99, 17_000), (1, 70_000)),
    "progress": ((0, 40), (0.25, 120), (0.5, 250), (0.75, 450), (0.87, 1_050), (0.92, 3_700), (0.97, 12_500), (0.99, 38_000), (0.999, 107_000), (1, 200_000)),
    "attachment": ((0, 20), (0.25, 80), (0.5, 250), (0.75, 450), (0.9, 2_200), (0.95, 7_500), (0.99, 24_000), (1, 50_000)),
    "snapshot": ((0, 20), (0.25, 120), (0.5, 430), (0.75, 1_200), (0.9, 2_000), (1, 4_700)),
    "answer": ((0, 20), (0.25, 65), (0.5, 120), (0.75, 260), (0.9, 800), (0.95, 1_400), (0.99, 4_300), (1, 12_000)),
    "prompt": ((0, 8), (0.1, 16), (0.25, 46), (0.5, 107), (0.75, 300), (0.9, 1_500), (0.95, 6_000), (0.99, 15_000), (1, 30_000)),
    "steps": ((0, 1), (0.25, 3), (0.5, 7), (0.75, 14), (0.95, 32), (1, 60)),
}  # fmt: skip
_SUMMARY_BYTES, _SKILL_BYTES = 12_000, 5_000
_MODELS = ("claude-opus-4-7", "claude-sonnet-4-6")
_WORDS = (
    "tide pool table build test patch sort the of and a merge node branch graph value check line fix is to in it that"
    " file with for not because which `render()` **bold** naïve café 60° → … ‘quote’ “word” Größe 漢字 ✅ — (see) e.g. 3.5"
).split()
_NAMES = "node tide value graph total station height offset row label cursor".split()


@dataclass(slots=True)
class Truth:
    """What a right answer must have.

    `messages` counts user and assistant lines, `texts` and `text_bytes` (as UTF-8) the string contents and text blocks in
    them: what a reader finds that judges nothing. The rest is what a bottle shows: no rewound branch, nothing injected.
    """

    bytes: int = 0
    lines: int = 0
    messages: int = 0
    texts: int = 0
    text_bytes: int = 0
    user_turns: int = 0
    assistant_messages: int = 0
    private_spans: int = 0
    rewound_messages: int = 0
    compactions: int = 0
    images: int = 0


class _Deck:
    """Sizes from a quantile table, one from each of `cards` equal strata before any comes twice."""

    def __init__(self, name: str, cards: int, chance: random.Random) -> None:
        self.chance, self.cards, self.left = chance, cards, list[int]()
        self.quantiles = [quantile for quantile, _ in _SIZES[name]]
        self.logs = [math.log(size) for _, size in _SIZES[name]]

    def draw(self) -> int:
        if not self.left:
            self.left = list(range(self.cards))
            self.chance.shuffle(self.left)
        at = (self.left.pop() + self.chance.random()) / self.cards
        above = min(max(bisect_right(self.quantiles, at), 1), len(self.quantiles) - 1)
        low, high = self.quantiles[above - 1], self.quantiles[above]
        weight = (at - low) / (high - low)
        return int(math.exp(self.logs[above - 1] * (1 - weight) + self.logs[above] * weight))


class _Pool:
    """A long JSON string body made of pieces, and where a cut breaks neither an escape nor a character."""

    def __init__(self, pieces: Iterator[str], size: int) -> None:
        parts, self.ends, self.plain = [], array("q", [0]), array("q", [0])
        total = 0
        while total < size:
            piece = next(pieces)
            part = json.dumps(piece, ensure_ascii=False)[1:-1].encode()
            parts.append(part)
            total += len(part)
            self.ends.append(total)
            self.plain.append(self.plain[-1] + len(piece.encode()))
        self.body = b"".join(parts)

    def cut(self, chance: random.Random, size: int) -> tuple[bytes, int]:
        """About `size` bytes of JSON from anywhere, and how many bytes of UTF-8 they stand for."""
        whole, rest = divmod(size, len(self.body))
        first = int(chance.random() * (bisect_left(self.ends, len(self.body) - rest) + 1))
        last = min(bisect_left(self.ends, self.ends[first] + rest), len(self.ends) - 1)
        piece, plain = self.body[self.ends[first] : self.ends[last]], self.plain[last] - self.plain[first]
        return (self.body * whole + piece, self.plain[-1] * whole + plain) if whole else (piece, plain)


def _prose(chance: random.Random) -> Iterator[str]:
    while True:
        for _ in range(chance.randint(4, 18)):
            yield f"{chance.choice(_WORDS)} "
        yield chance.choice((". ", ".\n", ".\n\n- ", ":\n\n```py\nvalue = node(3)\n```\n\n", '. "As said", '))


def _code(chance: random.Random) -> Iterator[str]:
    while True:
        name, other = chance.choice(_NAMES), chance.choice(_NAMES)
        yield chance.choice(
            (
                f'    {name} = {other}["{name}"] + {chance.randint(0, 999)}  # {chance.choice(_WORDS)}\n',
                f"def {name}({other}: int) -> str:\n",
                f'\treturn "{name}"\n',
                f"src/{name}/{other}.py:{chance.randint(1, 900)}: {chance.choice(_WORDS)} {chance.choice(_WORDS)}\n",
                "\n",
                f"\x1b[32m✓\x1b[0m {name} {other} ({chance.randint(1, 90)} ms)\n" if chance.random() < 0.1 else "}\n",
            )
        )


def _base64(chance: random.Random) -> Iterator[str]:
    letters = string.ascii_letters + string.digits + "+/"
    while True:
        yield "".join(chance.choices(letters, k=64))


def _json(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()


class _Writer:
    """One transcript while it is written: the place in the tree, the clock, and the truth so far."""

    def __init__(self, path: Path, size: int, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.file = open(path, "wb", buffering=1 << 20)  # noqa: SIM115 - closed by make_transcript
        self.size, self.truth = size, Truth()
        self.parent: bytes | None = None
        self.now = START_MS
        self.prompts = 0
        self.abandoned = False
        pool = min(4_000_000, max(size // 4, 200_000))
        self.prose = _Pool(_prose(chance), pool // 4)
        self.code = _Pool(_code(chance), pool)
        self.base64 = _Pool(_base64(chance), pool // 2)
        # Dealt through about twice in 10 MB; fewer cards for less, so that a small file sees all strata too.
        cards = {"output": 200, "file": 75, "call": 100, "thinking": 100, "progress": 200, "answer": 100}
        part = min(size / 10_000_000, 1)
        self.decks = {name: _Deck(name, max(int(cards.get(name, 40) * part), 8), chance) for name in _SIZES}
        self.common = (
            b'"userType":"external","entrypoint":"cli","cwd":"/home/ada/src/tidepool","sessionId":"%b",'
            b'"version":"2.1.84","gitBranch":"ada/tide-offsets-for-summer-time","slug":"silver-harbour-counting-tides"'
            % SESSION.encode()
        )

    # Lines

    def put(self, line: bytes) -> None:
        self.truth.bytes += len(line) + 1
        self.truth.lines += 1
        self.file.write(line + b"\n")

    def stamp(self, seconds: float) -> bytes:
        self.now += int(1000 * seconds * self.chance.random()) + 1
        # One line in twenty is stamped earlier than the one before it.
        at = self.now - (self.chance.randint(1, 90) if self.chance.random() < 0.05 else 0)
        return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")[:-6].encode() + b"Z"

    def uuid(self) -> bytes:
        digits = f"{self.chance.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-9{digits[17:20]}-{digits[20:]}".encode()

    def parent_json(self, parent: bytes | None) -> bytes:
        return b'"%b"' % parent if parent else b"null"

    def user(self, content: bytes, more: bytes = b"", parent: bytes | None = None, seconds: float = 5) -> bytes:
        uuid = self.uuid()
        self.put(
            b'{"parentUuid":%b,"isSidechain":false,%b,"promptId":"%b","type":"user","message":{"role":"user","content":%b},'
            b'"uuid":"%b","timestamp":"%b"%b}'
            % (
                self.parent_json(parent or self.parent),
                self.common,
                uuid[::-1],
                content,
                uuid,
                self.stamp(seconds),
                more,
            )
        )
        self.parent = uuid
        self.truth.messages += 1
        return uuid

    def assistant(self, message_id: bytes, content: bytes, seconds: float = 4, is_last: bool = False) -> bytes:
        uuid = self.uuid()
        tokens = self.chance.randint(1_000, 160_000)
        usage = (
            b'{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":%d,'
            b'"cache_creation":{"ephemeral_5m_input_tokens":%d,"ephemeral_1h_input_tokens":0},"service_tier":"standard"%b}'
        ) % (
            self.chance.randint(1, 9),
            tokens // 9,
            tokens,
            tokens // 90,
            tokens // 9,
            b',"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"inference_geo":"not_available",'
            b'"iterations":[{"input_tokens":3,"output_tokens":%d,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,'
            b'"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":%d},"type":"message"}],"speed":"standard"'
            % (tokens // 90, tokens, tokens // 9, tokens // 9)
            if self.chance.random() < 0.45
            else b"",
        )
        self.put(
            b'{"parentUuid":%b,"isSidechain":false,"message":{"model":"%b","id":"%b","type":"message","role":"assistant",'
            b'"content":[%b],"stop_reason":%b,"stop_sequence":null,"usage":%b},"requestId":"req_%b","type":"assistant",'
            b'"uuid":"%b","timestamp":"%b",%b}'
            % (
                self.parent_json(self.parent),
                self.chance.choice(_MODELS).encode(),
                message_id,
                content,
                b'"end_turn"' if is_last else b"null",
                usage,
                message_id[4:],
                uuid,
                self.stamp(seconds),
                self.common,
            )
        )
        self.parent = uuid
        self.truth.messages += 1
        return uuid

    def other(self, kind: bytes, body: bytes) -> None:
        """A line of bookkeeping: no part of the tree."""
        self.put(b'{"type":"%b",%b,"sessionId":"%b"}' % (kind, body, SESSION.encode()))

    def tree_line(self, kind: bytes, body: bytes, parent: bytes | None = None) -> bytes:
        uuid = self.uuid()
        self.put(
            b'{"parentUuid":%b,"isSidechain":false,%b,"type":"%b",%b,"uuid":"%b","timestamp":"%b"}'
            % (self.parent_json(parent or self.parent), self.common, kind, body, uuid, self.stamp(1))
        )
        self.parent = uuid
        return uuid

    # What is said

    def said(self, size: int, prefix: str = "") -> bytes:
        """A JSON string with words, counted as one text."""
        body, plain = self.prose.cut(self.chance, max(size - len(prefix), 1))
        start = _json(prefix)[1:-1]
        self.truth.texts += 1
        self.truth.text_bytes += plain + len(prefix.encode())
        return b'"%b%b"' % (start, body)

    def count_user(self) -> None:
        if self.abandoned:
            self.truth.rewound_messages += 1
        else:
            self.truth.user_turns += 1

    def prompt_text(self, words: str = "Prompt") -> bytes:
        """A prompt that no other one equals."""
        self.prompts += 1
        private = "<private>the key is hunter2</private> " if self.prompts % 25 == 0 and not self.abandoned else ""
        self.truth.private_spans += bool(private)
        return self.said(self.decks["prompt"].draw(), f"{words} {self.prompts}: {private}")

    def block(self, text: bytes) -> bytes:
        return b'{"type":"text","text":%b}' % text

    def prompt(self, turn: int, parent: bytes | None) -> None:
        self.count_user()
        text = self.prompt_text()
        content = text if turn % 8 else b"[%b]" % self.block(text)
        more = b',"promptSource":"typed","permissionMode":"default"'
        if turn % 50 == 2 or turn % 1080 == 270:
            size = 1_000_000 if turn % 1080 == 270 else min(self.size // 120, 45_000)
            data, _ = self.base64.cut(self.chance, size)
            image = b'{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%b"}}' % data
            content = b"[%b,%b]" % (self.block(text), image)
            self.truth.images += 1
        elif turn % 17 == 5:
            self.queue(b"enqueue", text)
            self.queue(b"dequeue")
            more = b',"promptSource":"queued"'
        self.user(content, more, parent, seconds=90)

    def queue(self, operation: bytes, text: bytes | None = None) -> None:
        body = b'"operation":"%b","timestamp":"%b"%b' % (
            operation,
            self.stamp(1),
            b',"content":%b' % text if text else b"",
        )
        self.other(b"queue-operation", body)

    def interjection(self, leaves_trace: bool) -> None:
        """A prompt typed while the model works: delivered in mid-turn as an attachment, or leaving no other trace."""
        before = (self.truth.texts, self.truth.text_bytes)
        text = self.prompt_text("By the way")
        # It stands in no message, so a reader that judges nothing does not see it.
        self.truth.texts, self.truth.text_bytes = before
        self.truth.user_turns += 1
        self.queue(b"enqueue", text)
        self.queue(b"remove")
        if leaves_trace:
            body = b'"attachment":{"type":"queued_command","prompt":%b,"commandMode":"prompt"}' % text
            self.tree_line(b"attachment", body)

    def local_command(self) -> None:
        name = b"<command-name>/model</command-name>\\n<command-message>model</command-message>\\n<command-args></command-args>"
        caveat = b"<local-command-caveat>Caveat: what follows was printed by a local command.</local-command-caveat>"
        output = b"<local-command-stdout>Set model to opus</local-command-stdout>"
        for text, more in ((caveat, b',"isMeta":true'), (name, b""), (output, b"")):
            self.user(b'"%b"' % text, more)
            self.truth.texts += 1
            self.truth.text_bytes += len(json.loads(b'"%b"' % text))
        self.truth.user_turns += 1

    def compact(self, is_dangling: bool) -> None:
        before = self.uuid() if is_dangling else self.parent
        uuid = self.uuid()
        self.put(
            b'{"parentUuid":null,"logicalParentUuid":%b,"isSidechain":false,%b,"type":"system","subtype":"compact_boundary",'
            b'"content":"Conversation compacted","isMeta":false,"level":"info","compactMetadata":{"trigger":"auto","preTokens":%d},'
            b'"uuid":"%b","timestamp":"%b"}'
            % (self.parent_json(before), self.common, self.chance.randint(82_000, 176_000), uuid, self.stamp(60))
        )
        self.parent = uuid
        opening = "This session is being continued from a previous conversation that ran out of context. "
        more = b',"isVisibleInTranscriptOnly":true,"isCompactSummary":true'
        self.user(self.said(_SUMMARY_BYTES, opening), more)
        self.truth.compactions += 1

    # What is done

    def answer(self, message_id: bytes, is_last: bool = False) -> None:
        if self.abandoned:
            self.truth.rewound_messages += 1
        else:
            self.truth.assistant_messages += 1
        self.assistant(message_id, self.block(self.said(self.decks["answer"].draw())), is_last=is_last)

    def think(self, message_id: bytes) -> None:
        size = self.decks["thinking"].draw()
        words = size // 2 if self.chance.random() < 0.4 else 0
        thought = self.prose.cut(self.chance, words)[0] if words else b""
        signature = self.base64.cut(self.chance, size - words)[0]
        self.assistant(message_id, b'{"type":"thinking","thinking":"%b","signature":"%b"}' % (thought, signature))

    def step(self) -> None:
        """One API message with what it says and the tools it calls, and their results."""
        chance = self.chance
        message_id = b"msg_01%022x" % chance.getrandbits(88)
        if chance.random() < 0.43:
            self.think(message_id)
        if chance.random() < 0.43:
            self.answer(message_id)
        # Parallel calls: every result hangs on the line of its own call.
        calls = [self.call(message_id) for _ in range(2 if chance.random() < 0.06 else 1)]
        for call in calls:
            while chance.random() < 0.505:
                self.progress(call[0])
            self.result(*call)
        if chance.random() < 0.29:
            self.attach()
        if chance.random() < 0.10:
            self.bookkeeping()

    def call(self, message_id: bytes) -> tuple[bytes, bytes, str]:
        tool = self.chance.choices(("Bash", "Read", "Edit"), (50, 25, 25))[0]
        call = b"toolu_01%022x" % self.chance.getrandbits(88)
        body = self.code.cut(self.chance, self.decks["call"].draw())[0]
        arguments = {
            "Bash": b'"command":"%b","description":"Look at the tides"',
            "Read": b'"file_path":"/home/ada/src/tidepool/tides.py","note":"%b"',
            "Edit": b'"file_path":"/home/ada/src/tidepool/tides.py","old_string":"x","new_string":"%b"',
        }[tool]
        block = b'{"type":"tool_use","id":"%b","name":"%b","input":{%b}}' % (call, tool.encode(), arguments % body)
        return call, self.assistant(message_id, block), tool

    def progress(self, call: bytes) -> None:
        output = self.code.cut(self.chance, self.decks["progress"].draw())[0]
        body = (
            b'"data":{"type":"bash_progress","output":"%b","elapsedTimeSeconds":3,"totalLines":40},'
            b'"toolUseID":"bash-progress-7","parentToolUseID":"%b"' % (output, call)
        )
        self.tree_line(b"progress", body)

    def result(self, call: bytes, line: bytes, tool: str) -> None:
        cut, chance = self.code.cut, self.chance
        if tool == "Edit":
            shown = b"The file /home/ada/src/tidepool/tides.py has been updated.\\n" + cut(chance, 200)[0]
            original, patch = cut(chance, self.decks["file"].draw())[0], cut(chance, 300)[0]
            beside = (
                b'{"filePath":"/home/ada/src/tidepool/tides.py","oldString":"x","newString":"%b","originalFile":"%b",'
                b'"structuredPatch":[{"oldStart":3,"oldLines":6,"newStart":3,"newLines":7,"lines":["%b"]}],"userModified":false,'
                b'"replaceAll":false}' % (patch, original, patch)
            )
        else:
            shown = cut(chance, self.decks["output"].draw())[0]
            if tool == "Bash":
                beside = b'{"stdout":"%b","stderr":"","interrupted":false,"isImage":false}' % shown
            else:
                beside = (
                    b'{"type":"text","file":{"filePath":"/home/ada/src/tidepool/tides.py","content":"%b","numLines":40,'
                    b'"startLine":1,"totalLines":40}}' % shown
                )
        block = b'[{"tool_use_id":"%b","type":"tool_result","content":"%b","is_error":false}]' % (call, shown)
        self.user(block, b',"toolUseResult":%b,"sourceToolAssistantUUID":"%b"' % (beside, line), parent=line)

    def reject(self) -> None:
        """A tool call that the user refused, with words."""
        call, line, _ = self.call(b"msg_02%022x" % self.chance.getrandbits(88))
        self.truth.user_turns += 1
        text = (
            b"The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new"
            b" string was NOT written to the file). To tell you how to proceed, the user said:\\nNot this file, the other one."
        )
        block = b'[{"type":"tool_result","content":"%b","is_error":true,"tool_use_id":"%b"}]' % (text, call)
        self.user(block, b',"toolUseResult":"Error: %b","toolDenialKind":"user-rejected"' % text, parent=line)

    def attach(self) -> None:
        output = self.code.cut(self.chance, self.decks["attachment"].draw())[0]
        body = (
            b'"attachment":{"type":"hook_success","hookName":"PostToolUse:Bash","toolUseID":"toolu_01","hookEvent":"PostToolUse",'
            b'"content":"","stdout":"%b","stderr":"","exitCode":0,"durationMs":41}' % output
        )
        self.tree_line(b"attachment", body)

    def bookkeeping(self) -> None:
        identity = self.parent or b""
        body = self.code.cut(self.chance, self.decks["snapshot"].draw())[0]
        snapshot = b'"messageId":"%b","snapshot":{"messageId":"%b","trackedFileBackups":{"%b":1},"timestamp":"%b"},"isSnapshotUpdate":true'
        self.other(b"file-history-snapshot", snapshot % (identity, identity, body, self.stamp(0)))

    # The session

    def turn(self, turn: int) -> None:
        before = self.parent
        if turn % 60 == 3 and before:
            self.rewound_turn(turn)
            self.prompt(turn + 1, parent=before)
        else:
            self.prompt(turn, parent=None)
        self.bookkeeping()
        self.other(b"mode", b'"mode":"normal"')
        self.other(b"permission-mode", b'"permissionMode":"default"')
        steps = self.decks["steps"].draw()
        for step in range(steps):
            if self.truth.bytes >= self.size:
                break
            self.step()
            if step == 0 and turn % 30 == 1:
                self.interjection(leaves_trace=True)
            if step == 0 and turn % 40 == 2:
                self.interjection(leaves_trace=False)
        if turn % 20 == 4:
            self.reject()
        self.answer(b"msg_03%022x" % self.chance.getrandbits(88), is_last=True)
        hooks = b'"hookInfos":[{"command":"uv run hooks/stop.py","durationMs":12}],"hookErrors":[],"preventedContinuation":false'
        self.tree_line(b"system", b'"subtype":"stop_hook_summary","hookCount":1,%b,"level":"suggestion"' % hooks)
        self.tree_line(b"system", b'"subtype":"turn_duration","durationMs":70123,"isMeta":false')
        self.other(b"last-prompt", b'"lastPrompt":"Prompt %d","leafUuid":"%b"' % (turn, self.parent or b""))
        self.other(b"ai-title", b'"aiTitle":"Tides an hour late since the clocks changed"')
        if turn % 20 == 6:
            self.local_command()
        if turn % 20 == 7:
            self.user(
                b"[%b]" % self.block(self.said(_SKILL_BYTES, "Base directory for this skill: ")), b',"isMeta":true'
            )
        if turn % 38 == 4:
            self.compact(is_dangling=self.truth.compactions % 3 == 2)

    def rewound_turn(self, turn: int) -> None:
        """A prompt and its answer that the user went back from: they stay in the file, nothing marks them."""
        self.abandoned = True
        self.prompt(turn + 1, parent=None)
        for _ in range(3):
            self.step()
        self.answer(b"msg_04%022x" % self.chance.getrandbits(88))
        self.abandoned = False


def make_transcript(path: Path, size: int, seed: int = 1) -> Truth:
    """Write a session of at least `size` bytes; return what a right answer must have."""
    writer = _Writer(path, size, seed)
    with writer.file:
        writer.other(b"permission-mode", b'"permissionMode":"default"')
        turn = 0
        while writer.truth.bytes < size:
            turn += 1
            writer.turn(turn)
    return writer.truth


def make_long_prompt(path: Path, size: int, emoji: bool = False) -> Truth:
    """Write a session of one prompt on one line of `size` bytes, and an answer. With `emoji`, one stands in it."""
    writer = _Writer(path, 1, 1)
    words = b"the tide table of the old harbour, line by line " * (size // 48 + 1)
    text = b'"%b%b"' % (words[:size], "🌊".encode() if emoji else b"")
    with writer.file:
        writer.user(text, b',"promptSource":"typed"')
        truth = writer.truth
        truth.user_turns, truth.texts, truth.text_bytes = 1, 1, len(text) - 2
        writer.answer(b"msg_0300")
    return truth


# Weighing


@dataclass(frozen=True, slots=True)
class Weight:
    """Percent of the bytes by what they are, and line lengths in bytes by percentile."""

    shares: dict[str, float]
    percentiles: dict[float, int]
    longest: int


def weigh(path: Path) -> Weight:
    """Weigh a transcript the slow way: every line decoded, every part written again and measured."""
    parts: Counter[str] = Counter()
    lengths = []
    with open(path, "rb") as file:
        for line in file:
            lengths.append(len(line))
            _weigh_line(line, parts)
    lengths.sort()
    total = sum(lengths)
    at = {percent: lengths[min(int(len(lengths) * percent / 100), len(lengths) - 1)] for percent in PERCENTILES}
    return Weight({name: 100 * parts[name] / total for name in SHARES}, at, lengths[-1])


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def _weigh_line(line: bytes, parts: Counter[str]) -> None:
    entry = json.loads(line)
    kind = entry["type"]
    if kind not in ("user", "assistant"):
        parts[kind if kind in ("progress", "attachment") else "other lines"] += len(line)
        return
    inside: Counter[str] = Counter()
    if "toolUseResult" in entry:
        inside["toolUseResult"] += _size(entry["toolUseResult"])
    content = entry["message"]["content"]
    is_injected = entry.get("isMeta") or entry.get("isCompactSummary")
    speech = "assistant text" if kind == "assistant" else "injected text" if is_injected else "user text"
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        text = block.get("text")
        if text is not None:
            is_envelope = text.startswith(("<local-command", "<command-name"))
            inside["injected text" if is_envelope else speech] += len(text.encode())
        else:
            inside[block["type"]] += _size(block)
    parts.update(inside)
    parts[f"envelope {kind}"] += len(line) - inside.total()


def parse_size(text: str) -> int:
    """Bytes of a size like `10MB`, `1GB` or `5000`; kB, MB and GB are powers of ten."""
    for unit, factor in (("KB", 10**3), ("MB", 10**6), ("GB", 10**9)):
        if text.upper().endswith(unit):
            return int(float(text[: -len(unit)]) * factor)
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a transcript, or weigh one.")
    parser.add_argument("size", type=parse_size, nargs="?", default=0, help="bytes, or 10MB, 1GB …")
    parser.add_argument("path", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--long-prompt", action="store_true", help="one prompt of that size on one line")
    parser.add_argument("--emoji", action="store_true", help="with an emoji in that prompt")
    parser.add_argument(
        "--weigh", action="store_true", help="print the shares and percentiles of the file that is there"
    )
    choices = parser.parse_args()
    if choices.weigh:
        found = weigh(choices.path)
        for name, share in found.shares.items():
            print(f"{name:20} {share:6.2f} %   aim {SHARES[name]:5.2f}")
        for percent, length in found.percentiles.items():
            print(f"p{percent:<19} {length:8,} B aim {PERCENTILES[percent]:,}")
        print(f"longest line {found.longest:,} B")
    elif choices.long_prompt:
        print(json.dumps(asdict(make_long_prompt(choices.path, choices.size, choices.emoji))))
    else:
        print(json.dumps(asdict(make_transcript(choices.path, choices.size, choices.seed))))


if __name__ == "__main__":
    main()
