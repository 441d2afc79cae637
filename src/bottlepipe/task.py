"""What a session is about: its original request, its current task, and whether it stands in the middle of a turn."""

from __future__ import annotations

import re
from collections.abc import Iterable

import polars as pl

from bottlepipe.clauses import one_line
from bottlepipe.envelopes import BASH, LOCAL_COMMAND, PRIVATE_KIND

TASK_LENGTH = 300
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def _genuine(users: pl.DataFrame) -> pl.DataFrame:
    """User messages that ask for something in words that may be shown."""
    is_other = pl.col("kind").is_in([LOCAL_COMMAND, BASH, PRIVATE_KIND])
    has_words = pl.col("public_text").str.replace_all(r"\[(?:image|document)\]", "").str.strip_chars() != ""
    return users.filter(~is_other & has_words)


def original_request(users: pl.DataFrame) -> str:
    """The first genuine prompt among PUBLIC user messages, whole; "" for none."""
    genuine = _genuine(users)
    return str(genuine.get_column("public_text")[0]) if genuine.height else ""


def current_task(users: pl.DataFrame, next_steps: Iterable[tuple[int | None, str]]) -> str:
    """The newer of the last genuine prompt and the last summary's next steps, as one line without astral characters.

    `next_steps` are (Unix milliseconds, public text), oldest first.
    """
    task, task_ms = "", None
    genuine = _genuine(users)
    if genuine.height:
        task, task_ms = genuine.select("public_text", "at_ms").row(-1)
    for at_ms, steps in next_steps:
        if task_ms is None or (at_ms is not None and at_ms >= task_ms):
            task = steps
    return one_line(_ASTRAL.sub("", task), TASK_LENGTH)


def ends_mid_turn(numbered: pl.DataFrame, tool_calls: pl.DataFrame) -> bool:
    """True when the last standing prompt, local commands aside, has no assistant text after its last tool call.

    Takes NUMBERED messages and TOOL_CALLS with `branch`.
    """
    standing = numbered.filter(pl.col("branch") == 0)
    prompts = standing.filter((pl.col("speaker") == "user") & ~pl.col("kind").is_in([LOCAL_COMMAND, BASH]))
    if prompts.is_empty():
        return False
    asked = prompts.get_column("seq")[-1]
    calls = tool_calls.filter((pl.col("branch") == 0) & (pl.col("seq") >= asked)).get_column("seq").max()
    since = asked if calls is None else calls
    return standing.filter((pl.col("speaker") == "assistant") & (pl.col("seq") > since)).is_empty()
