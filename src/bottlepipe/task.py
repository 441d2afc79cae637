"""What a session is about: its original request, its current task, and whether it stands in the middle of a turn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import polars as pl

from bottlepipe.clauses import one_line
from bottlepipe.envelopes import BASH, LOCAL_COMMAND, PRIVATE_KIND

TASK_LENGTH = 300
_ENOUGH = 100_000  # characters to find a task's one line in
_NO_WORDS = r"\A(?:\s|\[(?:image|document)\])*\z"
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def find_requests(messages: pl.DataFrame, rewound: pl.Series) -> list[int]:
    """The rows of PUBLIC messages in which the user asks for something in words that may be shown.

    `rewound` names the messages that do not stand. Rows, not a smaller frame: that would copy the texts.
    """
    is_other = (pl.col("speaker") != "user") | pl.col("kind").is_in([LOCAL_COMMAND, BASH, PRIVATE_KIND])
    is_wordless = pl.col("public_text").str.contains(_NO_WORDS)
    is_request = ~is_other & ~is_wordless & ~pl.col("message").is_in(rewound.implode())
    return messages.select(is_request.arg_true()).to_series().to_list()


def original_request(messages: pl.DataFrame, requests: Sequence[int], length: int) -> str:
    """The first `length` characters of the first of `requests`, which are rows of `messages`; "" for none."""
    return _start(messages, requests[0], length) if requests else ""


def _start(messages: pl.DataFrame, row: int, length: int) -> str:
    """The first `length` characters of one text. Cut before it becomes a string: that can take four times the bytes."""
    data: bytes = messages.get_column("public_text").slice(row, 1).cast(pl.Binary).item()
    return data[: 4 * length].decode(errors="ignore")[:length]


def current_task(messages: pl.DataFrame, requests: Sequence[int], next_steps: Iterable[tuple[int | None, str]]) -> str:
    """The newer of the last request and the last summary's next steps, as one line without astral characters.

    `requests` are rows of `messages`; `next_steps` are (Unix milliseconds, public text), oldest first.
    """
    task, task_ms = "", None
    if requests:
        task, task_ms = _start(messages, requests[-1], _ENOUGH), messages.get_column("at_ms")[requests[-1]]
    for at_ms, steps in next_steps:
        if task_ms is None or (at_ms is not None and at_ms >= task_ms):
            task = steps
    return one_line(_ASTRAL.sub("", task[:_ENOUGH]), TASK_LENGTH)


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
