"""How claude-mem stores a prompt. A leaf: reading, aligning and reconstructing must agree on it.

From 13.5 on a prompt of more than 4000 UTF-16 units is stored as its first 3999 and an ellipsis. A surrogate pair that
the cut splits is stored as U+FFFD. An uncut prompt can be exactly 4000 units long.
"""

from __future__ import annotations

import polars as pl

CUT_AT = 4000
_MESSAGE_ID = "stored:"


def is_cut(text: str) -> bool:
    """True when claude-mem cut this prompt."""
    return text.endswith("…") and len(text.encode("utf-16-le", "replace")) == 2 * CUT_AT


def cut_as_stored(text: str) -> str:
    """Cut a text the way claude-mem does."""
    # No character has less than one unit, so what is beyond this slice cannot matter.
    units = text[: CUT_AT + 1].encode("utf-16-le", "replace")
    if len(units) <= 2 * CUT_AT:
        return text
    return units[: 2 * (CUT_AT - 1)].decode("utf-16-le", "replace") + "…"


def stored_text(text: str, was_cut: bool) -> str:
    """A stored prompt as a bottle shows it: one that was cut says so."""
    return f"{text}\n[truncated at {CUT_AT} chars]" if was_cut else text


def stored_message_id(index: int) -> str:
    """The message id of what stands for the prompt at this place among PROMPTS. Their own ids can be null, or equal."""
    return f"{_MESSAGE_ID}{index}"


def stored_index() -> pl.Expr:
    """That place, as the type that row indexes have, from the `message_id` of such messages."""
    return pl.col("message_id").str.strip_prefix(_MESSAGE_ID).cast(pl.get_index_type())
