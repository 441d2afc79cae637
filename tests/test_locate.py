"""Which session is meant, and may its id become a file name."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bottlepipe.errors import NothingToRender, UsageError
from bottlepipe.locate import check_id, find_transcripts, locate_latest, locate_session, project_folder, ref_of_file
from bottlepipe.settings import Settings, read_settings

ONE = "11111111-aaaa-4aaa-8aaa-111111111111"
TWO = "11111111-bbbb-4bbb-8bbb-222222222222"
THREE = "33333333-cccc-4ccc-8ccc-333333333333"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings({"HOME": str(tmp_path)})


def put(settings: Settings, folder: str, session_id: str, entries: int = 1, age_s: int = 0) -> Path:
    path = settings.projects_dir / folder / f"{session_id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"type": "user", "uuid": str(n), "message": {"role": "user", "content": "hi"}} for n in range(entries)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    moment = 1_700_000_000 - age_s
    os.utime(path, (moment, moment))
    return path


@pytest.mark.parametrize(
    "bad", ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "-rf", "a\nb", "a\x00b", "ä", "a b", "x" * 200, "a\n"]
)
def test_an_unsafe_id_never_becomes_a_file_name(bad: str) -> None:
    """Whatever could climb, hide, or pass for an option is refused."""
    with pytest.raises(UsageError):
        check_id(bad)


def test_a_session_is_found_by_its_id_or_by_six_characters_of_it(settings: Settings) -> None:
    """A unique prefix is enough."""
    path = put(settings, "-p", THREE)

    assert path == locate_session(settings, THREE).transcript
    assert path == locate_session(settings, THREE[:6]).transcript


def test_a_short_prefix_and_an_ambiguous_one_are_refused_with_reasons(settings: Settings) -> None:
    """Five characters are too few; two matches are shown."""
    put(settings, "-p", ONE)
    put(settings, "-p", TWO)

    with pytest.raises(UsageError, match=f"{ONE}, {TWO}"):
        locate_session(settings, ONE[:5])
    put(settings, "-p", THREE)
    with pytest.raises(UsageError, match=f"6 characters: {THREE}"):
        locate_session(settings, THREE[:5])
    with pytest.raises(UsageError, match=f"{ONE}, {TWO}"):
        locate_session(settings, ONE[:8])


def test_a_session_that_only_the_database_knows_is_found(settings: Settings) -> None:
    """Then there is no transcript to render from."""
    assert locate_session(settings, THREE[:8], [THREE]).transcript is None


def test_of_two_transcripts_the_one_with_more_entries_is_taken_and_the_other_counted(settings: Settings) -> None:
    """Newer is not fuller."""
    fuller = put(settings, "-old", ONE, entries=5, age_s=1000)
    put(settings, "-new", ONE, entries=2)

    ref = locate_session(settings, ONE)

    assert fuller == ref.transcript
    assert ref.others == 1


def test_latest_prefers_the_current_project(settings: Settings) -> None:
    """The newest of all is taken only where this project has none."""
    here = put(settings, project_folder("/home/ada/tide_pool"), ONE, age_s=500)
    elsewhere = put(settings, "-other", TWO)

    assert here == locate_latest(settings, "/home/ada/tide_pool").transcript
    assert elsewhere == locate_latest(settings, "/home/ada/none").transcript


def test_latest_on_an_empty_machine_says_where_it_looked(settings: Settings) -> None:
    """No folder is no crash."""
    with pytest.raises(NothingToRender, match="projects"):
        locate_latest(settings, "/")


def test_subagents_observers_and_foreign_files_are_no_sessions(settings: Settings) -> None:
    """Only main transcripts directly in a project folder count, newest first."""
    put(settings, "-p", ONE, age_s=10)
    put(settings, "-p", TWO)
    put(settings, "-p", "agent-1234")
    put(settings, f"-p/{ONE}/subagents", "agent-5678")
    put(settings, "-home-ada--claude-mem-observer-sessions", THREE)
    (settings.projects_dir / "-p" / "folder.jsonl").mkdir()
    (settings.projects_dir / "-p" / ".hidden.jsonl").write_text("")
    (settings.projects_dir / "stray.jsonl").write_text("")

    assert [TWO, ONE] == [found.session_id for found in find_transcripts(settings)]


def test_a_working_folder_maps_to_claude_codes_dashed_name() -> None:
    """Every character that is no letter or digit becomes a dash."""
    assert "-home-ada-tide-pool--x" == project_folder("/home/ada/tide_pool/.x")


def test_any_file_name_gives_a_safe_bottle_name() -> None:
    """A transcript may lie anywhere under any name."""
    assert ONE == ref_of_file(Path(f"/x/{ONE}.jsonl")).stored_id
    for name in ("..jsonl", "--x.jsonl", "a b/ü é.jsonl", ".jsonl", "x" * 300):
        check_id(ref_of_file(Path("/x") / name).bottle_id)
