"""The text that a fresh context is given, word for word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bottlepipe.api import render
from bottlepipe.bottle import Bottle
from bottlepipe.pointer import render_pointer

PATH = "/home/ada/.claude-mem/bottles/session-memory/5e55-0a1b2c3d.md"
HEAD = f"""\
# [claude-mem] Endless Mode — session continuation

Before doing anything else, Read this file and continue the session from
where it ends:

    {PATH}

"""
RECORD = """\
- It is the authoritative session record: verbatim conversation, with
  observations in place of tool activity. Where it conflicts with the
  summary above, the bottle wins.
"""
DELIVERED = """\
- The final assistant message in it was already delivered to the user.
  Do not repeat it or redo work it describes as done — continue from its
  end state.
"""
MID_TURN = """\
- It ends in the middle of a turn: the last prompt has no delivered final
  message yet. Check what was already done before you do it, then finish
  that turn.
"""
PARTIAL = """\
- It is a partial reconstruction: only the user's messages are verbatim.
  Your own replies were not preserved — do not assume prior phrasings.
  Session summary blocks are generated, not your words.
- The last session summary describes where you left off; continue from there.
"""
SETTLING = """\
- The newest tool activity may still be settling into observations;
  check the timeline if the last few minutes look thin.
"""
TASK = "\nCurrent task: count the crabs\n"


def a_bottle(**choices: Any) -> Bottle:
    plain: dict[str, Any] = {
        "session_id": "5e55",
        "mode": "full",
        "data": b"",
        "project": "/home/ada/tidepool",
        "user_turns": 1,
        "assistant_messages": 1,
        "observations": 0,
        "source_bytes": 1,
        "current_task": "count the crabs",
    }
    return Bottle(**{**plain, **choices})


def test_a_full_bottle_ends_with_a_delivered_message() -> None:
    """The model must not say it again."""
    assert HEAD + RECORD + DELIVERED + SETTLING + TASK == render_pointer(a_bottle(), PATH)


def test_a_bottle_that_ends_mid_turn_has_no_delivered_message() -> None:
    """The model must not take the last thing it said for its answer."""
    assert HEAD + RECORD + MID_TURN + SETTLING + TASK == render_pointer(a_bottle(ends_mid_turn=True), PATH)


def test_a_reconstructed_bottle_claims_less() -> None:
    """The model must not trust words that were not preserved."""
    assert HEAD + PARTIAL + SETTLING + TASK == render_pointer(a_bottle(mode="reconstructed"), PATH)


@pytest.mark.parametrize("mode", ["full", "reconstructed"])
def test_without_a_task_there_is_no_task_line(mode: str) -> None:
    """An empty line of task would say nothing."""
    assert render_pointer(a_bottle(mode=mode, current_task=""), PATH).endswith("look thin.\n")


@pytest.mark.parametrize("choices", [{}, {"ends_mid_turn": True}, {"mode": "reconstructed"}])
def test_a_pointer_stays_below_4000_characters(choices: dict[str, Any]) -> None:
    """Also with the longest task and a path of many long folders; braces in it are only text."""
    path = "/" + "/".join(["{deep}" * 40] * 10) + "/5e55.md"
    pointer = render_pointer(a_bottle(current_task="t" * 300, **choices), path)

    assert 4000 > len(pointer)
    assert f"\n\n    {path}\n\n" in pointer


def test_the_task_is_one_short_public_line_without_astral_characters(tmp_path: Path) -> None:
    """A cut astral character makes the host refuse the whole text; a second line could pose as an instruction."""
    prompt = f"count 🦀 the\n\n- crabs\u2028<private>SECRET</private>{' and fish' * 200}"
    entry = {"type": "user", "uuid": "u1", "sessionId": "5e55", "message": {"role": "user", "content": prompt}}
    (tmp_path / "5e55.jsonl").write_text(json.dumps(entry) + "\n", "utf-8")

    pointer = render_pointer(render(tmp_path / "5e55.jsonl", database=tmp_path / "none.db"), PATH)
    task = pointer.rpartition("\nCurrent task: ")[2]

    assert task.startswith("count the - crabs and fish and fish")
    assert 1 == len(task.splitlines())
    assert 300 >= len(task.rstrip("\n"))
    assert "\uffff" >= max(pointer)
