"""Makes transcripts whose byte shares and line lengths follow real ones: half of the lines about 1 kB, one in a hundred
above 40 kB, most of it tool output that is stored twice, and only 1 to 2 % of the bytes words of the conversation."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

SESSION = "be7c4a11-0000-4000-8000-000000000001"
_WORDS = "tide pool table build test patch sort the of and a merge node branch graph value check line fix".split()


def make_transcript(path: Path, size: int, seed: int = 1) -> dict[str, int]:
    """Write at least `size` bytes; return what a right answer must have: user turns and assistant messages."""
    chance = random.Random(seed)
    counts = {"user_turns": 0, "assistant_messages": 0}
    written = number = 0
    parent: str | None = None
    with open(path, "w", encoding="utf-8") as file:

        def put(entry_type: str, message: dict[str, Any] | None, **more: Any) -> None:
            nonlocal written, number, parent
            number += 1
            uuid = f"{chance.getrandbits(32):08x}-0000-4000-8000-{number:012x}"
            entry = {
                "parentUuid": parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": "/home/ada/tidepool",
                "sessionId": SESSION,
                "version": "2.1.200",
                "gitBranch": "main",
                "type": entry_type,
                **({"message": message} if message else {}),
                **more,
                "uuid": uuid,
                "timestamp": f"2026-05-{1 + number // 86400 % 28:02}T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000Z",
            }
            written += file.write(json.dumps(entry, ensure_ascii=False) + "\n")
            parent = uuid

        while written < size:
            put("user", {"role": "user", "content": _prose(chance, 40)}, promptSource="typed")
            counts["user_turns"] += 1
            for step in range(chance.randint(4, 24)):
                envelope = {
                    "id": f"msg_{number}_{step}",
                    "type": "message",
                    "role": "assistant",
                    "model": "m",
                    "usage": {"output_tokens": 9},
                }
                if chance.random() < 0.25:
                    put("assistant", {**envelope, "content": [{"type": "text", "text": _prose(chance, 30)}]})
                    counts["assistant_messages"] += 1
                put(
                    "assistant",
                    {
                        **envelope,
                        "content": [{"type": "thinking", "thinking": "", "signature": "s" * chance.randint(200, 900)}],
                    },
                )
                call = f"toolu_{number}"
                put(
                    "assistant",
                    {
                        **envelope,
                        "content": [
                            {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": _prose(chance, 12)}}
                        ],
                    },
                )
                output = _output(chance)
                result = {"type": "tool_result", "tool_use_id": call, "content": output}
                put("user", {"role": "user", "content": [result]}, toolUseResult={"stdout": output, "stderr": ""})
                put("attachment", None, attachment={"type": "hook_success", "stdout": "x" * chance.randint(100, 1500)})
    return counts


def _prose(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(_WORDS) for _ in range(chance.randint(words // 4, words * 2)))


def _output(chance: random.Random) -> str:
    length = int(min(chance.lognormvariate(6.6, 1.45), 400_000))
    line = 'def value(node):\n    return "node"\\n # \t' + _prose(chance, 6) + "\n"
    return (line * (length // len(line) + 1))[:length]
