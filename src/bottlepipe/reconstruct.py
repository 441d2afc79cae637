"""Stage `reconstruct`: stored prompts and summaries stand in for a transcript that is lost.

The result has the shape of a numbered transcript, so everything after it works the same.
"""

from __future__ import annotations

import polars as pl

from bottlepipe.envelopes import STORED, own_words
from bottlepipe.frames import MESSAGES
from bottlepipe.stored import stored_index, stored_message_id, stored_text


def reconstruct_messages(prompts: pl.DataFrame) -> pl.DataFrame:
    """MESSAGES (with `branch`) from one session's PROMPTS of all platform rows, in order of time, then id."""
    rows = []
    ordered = prompts.with_row_index("index").sort("at_ms", "prompt_id", "index", nulls_last=True)
    for seq, row in enumerate(ordered.iter_rows(named=True), start=1):
        _, words = own_words(row["text"])
        if words is None:
            continue
        text = stored_text(words, row["was_cut"])
        message_id = stored_message_id(row["index"])
        rows.append((row["session_id"], seq, "user", STORED, text, row["at_ms"], -1, message_id, 0))
    return pl.DataFrame(rows, schema={**MESSAGES, "branch": pl.Int64}, orient="row")


def assign_turns(numbered: pl.DataFrame, prompts: pl.DataFrame) -> pl.DataFrame:
    """Add `turn` to the PROMPTS that `reconstruct_messages` was given."""
    turns = numbered.select("turn", index=stored_index())
    return prompts.with_row_index("index").join(turns, on="index", how="left", maintain_order="left").drop("index")
