"""The command line: parse, call, report. Data goes to stdout, words to stderr; an error is one line and a hint."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bottlepipe import __version__
from bottlepipe.errors import BottlepipeError, NothingToRender, UsageError
from bottlepipe.terminal import harmless, moment, progress_bar, say, size, stop_writing

if TYPE_CHECKING:
    from bottlepipe.bottle import Bottle
    from bottlepipe.locate import SessionRef
    from bottlepipe.settings import Settings

app = typer.Typer(
    name="bottlepipe",
    help="Gives long Claude Code sessions their memory back: the conversation word for word, in a file.",
    epilog="Start with `bottlepipe demo`, then `bottlepipe list` and `bottlepipe render --latest`.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
DbFile = Annotated[
    Path | None,
    typer.Option("--db", metavar="FILE", readable=False, help="Read this claude-mem database.", show_default=False),
]


@app.callback()
def _common(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback behind an error.")] = False,
) -> None:
    if version:
        _print_data(f"bottlepipe {__version__}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        _print_data(context.get_help() + "\n")


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 usage, 3 nothing to render, 130 interrupted."""
    # --debug may stand anywhere on the line.
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    was_interrupted = _watch_interrupts()
    if sys.stdout is None:
        sys.stdout = _Closed()
    try:
        result = typer.main.get_command(app).main(arguments, prog_name="bottlepipe", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as error:
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        # How click ends when the reader of its help has gone away.
        if sys.__stdout__ is not None:
            stop_writing(sys.__stdout__)
        return 0
    except (KeyboardInterrupt, typer.Abort, Exception) as error:
        if was_interrupted() or not isinstance(error, Exception) or isinstance(error, typer.Abort):
            return _fail(error, "interrupted", "", 130, debug=debug)
        return _fail(error, *_explain(error), debug=debug)
    if was_interrupted():
        return _fail(KeyboardInterrupt(), "interrupted", "", 130, debug=debug)
    return result if isinstance(result, int) else 0


class _Closed(io.TextIOBase):
    """What stands for a standard output that was closed: everybody who writes to it hears so."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "it is closed", "standard output")


def _watch_interrupts() -> Callable[[], bool]:
    """Remember Ctrl-C: a library that is interrupted in the middle of its work may raise anything at all."""
    seen: list[int] = []

    def remember(signum: int, frame: object) -> None:
        seen.append(signum)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, remember)
    return lambda: bool(seen)


def _explain(error: Exception) -> tuple[str, str, int]:
    """What happened in one line, a hint, and the exit code."""
    if isinstance(error, BottlepipeError):
        return str(error), error.hint, error.exit_code
    if isinstance(words := getattr(error, "format_message", lambda: None)(), str):
        # A usage error of click, which typer brings under different names.
        return words, "`bottlepipe --help` shows the commands", 2
    if isinstance(error, OSError):
        what = error.filename or "input/output"
        return f"{what}: {error.strerror or error}", "check the path and its permissions", 1
    first_line = (str(error).splitlines() or [""])[0]
    hint = "this is a fault of bottlepipe; `--debug` shows where"
    return f"unexpected {type(error).__name__}: {first_line}", hint, 1


def _fail(error: BaseException, message: str, hint: str, code: int, *, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exception(error)
    say(f"bottlepipe: {message}")
    if hint:
        say(f"hint: {hint}")
    if sys.__stdout__ is not None:
        try:
            sys.__stdout__.flush()
        except OSError:
            # What could not be written would be tried again at exit, and change the exit code.
            stop_writing(sys.__stdout__)
    return code


@app.command(short_help="Render a bundled sample session.")
def demo(as_json: Json = False) -> None:
    """Render a bundled sample session and show the bottle, the pointer and the numbers.

    Nothing of yours is read; the bottle goes to a temporary folder.

    Example: bottlepipe demo
    """
    import tempfile
    from dataclasses import replace

    from bottlepipe.demo import sample_database, sample_transcript
    from bottlepipe.locate import ref_of_file
    from bottlepipe.pointer import render_pointer
    from bottlepipe.settings import read_settings

    settings = replace(
        read_settings(),
        data_dir=Path(tempfile.mkdtemp(prefix="bottlepipe-demo-")),
        excluded_projects=(),
        runtime="worker",
    )
    with sample_transcript() as transcript, sample_database() as database:
        bottle, seconds = _render_one(ref_of_file(transcript), settings, database=database)
    bottle = _store(bottle, settings, None)
    pointer = render_pointer(bottle, str(bottle.path))
    if as_json:
        _print_json({**_facts(bottle, seconds), "pointer": pointer})
        return
    _print_data(bottle.text)
    say("\nand this is what a fresh context is given:\n")
    _print_data(pointer)
    say(f"\n{_summary(bottle, seconds)}")
    say(f"the bottle is {bottle.path}\nnow try: bottlepipe list")


@app.command("list", short_help="List the sessions, newest first.")
def list_sessions(
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=0, help="Show this many, 0 for all.  [30; all with --json]")
    ] = None,
    db: DbFile = None,
    as_json: Json = False,
) -> None:
    """List the sessions that can be rendered, newest first: id, project, last activity, size, bottle.

    Example: bottlepipe list --limit 5
    """
    from bottlepipe.settings import read_settings

    settings = read_settings()
    rows, problem = _sessions(settings, db or settings.database)
    if problem and (db is not None or settings.database.exists()):
        say(f"note: sessions that only the database knows are missing: {problem}")
    if not rows:
        raise NothingToRender(
            f"no session below {settings.projects_dir} and none in {db or settings.database}",
            hint="`bottlepipe demo` shows what it does; CLAUDE_CONFIG_DIR names another folder of Claude Code",
        )
    if limit is None:
        limit = 0 if as_json else 30
    shown = rows[:limit] if limit else rows
    if as_json:
        _print_json(shown)
        return
    from bottlepipe.clauses import one_line

    for row in shown:
        line = (
            row["session_id"],
            one_line(harmless(row["project"] or "-"), 200),
            moment(row["last_activity_ms"]),
            size(row["bytes"]) if row["bytes"] is not None else "-",
            row["bottle"],
        )
        _print_data(f"{line[0]:<36}  {line[1]:<24}  {line[2]:<16}  {line[3]:>8}  {line[4]}\n")
    if len(shown) < len(rows):
        say(f"{len(rows) - len(shown)} more; `bottlepipe list --limit 0` shows all")


def _sessions(settings: Settings, database: Path) -> tuple[list[dict[str, Any]], str]:
    from bottlepipe.locate import find_transcripts, is_safe_id
    from bottlepipe.write import read_standing

    if database.exists():
        # Only then are the libraries that read one worth their start-up time.
        from bottlepipe.memory import read_stored_sessions

        stored, problem = read_stored_sessions(database)
    else:
        stored, problem = [], "claude-mem has no database here"
    projects = {row["session_id"]: row["project"] for row in stored}
    rows: dict[str, dict[str, Any]] = {}
    for found in find_transcripts(settings):
        standing = read_standing(settings.bottles_dir / f"{found.session_id}.md")
        state = "none" if standing is None else "stale" if standing.source_bytes != found.bytes else "current"
        project = projects.get(found.session_id) or found.folder
        rows.setdefault(found.session_id, _row(found.session_id, project, found.changed_ms, found.bytes, state))
    # The oldest databases store no prompts at all; there every row is a session.
    counts_prompts = any(row["prompts"] for row in stored)
    for row in stored:
        # Rows that the observer or a repair made for itself have no prompts and nothing to show.
        session_id = row["session_id"]
        is_shown = (
            (row["prompts"] or not counts_prompts) and row["project"] != "observer-sessions" and is_safe_id(session_id)
        )
        if session_id in rows or not is_shown:
            continue
        standing = read_standing(settings.bottles_dir / f"{session_id}.md")
        state = "none" if standing is None else "current"
        rows[session_id] = _row(session_id, row["project"], row["at_ms"], None, state)
    return sorted(rows.values(), key=lambda row: (-(row["last_activity_ms"] or 0), row["session_id"])), problem


def _row(
    session_id: str, project: str | None, at_ms: int | None, transcript_bytes: int | None, state: str
) -> dict[str, Any]:
    from bottlepipe.tags import strip_tags

    return {
        "session_id": session_id,
        # Claude Code names its folders; what a database calls a project can be anything.
        "project": strip_tags(project).text if project else project,
        "last_activity_ms": at_ms,
        "bytes": transcript_bytes,
        "bottle": state,
    }


@app.command()
def render(
    source: Annotated[
        str | None, typer.Argument(metavar="ID|FILE", help="A session id (6 characters are enough) or a transcript.")
    ] = None,
    latest: Annotated[bool, typer.Option("--latest", help="The newest session of this project, else of all.")] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE|-", help="Write here; `-` prints it.", show_default=False),
    ] = None,
    db: DbFile = None,
    no_db: Annotated[bool, typer.Option("--no-db", help="Read no database.")] = False,
    all_branches: Annotated[bool, typer.Option("--all-branches", help="Show rewound branches too, marked.")] = False,
    guess_orphans: Annotated[
        bool, typer.Option("--guess-orphans", help="Also match observations by project and time, marked.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Render one session into its bottle.

    Without -o the bottle goes to bottles/ in claude-mem's data folder. --json tells of the bottle that is there
    afterwards: of the one before, where that had more and was kept.

    \b
    Examples:
      bottlepipe render --latest
      bottlepipe render 3f2a91c0
      bottlepipe render session.jsonl -o -
    """
    from bottlepipe.settings import read_settings

    settings = read_settings()
    if (source is None) == (not latest):
        raise UsageError("name one session, or --latest", hint="`bottlepipe list` shows the ids")
    if db is not None and no_db:
        raise UsageError("--db and --no-db exclude each other", hint="leave one of them out")
    if output == "-" and as_json:
        raise UsageError("-o - and --json both want stdout", hint="write the bottle to a file with -o FILE")
    database = None if no_db else db or settings.database
    ref = _locate(source, settings, database)
    if output not in (None, "-"):
        # The user's own database is no file to write to with --no-db either.
        _check_output(Path(str(output)), ref, [db, settings.database])
    with progress_bar() as progress:
        bottle, seconds = _render_one(
            ref,
            settings,
            database=database,
            all_branches=all_branches,
            guess_orphans=guess_orphans,
            allow_excluded=output == "-",
            progress=progress,
        )
    if output == "-":
        _print_data(bottle.text)
    else:
        bottle = _store(bottle, settings, output, ref)
    if as_json:
        _print_json(_facts(bottle, seconds))
    elif bottle.path is not None:
        _print_data(f"{bottle.path}\n")
    say(_summary(bottle, seconds))


def _locate(source: str | None, settings: Settings, database: Path | None) -> SessionRef:
    from bottlepipe.locate import locate_latest

    if source is None:
        try:
            folder = os.getcwd()
        except FileNotFoundError:
            # The folder was deleted: then no session is of it.
            folder = ""
        return locate_latest(settings, folder)
    from bottlepipe.pipeline import locate_source

    return locate_source(source, settings, database)


def _check_output(output: Path, ref: SessionRef, databases: Iterable[Path | None]) -> None:
    """Refuse to write over a source, or a file beside a database that SQLite would take for its own."""
    sources = [ref.transcript]
    for database in databases:
        if database is not None:
            real = os.path.realpath(database)
            sources += [Path(real + end) for end in ("", "-wal", "-shm", "-journal")]
    for source in sources:
        if source is not None and _is_same(output, source):
            raise UsageError(f"{output}: is a source of this render and is never written to", hint="name another file")


def _is_same(path: Path, other: Path) -> bool:
    """True for one file under two names, and for one place where no file is yet."""
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    return path.exists() and other.exists() and os.path.samefile(path, other)


def _render_one(ref: SessionRef, settings: Settings, *, database: Path | None, **choices: Any) -> tuple[Bottle, float]:
    from bottlepipe.pipeline import Options, render_sessions
    from bottlepipe.settings import render_time

    started = time.perf_counter()
    (rendered,) = render_sessions([ref], settings, Options(database=database, **choices), render_time(settings))
    if isinstance(rendered, BottlepipeError):
        raise rendered
    return rendered, time.perf_counter() - started


def _store(bottle: Bottle, settings: Settings, output: str | None, ref: SessionRef | None = None) -> Bottle:
    from dataclasses import replace

    from bottlepipe.write import WRITTEN, Standing, write_bottle, write_file

    if output is not None:
        write_file(Path(output), [bottle.data])
        return replace(bottle, path=Path(output), outcome=WRITTEN)
    standing = Standing(
        bottle.mode, bottle.user_turns, bottle.source_bytes, bottle.assistant_messages, bottle.observations
    )
    transcript = ref.transcript if ref else None
    written = write_bottle(
        settings.bottles_dir, bottle.session_id, [bottle.data], standing, int(time.time() * 1000), transcript
    )
    return replace(bottle, path=written.path, outcome=written.outcome, archived=written.archived)


def _summary(bottle: Bottle, seconds: float) -> str:
    """`10.1 MB -> 201 kB in 0.09 s, full, 76 prompts, …`, with everything that was left out."""
    from bottlepipe.header import count_of, describe_left_out
    from bottlepipe.write import REASONS

    parts = [
        f"{size(bottle.source_bytes)} -> {size(len(bottle.data))} in {seconds:.2f} s",
        bottle.mode,
        count_of(bottle.user_turns, "prompt"),
        count_of(bottle.observations, "observation"),
        *describe_left_out(bottle.left_out, with_verb=True),
    ]
    if bottle.problem:
        parts.append(f"no observations: {bottle.problem}")
    if bottle.archived is not None:
        parts.append(f"the bottle before had more and is now {bottle.archived}")
    if bottle.outcome in REASONS:
        parts.append(REASONS[bottle.outcome])
    return ", ".join(parts)


def _facts(bottle: Bottle, seconds: float) -> dict[str, Any]:
    """What a render did, for machines. The sizes are those of the bottle at `path`.

    Where an older one was kept, `mode`, sizes and counts are that one's, and there are no keys for what was left out of
    the render that went nowhere.
    """
    from bottlepipe.write import REASONS, read_standing

    facts: dict[str, Any] = {
        "session_id": bottle.session_id,
        "mode": bottle.mode,
        "path": str(bottle.path) if bottle.path else None,
        "outcome": bottle.outcome,
        "archived": str(bottle.archived) if bottle.archived else None,
        "project": bottle.project,
        "source_bytes": bottle.source_bytes,
        "bottle_bytes": len(bottle.data),
        "seconds": round(seconds, 4),
        "user_turns": bottle.user_turns,
        "assistant_messages": bottle.assistant_messages,
        "observations": bottle.observations,
        "observations_problem": bottle.problem,
        "left_out": {name.replace(" ", "_"): count for name, count in bottle.left_out.items()},
        "notes": list(bottle.notes),
        "current_task": bottle.current_task,
        "ends_mid_turn": bottle.ends_mid_turn,
    }
    if bottle.outcome in REASONS and bottle.path is not None:
        del facts["observations_problem"], facts["left_out"], facts["notes"]
        standing = read_standing(bottle.path)
        facts["bottle_bytes"] = bottle.path.stat().st_size if standing else None
        for name in ("mode", "source_bytes", "user_turns", "assistant_messages", "observations"):
            facts[name] = getattr(standing, name, None)
    return facts


@app.command(short_help="Show one whole observation.")
def show(
    observation_id: Annotated[str, typer.Argument(metavar="OBSERVATION_ID", help="The number in a bottle's `[#id]`.")],
    db: DbFile = None,
    as_json: Json = False,
) -> None:
    """Show the whole observation behind a `[#id]` of a bottle, without private spans.

    Example: bottlepipe show 102401
    """
    digits = observation_id.strip().strip("[]#")
    if not digits.isdecimal() or len(digits) > 18:
        raise UsageError(f"{observation_id[:40]!r} is not an observation id", hint="give the number behind `#`")
    from bottlepipe.errors import SourceUnreadable
    from bottlepipe.memory import read_observation
    from bottlepipe.redact import redact_record
    from bottlepipe.settings import read_settings

    database = db or read_settings().database
    record, problem = read_observation(database, int(digits))
    if problem:
        raise SourceUnreadable(f"{database}: {problem}", hint="name another database with --db")
    if record is None:
        raise NothingToRender(
            f"observation #{digits}: not in {database}", hint="the number must come from a bottle of this database"
        )
    record = redact_record({name: value for name, value in record.items() if value not in (None, "", "[]")})
    if as_json:
        _print_json(record)
        return
    for name in sorted(record, key=_field_rank):
        _print_data(f"{name}: {_readable(record[name])}\n")


_FIELDS = (
    "id",
    "type",
    "title",
    "subtitle",
    "narrative",
    "text",
    "facts",
    "concepts",
    "files_read",
    "files_modified",
    "created_at",
    "project",
    "prompt_number",
)


def _field_rank(name: str) -> tuple[int, str]:
    return (_FIELDS.index(name) if name in _FIELDS else len(_FIELDS), name)


def _readable(value: object) -> str:
    """A list as indented lines; anything else on one line."""
    return "".join(f"\n  - {item}" for item in value) if isinstance(value, list) else str(value)


def _print_data(text: str) -> None:
    """Write data to stdout: byte for byte, but with control characters made harmless on a terminal."""
    if sys.stdout.isatty():
        text = harmless(text)
    if isinstance(sys.stdout, _Closed):
        sys.stdout.write(text)
    try:
        sys.stdout.flush()
        # A path may hold bytes that are no UTF-8; they go out as they came in.
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The reader has gone: nothing left to say, and nothing to complain about at exit.
        stop_writing(sys.stdout)
        raise typer.Exit from None
    except OSError as error:
        stop_writing(sys.stdout)
        raise OSError(error.errno, error.strerror, "standard output") from None


def _print_json(value: object) -> None:
    import json

    _print_data(json.dumps(value, ensure_ascii=sys.stdout.isatty(), indent=2) + "\n")
