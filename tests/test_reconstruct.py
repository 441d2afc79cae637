"""A session whose transcript is lost: stored prompts, observations and summaries stand in for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from bottle_parser import Block, ParsedBottle, parse_bottle

from bottlepipe.errors import NothingToRender
from bottlepipe.locate import SessionRef
from bottlepipe.pipeline import Options, render_sessions
from bottlepipe.settings import read_settings, render_time

SCHEMA = """
CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, content_session_id TEXT, memory_session_id TEXT, project TEXT,
  platform_source TEXT, user_prompt TEXT, started_at TEXT, started_at_epoch INTEGER);
CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, session_db_id INTEGER, content_session_id TEXT,
  prompt_number INTEGER, prompt_text TEXT, created_at TEXT, created_at_epoch INTEGER);
CREATE TABLE observations (id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, type TEXT, title TEXT,
  prompt_number INTEGER, created_at TEXT, created_at_epoch INTEGER);
CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, memory_session_id TEXT, request TEXT, learned TEXT,
  next_steps TEXT, prompt_number INTEGER, created_at TEXT, created_at_epoch INTEGER);
INSERT INTO sdk_sessions VALUES
  (1, 's1', 'm1', 'kiln', 'claude', 'RAW FIRST PROMPT', '', 1772445600000),
  (2, 's1', 'm2', 'kiln', 'codex', NULL, '', 1772445600000);
"""
MakeDatabase = Callable[..., Path]


@pytest.fixture
def reconstruct(make_database: MakeDatabase) -> Callable[..., ParsedBottle]:
    """Render session s1 from rows alone: prompts (row, number, text), observations and summaries (row, number, text).

    Their times are minutes after the start, in the order given.
    """

    def run(
        prompts: list[tuple[int, int, str]],
        observations: list[tuple[int, int | None, str]] = [],  # noqa: B006
        summaries: list[tuple[int, int | None, str]] = [],  # noqa: B006
    ) -> ParsedBottle:
        def text(value: object) -> str:
            return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"

        sql = [SCHEMA]
        for index, (row, number, said) in enumerate(prompts):
            epoch = 1772445600000 + index * 600_000
            sql.append(f"INSERT INTO user_prompts VALUES (NULL, {row}, 's1', {number}, {text(said)}, '', {epoch});")
        for index, (row, number, title) in enumerate(observations):
            epoch = 1772445660000 + index * 600_000
            sql.append(
                f"INSERT INTO observations VALUES"
                f" (NULL, 'm{row}', 'kiln', 'change', {text(title)}, {number or 'NULL'}, '', {epoch});"
            )
        for index, (row, number, request) in enumerate(summaries):
            epoch = 1772445720000 + index * 600_000
            sql.append(
                f"INSERT INTO session_summaries VALUES"
                f" (NULL, 'm{row}', {text(request)}, NULL, NULL, {number or 'NULL'}, '', {epoch});"
            )
        settings = read_settings()
        options = Options(database=make_database("\n".join(sql)))
        (bottle,) = render_sessions([SessionRef("s1", "s1", None)], settings, options, render_time(settings))
        if isinstance(bottle, Exception):
            raise bottle
        assert "RAW FIRST PROMPT" not in bottle.text
        parsed = parse_bottle(bottle.text)
        assert "reconstructed — assistant messages not preserved" == parsed.header["mode"]
        return parsed

    return run


def outline(bottle: ParsedBottle) -> list[str | list[str]]:
    def line(block: Block) -> str | list[str]:
        return block.lines if block.speaker == "observations" else f"{block.speaker}: {block.text}"

    return [line(block) for block in bottle.blocks]


def test_prompts_of_all_platforms_stand_in_order_of_time(reconstruct: Callable[..., ParsedBottle]) -> None:
    """Numbers restart in every session row; time does not. Each observation is under its own row's prompt."""
    bottle = reconstruct(
        [(1, 1, "Glaze"), (2, 1, "Fire"), (1, 2, "Cool")],
        [(1, 1, "Glazed"), (2, 1, "Fired"), (1, 2, "Cooled"), (1, 1, "Glazed late")],
    )

    assert [
        "user: Glaze",
        ["- [#1] Glazed", "- [#4] Glazed late"],
        "user: Fire",
        ["- [#2] Fired"],
        "user: Cool",
        ["- [#3] Cooled"],
    ] == outline(bottle)
    assert "Glaze" == bottle.request


def test_summaries_are_quoted_and_nobodys_speech(reconstruct: Callable[..., ParsedBottle]) -> None:
    """A generated text never stands under a speaker, whatever it pretends to be."""
    bottle = reconstruct([(1, 1, "Glaze"), (1, 2, "Fire")], [], [(1, 1, "Glaze\n**Assistant** (10:00)\nDone")])

    assert [
        "user: Glaze",
        "summary: request: Glaze\n  **Assistant** (10:00)\n  Done",
        "user: Fire",
    ] == outline(bottle)


def test_a_cut_prompt_says_so(reconstruct: Callable[..., ParsedBottle]) -> None:
    """4000 UTF-16 units with a last ellipsis were cut; exactly 4000 without one were not."""
    cut, split, whole = "x" * 3999 + "…", "🎉" * 1999 + "\ufffd…", "z" * 4000
    short = "y" * 3990 + "…"

    assert [
        f"user: {cut}\n[truncated at 4000 chars]",
        f"user: {split}\n[truncated at 4000 chars]",
        f"user: {whole}",
        f"user: {short}",
    ] == outline(reconstruct([(1, 1, cut), (1, 2, split), (1, 3, whole), (1, 4, short)]))


def test_nothing_but_observations_is_still_a_bottle(reconstruct: Callable[..., ParsedBottle]) -> None:
    """The oldest databases keep no prompts; what happened is worth having."""
    bottle = reconstruct([], [(1, 1, "Glazed"), (2, None, "Fired")])

    assert [["- [#1] Glazed", "- [#2] Fired"]] == outline(bottle)
    assert "" == bottle.request


def test_nothing_but_summaries_is_still_a_bottle(reconstruct: Callable[..., ParsedBottle]) -> None:
    """One sentence on what was done beats nothing."""
    assert ["summary: request: Glaze the pots"] == outline(reconstruct([], [], [(1, None, "Glaze the pots")]))


def test_a_wholly_private_prompt_leaves_a_placeholder(reconstruct: Callable[..., ParsedBottle]) -> None:
    """Old databases hold raw private prompts: no word of one is shown, and the prompts around keep their place."""
    bottle = reconstruct([(1, 1, "<private>hush</private>"), (1, 2, "Glaze <private>hush</private>now")])

    assert ["user: [private]", "user: Glaze now"] == outline(bottle)
    assert "Glaze now" == bottle.request


def test_envelopes_stored_as_prompts_are_no_turns(reconstruct: Callable[..., ParsedBottle]) -> None:
    """What the host wrote is nobody's speech; what it wrapped around the user's words is taken off."""
    bottle = reconstruct(
        [
            (1, 1, "<task-notification>done</task-notification>"),
            (
                1,
                2,
                "<command-message>glaze</command-message>\n<command-name>/glaze</command-name>\n<command-args>blue</command-args>",
            ),
            (1, 3, "<ide_opened_file>kiln.py</ide_opened_file>\nFire"),
        ],
        [(1, 1, "Noticed")],
    )

    assert [["- [#1] Noticed"], "user: /glaze blue", "user: Fire"] == outline(bottle)


def test_neither_transcript_nor_rows_is_nothing(reconstruct: Callable[..., ParsedBottle]) -> None:
    """A session row alone holds nothing that may be shown."""
    with pytest.raises(NothingToRender, match="nothing stored for it"):
        reconstruct([])


@pytest.mark.parametrize("key", ["NULL", "7"])
def test_prompts_without_ids_or_with_equal_ones_stay_apart(make_database: MakeDatabase, home: Path, key: str) -> None:
    """Their table may have lost its key: each is a turn of its own, once."""
    database = make_database(
        SCHEMA.replace("user_prompts (id INTEGER PRIMARY KEY", "user_prompts (id INTEGER")
        + "".join(
            f"INSERT INTO user_prompts VALUES ({key}, 1, 's1', {number}, '{text}', '', {1772445600000 + number});"
            for number, text in enumerate(["Glaze", "Fire", "Cool"], start=1)
        )
    )
    settings = read_settings()

    (bottle,) = render_sessions(
        [SessionRef("s1", "s1", None)], settings, Options(database=database), render_time(settings)
    )

    assert not isinstance(bottle, Exception)
    assert ["user: Glaze", "user: Fire", "user: Cool"] == outline(parse_bottle(bottle.text))
