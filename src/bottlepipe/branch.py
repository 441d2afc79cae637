"""Stage 3, `branch`: which entries stand.

A rewind leaves the abandoned branch in the file; most other off-branch entries come from parallel tool calls and broken
parents, and stay. So only a plain prompt that is the sibling of a plain prompt on the active chain is dropped, with
all that hangs below it. Two roots, a missing parent or a re-used meta parent never lose text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from bottlepipe.envelopes import NOTE


@dataclass(frozen=True, slots=True)
class Branches:
    """For one session: which rows of TREE are repeats of an earlier uuid, and which were abandoned by a rewind.

    `abandoned` maps a TREE row to the number (from 1) of its rewound branch.
    """

    repeated: frozenset[int]
    abandoned: dict[int, int]


def find_branches(tree: pl.DataFrame) -> Branches:
    """Judge the TREE rows of one session."""
    rows = tree.select("uuid_hash", "parent_hash", "is_sidechain", "is_meta", "is_prompt").with_row_index("row")
    # A sidechain entry that shares a uuid takes nothing from the conversation.
    main = rows.filter(~pl.col("is_sidechain"))
    is_first = main.get_column("uuid_hash").is_first_distinct()
    repeated = main.filter(~is_first).get_column("row")
    first = pl.concat([main.filter(is_first), rows.filter("is_sidechain")])
    first = first.filter(pl.col("uuid_hash").is_first_distinct()).select(
        pl.col("uuid_hash").alias("parent_hash"),
        pl.col("row").alias("parent"),
        pl.col("is_meta").alias("parent_is_meta"),
    )
    # Most sessions have no fork of prompts, and are done with their few prompts.
    prompts = rows.filter(pl.col("is_prompt") & ~pl.col("row").is_in(repeated.implode()))
    siblings = (
        prompts.join(first, on="parent_hash", maintain_order="left")
        .filter((pl.col("parent") != pl.col("row")) & ~pl.col("parent_is_meta"))
        .group_by("parent", maintain_order=True)
        .agg("row")
    )
    forks: list[list[int]] = siblings.filter(pl.col("row").list.len() > 1).get_column("row").to_list()
    if not forks:
        return Branches(frozenset(repeated), {})

    parents: list[int | None] = (
        rows.join(first, on="parent_hash", how="left", maintain_order="left").get_column("parent").to_list()
    )
    off_limits = rows.select(pl.col("is_sidechain") | pl.col("row").is_in(repeated.implode())).to_series().to_list()
    on_chain = _walk_chain(parents, off_limits)
    heads = sorted(row for fork in forks if any(on_chain[r] for r in fork) for row in fork if not on_chain[row])
    return Branches(frozenset(repeated), _below(heads, parents, on_chain))


def _walk_chain(parents: list[int | None], is_off_limits: list[bool]) -> list[bool]:
    """Mark the rows on the way from the last main-chain row to the first.

    Where a parent is missing or the way runs in a circle, it goes on at the nearest earlier row not yet on it.
    """
    on_chain = [False] * len(parents)
    # earlier[row]: some row at or before it that may still be free; compressed as the walk goes.
    earlier = list(range(len(parents)))

    def nearest_free(row: int) -> int:
        path = []
        while row >= 0 and (on_chain[row] or is_off_limits[row]):
            path.append(row)
            row = earlier[row] if earlier[row] < row else row - 1
        for passed in path:
            earlier[passed] = row
        return row

    row = nearest_free(len(parents) - 1)
    while row >= 0:
        on_chain[row] = True
        parent = parents[row]
        row = parent if parent is not None and not on_chain[parent] and not is_off_limits[parent] else nearest_free(row)
    return on_chain


def _below(heads: list[int], parents: list[int | None], on_chain: list[bool]) -> dict[int, int]:
    """Map every row at or below one of `heads` to the number of that head, from 1."""
    children: dict[int, list[int]] = {}
    for row, parent in enumerate(parents):
        # What is on the chain is below no head; so most rows need no place here.
        if parent is not None and parent != row and not on_chain[row]:
            children.setdefault(parent, []).append(row)
    branch: dict[int, int] = {}
    for number, head in enumerate(heads, start=1):
        stack = [head]
        while stack:
            row = stack.pop()
            if row in branch or on_chain[row]:
                continue
            branch[row] = number
            stack.extend(children.get(row, ()))
    return branch


def mark_branches(rows: pl.DataFrame, branches: Branches) -> pl.DataFrame:
    """Drop the rows that hang on repeated entries and add `branch`: 0 for rows that stand, else the branch's number.

    Takes MESSAGES or TOOL_CALLS of one session; both name their TREE row in `entry`.
    """
    number = pl.col("entry").replace_strict(branches.abandoned, default=0, return_dtype=pl.Int64)
    kept = rows.filter(~pl.col("entry").is_in(list(branches.repeated))) if branches.repeated else rows
    if not branches.abandoned:
        return kept.with_columns(branch=pl.lit(0, pl.Int64))
    # What hangs on no entry (a queued text) belongs to the branch that it stands in the middle of.
    is_loose = pl.col("entry") < 0
    around = pl.when(is_loose).then(None).otherwise(number)
    before, after = around.forward_fill().fill_null(0), around.backward_fill().fill_null(0)
    return kept.with_columns(branch=pl.when(~is_loose).then(number).when(before == after).then(before).otherwise(0))


def announce_branches(messages: pl.DataFrame) -> pl.DataFrame:
    """Put a notice before and after every run of rows of one rewound branch, so that a reader cannot mistake it."""
    rows: list[dict[str, Any]] = []
    open_row: dict[str, Any] | None = None

    def announce(row: dict[str, Any], word: str) -> None:
        text = f"rewound branch {row['branch']} {word}"
        identity = f"branch:{row['branch']}:{word}:{len(rows)}"
        rows.append({**row, "speaker": "notice", "kind": NOTE, "text": text, "message_id": identity})

    for row in messages.iter_rows(named=True):
        if open_row is not None and row["branch"] != open_row["branch"]:
            announce(open_row, "ends")
            open_row = None
        if row["branch"] and open_row is None:
            announce(row, "begins")
        rows.append(row)
        open_row = row if row["branch"] else None
    if open_row is not None:
        announce(open_row, "ends")
    return pl.DataFrame(rows, schema=messages.schema)
