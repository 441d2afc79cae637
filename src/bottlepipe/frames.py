"""The Polars schemas that the stages pass to one another. Every frame carries `session_id`.

`seq` is file order and the only order of a transcript: its timestamps run backwards on one line in twenty.
All `*_ms` columns are Unix milliseconds, UTC; null where the source gives no usable time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

Schema = Mapping[str, Any]

# One row per text block, in file order. Adjacent rows with one message_id are one message.
MESSAGES: Schema = {
    "session_id": pl.String,
    "seq": pl.Int64,
    "speaker": pl.String,  # user | assistant | notice
    "kind": pl.String,  # see envelopes
    "text": pl.String,
    "at_ms": pl.Int64,
    "entry": pl.Int64,  # row of TREE this text hangs on, -1 for none
    "message_id": pl.String,
}

# MESSAGES after `branch` and `number`: repeats are gone, every row knows its place.
NUMBERED: Schema = {
    **MESSAGES,
    "branch": pl.Int64,  # 0: on the active branch; else the number of the rewound branch
    "message": pl.Int64,  # counts messages from 0; the rows of one message share it
    "turn": pl.Int64,  # 0 before the first user message, then one up at each
}

# One row per message, its text fit for the disk.
PUBLIC: Schema = {
    "session_id": pl.String,
    "turn": pl.Int64,
    "message": pl.Int64,
    "speaker": pl.String,
    "kind": pl.String,
    "public_text": pl.String,
    "at_ms": pl.Int64,
    "ref": pl.Int64,
}

# One row per entry that has a uuid, in file order. Hashes are of this process only.
TREE: Schema = {
    "session_id": pl.String,
    "uuid_hash": pl.Int64,
    "parent_hash": pl.Int64,  # null: the entry names no parent
    "is_sidechain": pl.Boolean,
    "is_meta": pl.Boolean,
    "is_prompt": pl.Boolean,
}

TOOL_CALLS: Schema = {
    "session_id": pl.String,
    "seq": pl.Int64,
    "tool_use_id": pl.String,
    "name": pl.String,
    "at_ms": pl.Int64,
    "entry": pl.Int64,
}

# Prompts as claude-mem stored them; was_cut marks those it capped at 4000 UTF-16 units.
PROMPTS: Schema = {
    "session_id": pl.String,
    "session_db_id": pl.Int64,
    "prompt_id": pl.Int64,
    "prompt_number": pl.Int64,
    "text": pl.String,
    "at_ms": pl.Int64,
    "was_cut": pl.Boolean,
}

OBSERVATIONS: Schema = {
    "session_id": pl.String,
    "session_db_id": pl.Int64,
    "observation_id": pl.Int64,
    "prompt_number": pl.Int64,
    "at_ms": pl.Int64,
    "type": pl.String,
    "title": pl.String,
    "subtitle": pl.String,
    "narrative": pl.String,
    "text": pl.String,
    "is_guess": pl.Boolean,  # matched by project and time only
}

SUMMARIES: Schema = {
    "session_id": pl.String,
    "session_db_id": pl.Int64,
    "summary_id": pl.Int64,
    "prompt_number": pl.Int64,
    "at_ms": pl.Int64,
    "request": pl.String,
    "investigated": pl.String,
    "learned": pl.String,
    "completed": pl.String,
    "next_steps": pl.String,
    "notes": pl.String,
}

TOOL_USES: Schema = {
    "session_id": pl.String,
    "tool_use_id": pl.String,
    "observation_id": pl.Int64,
}

# What is rendered, in order: (session_id, turn, position). Turn 0 comes before the first user message;
# the turn after the last one holds observations that belong nowhere.
TIMELINE: Schema = {
    "session_id": pl.String,
    "turn": pl.Int64,
    "position": pl.Int64,
    "speaker": pl.String,  # user | assistant | notice | observation | summary
    "kind": pl.String,
    "public_text": pl.String,
    "at_ms": pl.Int64,
    "ref": pl.Int64,  # observation or summary id
}


def frame(rows: Sequence[Sequence[Any]], schema: Schema) -> pl.DataFrame:
    """A frame from row tuples in the schema's column order."""
    # By columns: making a frame from rows takes several times as long.
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pl.DataFrame(
        [pl.Series(name, values, dtype) for (name, dtype), values in zip(schema.items(), columns, strict=True)]
    )


def empty(schema: Schema) -> pl.DataFrame:
    """A frame without rows."""
    return pl.DataFrame(schema=dict(schema))


def conform(rows: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """The columns of `schema`, in its order and with its types."""
    return rows.select(pl.col(name).cast(dtype) for name, dtype in schema.items())
