"""Stage `join`: public messages, observations and summaries in, TIMELINE out: what stands under which turn, in order.

Within a turn the user's message comes first, then what happened, then everything else in file order, summaries last.
"""

from __future__ import annotations

import polars as pl

from bottlepipe.frames import TIMELINE, conform

NOWHERE = "observations that nothing ties to a turn"


def join_timeline(messages: pl.DataFrame, observations: pl.DataFrame, summaries: pl.DataFrame) -> pl.DataFrame:
    """TIMELINE of one session from PUBLIC frames. Rows without a turn stand at the end, after a notice."""
    generated = pl.concat([observations, summaries])
    # One more than any turn in use: a turn can have observations and no message that may be shown.
    turns = pl.concat([messages.get_column("turn"), generated.get_column("turn")]).drop_nulls().to_list()
    nowhere = pl.lit(max(turns, default=0) + 1)
    rank = pl.when(pl.col("speaker") == "user").then(0).when(pl.col("speaker") == "observation").then(1)
    generated = generated.with_columns(pl.col("turn").fill_null(nowhere))
    rows = [messages, generated]
    lost = generated.filter(pl.col("turn") == nowhere)
    if lost.height:
        notice = lost.head(1).with_columns(
            speaker=pl.lit("notice"), kind=pl.lit("note"), public_text=pl.lit(NOWHERE), at_ms=None, ref=None
        )
        rows.append(conform(notice, dict(messages.schema)))
    ordered = (
        pl.concat(rows)
        .with_columns(rank=rank.when(pl.col("speaker") == "summary").then(3).otherwise(2))
        .with_columns(
            rank=pl.when((pl.col("turn") == nowhere) & (pl.col("speaker") == "notice")).then(0).otherwise("rank")
        )
        # Observations by time, then id; messages keep their own order.
        .sort(
            "turn",
            "rank",
            "message",
            pl.when(pl.col("speaker").is_in(["observation", "summary"])).then("at_ms"),
            "ref",
            nulls_last=True,
            maintain_order=True,
        )
        .with_columns(position=pl.int_range(pl.len()).over("turn"))
    )
    return conform(ordered, TIMELINE)
