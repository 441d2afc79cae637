"""The order of the stages. One session is a batch of one: the same code, the same bytes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import polars as pl

from bottlepipe.bottle import Bottle
from bottlepipe.branch import announce_branches, find_branches, mark_branches
from bottlepipe.classify import Classified, classify_entries
from bottlepipe.envelopes import COMPACT_SUMMARY
from bottlepipe.errors import BottlepipeError, ExcludedProject, NothingToRender
from bottlepipe.frames import MESSAGES, OBSERVATIONS, PROMPTS, SUMMARIES, TOOL_CALLS, TOOL_USES, TREE, empty
from bottlepipe.header import MODE_FULL, MODE_RECONSTRUCTED, Header, describe_contents, describe_left_out, tell_left_out
from bottlepipe.join import join_timeline
from bottlepipe.layout import REQUEST_LENGTH, render_bottle
from bottlepipe.locate import SessionRef, is_safe_id, locate_session, ref_of_file
from bottlepipe.memory import Memory, read_memory, read_stored_sessions
from bottlepipe.number import align_prompts, insert_stored, number_messages, place_rows
from bottlepipe.read import Entry, Skipped, open_transcript, read_entries
from bottlepipe.reconstruct import assign_turns, reconstruct_messages
from bottlepipe.redact import public_line, public_next_steps, redact_messages, redact_observations, redact_summaries
from bottlepipe.settings import Settings
from bottlepipe.task import current_task, ends_mid_turn, find_requests, original_request


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller may choose. `database` None reads none; `allow_excluded` is for output that stays off the disk."""

    database: Path | None = None
    all_branches: bool = False
    guess_orphans: bool = False
    allow_excluded: bool = False
    progress: Callable[[int, int], None] | None = None


@dataclass(slots=True)
class _Session:
    """One session on its way through the stages."""

    ref: SessionRef
    stored_id: str
    classified: Classified | None = None
    source_bytes: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


def render_sessions(
    refs: Sequence[SessionRef], settings: Settings, options: Options, now: datetime
) -> Iterator[Bottle | BottlepipeError]:
    """Render each session; an error stands in the place of a session that cannot be rendered. Nothing is written."""
    sessions: list[_Session | BottlepipeError] = []
    for ref in refs:
        try:
            sessions.append(_read_session(ref, options))
        except BottlepipeError as error:
            sessions.append(error)
    ids = [session.stored_id for session in sessions if isinstance(session, _Session) and session.stored_id]
    memory = (
        read_memory(options.database, ids, guess_orphans=options.guess_orphans)
        if options.database and ids
        else Memory()
    )
    for session in sessions:
        if isinstance(session, BottlepipeError):
            yield session
            continue
        try:
            yield _assemble(session, memory, settings, options, now)
        except BottlepipeError as error:
            yield error


def _read_session(ref: SessionRef, options: Options) -> _Session:
    session = _Session(ref, ref.stored_id)
    if ref.transcript is not None:
        try:
            classified, session.source_bytes = _classify_file(ref.transcript, ref.bottle_id, options)
        except NothingToRender:
            # Pruned between looking and reading. The database may still know the session.
            if not ref.stored_id:
                raise
            return session
        session.classified = classified
        if classified.is_subagent:
            # Its lines carry the id of the session that started it.
            session.stored_id = ""
        elif not session.stored_id and (own_id := classified.content_session_id) and is_safe_id(own_id):
            # A file under another name is still that session.
            session.stored_id = own_id
            session.ref = replace(ref, bottle_id=own_id)
    return session


def _classify_file(path: Path, session_id: str, options: Options) -> tuple[Classified, int]:
    with open_transcript(path) as file:
        # The file is being appended to: what comes after this moment belongs to the next render.
        size = os.fstat(file.fileno()).st_size

        def entries() -> Iterator[Entry | Skipped]:
            file.seek(0)
            progress = options.progress
            return read_entries(file, size, (lambda done: progress(done, size)) if progress else None)

        classified = classify_entries(entries(), session_id)
        if classified.is_subagent:
            classified = classify_entries(entries(), session_id, as_subagent=True)
        return classified, size


def read_conversation(ref: SessionRef) -> pl.DataFrame:
    """NUMBERED messages of one transcript, those on rewound branches too, repeated entries dropped."""
    if ref.transcript is None:
        raise NothingToRender(f"session {ref.bottle_id}: no transcript", hint="name a transcript file")
    classified, _ = _classify_file(ref.transcript, ref.bottle_id, Options())
    numbered, _ = _stand(classified, Options(), Counter())
    return numbered.filter(pl.col("kind") != COMPACT_SUMMARY)


def locate_source(source: str | os.PathLike[str], settings: Settings, database: Path | None) -> SessionRef:
    """The session that a path, an id or a prefix names. The database is asked only for what the disk does not know.

    Raises UsageError for an unsafe or ambiguous id, NothingToRender when nothing matches.
    """
    path = Path(source)
    # Claude Code keeps a folder of the same name beside some transcripts: only a file goes before an id.
    if not isinstance(source, str) or path.is_file() or path.suffix == ".jsonl" or path.name != source:
        return ref_of_file(path)
    try:
        return locate_session(settings, source)
    except NothingToRender:
        if database is None:
            raise
    stored, problem = read_stored_sessions(database)
    try:
        return locate_session(settings, source, [row["session_id"] for row in stored])
    except NothingToRender as error:
        raise NothingToRender(f"{error}" + (f" ({problem})" if problem else ""), hint=error.hint) from None


def _of_session(frame: pl.DataFrame, session_id: str) -> pl.DataFrame:
    return frame if frame.is_empty() else frame.filter(pl.col("session_id") == session_id)


def _assemble(session: _Session, memory: Memory, settings: Settings, options: Options, now: datetime) -> Bottle:
    classified, left_out = session.classified, session.left_out
    stored_id = session.stored_id
    project = memory.projects.get(stored_id, "")
    folders = classified.folders if classified else []
    cwd = folders[0] if folders else ""
    if not options.allow_excluded:
        _check_project(session, settings, [*folders, project])
    prompts = _of_session(memory.prompts, stored_id) if stored_id else empty(PROMPTS)
    observations = _of_session(memory.observations, stored_id) if stored_id else empty(OBSERVATIONS)
    summaries = _of_session(memory.summaries, stored_id) if stored_id else empty(SUMMARIES)
    tool_uses = _of_session(memory.tool_uses, stored_id) if stored_id else empty(TOOL_USES)

    numbered, tool_calls = _stand(classified, options, left_out) if classified else (None, empty(TOOL_CALLS))
    if numbered is not None and _is_renderable(numbered):
        mode = MODE_FULL
        prompts = align_prompts(numbered, prompts)
        numbered, prompts = insert_stored(numbered, prompts)
    else:
        if prompts.is_empty() and observations.is_empty() and summaries.is_empty():
            raise _nothing(session, memory, settings, options)
        mode = MODE_RECONSTRUCTED
        numbered, tool_calls = number_messages(reconstruct_messages(prompts)), empty(TOOL_CALLS)
        prompts = assign_turns(numbered, prompts)
    observations = place_rows(observations, "observation_id", numbered, tool_calls, tool_uses, prompts)
    numbered, observations = _drop_rewound(numbered, observations, options, left_out)

    messages = redact_messages(numbered.filter(pl.col("kind") != COMPACT_SUMMARY), left_out)
    # A conversation can be large, and from here on nobody needs its raw words.
    numbered = numbered.drop("text")
    rewound = numbered.filter(pl.col("branch") != 0).get_column("message").unique()
    requests = find_requests(messages, rewound)
    request = original_request(messages, requests, REQUEST_LENGTH + 1)
    task = current_task(messages, requests, public_next_steps(summaries))
    public_observations = redact_observations(observations, left_out)
    # In a full bottle the conversation itself is there; a summary is the observer's words.
    shown = summaries if mode == MODE_RECONSTRUCTED else summaries.clear()
    placed = place_rows(shown, "summary_id", numbered, tool_calls, empty(TOOL_USES), prompts)
    timeline = join_timeline(messages, public_observations, redact_summaries(placed, left_out))
    # It holds all their words.
    del messages

    counts = timeline.get_column("speaker").value_counts()
    tally = Counter(dict(counts.iter_rows()))
    problem = _observation_problem(memory, settings, options, session, tally["observation"])
    if classified is not None:
        left_out.update(classified.left_out + classified.skipped)
    told = tell_left_out(left_out)
    started = classified.started_ms if classified else None
    header = Header(
        session_id=session.ref.bottle_id,
        project=public_line(cwd or project),
        started_ms=started if started is not None else timeline.get_column("at_ms").drop_nulls().min(),  # type: ignore[arg-type]
        rendered=now,
        mode=mode,
        facts=_facts(session, memory, settings, mode, tally, told, problem),
    )
    data = b"".join(render_bottle(header, timeline, request, settings.zone))
    return Bottle(
        session_id=session.ref.bottle_id,
        mode=mode,
        data=data,
        project=header.project,
        user_turns=tally["user"],
        assistant_messages=tally["assistant"],
        observations=tally["observation"],
        source_bytes=session.source_bytes,
        left_out=told,
        notes=tuple(memory.notes),
        problem=problem,
        current_task=task,
        ends_mid_turn=mode == MODE_FULL and ends_mid_turn(numbered, tool_calls),
    )


def _check_project(session: _Session, settings: Settings, names: Sequence[str]) -> None:
    """Refuse a session that was ever in an excluded project, and while any is excluded one that nobody can place."""
    if settings.excluded_projects and not any(names):
        why = "its project is unknown, and CLAUDE_MEM_EXCLUDED_PROJECTS excludes some"
    elif settings.is_excluded(*names):
        why = "its project is excluded by CLAUDE_MEM_EXCLUDED_PROJECTS"
    else:
        return
    raise ExcludedProject(f"session {session.ref.bottle_id}: {why}", hint="`-o -` prints it without storing it")


def _stand(classified: Classified, options: Options, left_out: Counter[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Numbered messages and tool calls of the transcript, with the branch of each."""
    branches = find_branches(classified.tree)
    messages = mark_branches(classified.messages, branches)
    left_out["repeated entries"] += len(branches.repeated)
    if branches.abandoned:
        left_out["rewound branches"] += len(set(branches.abandoned.values()))
        if options.all_branches:
            left_out["rewound branches"] = 0
            messages = announce_branches(messages)
    tool_calls = mark_branches(classified.tool_calls, branches)
    # What stands is in the new frames; no second copy of the conversation is kept.
    classified.messages, classified.tool_calls, classified.tree = empty(MESSAGES), empty(TOOL_CALLS), empty(TREE)
    return number_messages(messages), tool_calls


def _is_renderable(numbered: pl.DataFrame) -> bool:
    return not numbered.filter((pl.col("branch") == 0) & pl.col("speaker").is_in(["user", "assistant"])).is_empty()


def _drop_rewound(
    numbered: pl.DataFrame, observations: pl.DataFrame, options: Options, left_out: Counter[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Leave out what stands on rewound branches, observations too."""
    rewound = numbered.filter(pl.col("branch") != 0)
    if rewound.is_empty() or options.all_branches:
        return numbered, observations
    turns = rewound.filter(pl.col("speaker") == "user").get_column("turn").unique()
    standing = numbered.filter(pl.col("branch") == 0)
    is_gone = pl.col("turn").is_in(turns.implode()).fill_null(False)
    left_out["messages on rewound branches"] += (
        rewound.filter(pl.col("speaker").is_in(["user", "assistant"])).get_column("message").n_unique()
    )
    left_out["observations on rewound branches"] += observations.filter(is_gone).height
    return standing, observations.filter(~is_gone)


def _nothing(session: _Session, memory: Memory, settings: Settings, options: Options) -> NothingToRender:
    name = str(session.ref.transcript) if session.ref.transcript else f"session {session.ref.bottle_id}"
    why = "no conversation in it" if session.classified is not None else "no transcript"
    if options.database is None:
        why += ", and no database to ask"
    else:
        why += f", and {memory.problem}" if memory.problem else f", and nothing stored for it in {options.database}"
    return NothingToRender(f"{name}: {why}", hint="`bottlepipe list` shows the sessions that can be rendered")


def _observation_problem(memory: Memory, settings: Settings, options: Options, session: _Session, shown: int) -> str:
    """Why a bottle has no observations; "" when it has some."""
    if memory.problem:
        return memory.problem
    if shown:
        return ""
    if options.database is None:
        return "no database was asked"
    if session.classified is not None and session.classified.is_subagent:
        return "this is a subagent's transcript; claude-mem keeps none for it"
    if settings.runtime == "server" and memory.is_empty:
        return "claude-mem runs on its Postgres server, which bottlepipe does not read"
    return "claude-mem has stored none for this session"


def _facts(
    session: _Session,
    memory: Memory,
    settings: Settings,
    mode: str,
    tally: Counter[str],
    told: dict[str, int],
    problem: str,
) -> list[tuple[str, str]]:
    facts = [("contents", describe_contents(tally))]
    if mode == MODE_FULL:
        facts.append(("source", f"{session.source_bytes} bytes of transcript"))
    if told:
        facts.append(("left out", ", ".join(describe_left_out(told))))
    if problem:
        facts.append(("observations", f"none — {problem}"))
    facts.extend(("database", note) for note in memory.notes)
    if session.classified is not None and session.classified.is_subagent:
        facts.append(("subagent", "yes — its user turns were written by the main model"))
    if session.ref.others:
        facts.append(("other transcripts", f"{session.ref.others} of the same id in other project folders, not read"))
    if settings.problem:
        facts.append(("settings", settings.problem))
    return facts
