"""Stage `pointer`: a Bottle in, the text out that a fresh context is given. It names the bottle and never quotes it,
but for one line of the current task, and it stays far below the 10,000 characters that Claude Code lets pass."""

from __future__ import annotations

from bottlepipe.bottle import Bottle

_FULL = """\
- It is the authoritative session record: verbatim conversation, with
  observations in place of tool activity. Where it conflicts with the
  summary above, the bottle wins.
{end}
- The newest tool activity may still be settling into observations;
  check the timeline if the last few minutes look thin.
"""
_DELIVERED = """\
- The final assistant message in it was already delivered to the user.
  Do not repeat it or redo work it describes as done — continue from its
  end state."""
_MID_TURN = """\
- It ends in the middle of a turn: the last prompt has no delivered final
  message yet. Check what was already done before you do it, then finish
  that turn."""
_RECONSTRUCTED = """\
- It is a partial reconstruction: only the user's messages are verbatim.
  Your own replies were not preserved — do not assume prior phrasings.
  Session summary blocks are generated, not your words.
- The last session summary describes where you left off; continue from there.
- The newest tool activity may still be settling into observations;
  check the timeline if the last few minutes look thin.
"""


def render_pointer(bottle: Bottle, path: str) -> str:
    """The pointer to the bottle (or its reading copy) at `path`, in the form that fits the bottle."""
    if bottle.mode == "full":
        points = _FULL.format(end=_MID_TURN if bottle.ends_mid_turn else _DELIVERED)
    else:
        points = _RECONSTRUCTED
    task = f"\nCurrent task: {bottle.current_task}\n" if bottle.current_task else ""
    return (
        "# [claude-mem] Endless Mode — session continuation\n\n"
        "Before doing anything else, Read this file and continue the session from\nwhere it ends:\n\n"
        f"    {path}\n\n{points}{task}"
    )
