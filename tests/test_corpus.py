"""Every real transcript and every real database that is at hand. Skipped where there are none."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bottle_parser import parse_bottle

from bottlepipe.bottle import Bottle
from bottlepipe.locate import SessionRef, ref_of_file
from bottlepipe.pipeline import Options, render_sessions
from bottlepipe.settings import Settings

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SETTINGS = Settings(home=Path("/nowhere"), config_dir=Path("/nowhere"), data_dir=Path("/nowhere"), zone=UTC)
# The generations of databases hold one invented story, told in sessions A to G.
STORY_IDS = (
    "a3f1c2d4-0001-4a6b-9c11-5d2e7f8a9b01",
    "b7e2d3c5-0002-4b7c-8d22-6e3f8a9b0c02",
    "c9d4e5f6-0003-4c8d-9e33-7f4a9b0c1d03",
    "d1a5b6c7-0004-4d9e-8f44-8a5b0c1d2e04",
    "e9a7b8c9-0005-4e0f-9a55-9b6c1d2e3f05",
    "e1000000-aaaa-4bbb-8ccc-00000000000e",
    "f1000000-aaaa-4bbb-8ccc-00000000000f",
)
# Some may stay: D is tool output, I is escaped, L stands before its open tag, M after an empty one.
CANARIES = [f"PRIVATE-CANARY-{n}" for n in range(6)] + [f"CANARY-{letter}" for letter in "ABCEFGHJKNX"]


def render(ref: SessionRef, database: Path | None = None, **options: Any) -> Bottle:
    (bottle,) = render_sessions([ref], SETTINGS, Options(database=database, **options), NOW)
    assert isinstance(bottle, Bottle), f"{ref}: {bottle}"
    return bottle


def copy_of_database(corpus: Path, folder: Path, name: str) -> Path:
    """A private copy: reading a live database leaves a -shm beside it."""
    target = folder / name
    shutil.copytree(corpus / "claude-mem" / name, target)
    for path in (target, *target.iterdir()):
        path.chmod(0o700)
    return target / "claude-mem.db"


def test_every_transcript_renders_and_parses_back(corpus: Path, unchanged: Any) -> None:
    """Nothing real breaks it, twice gives the same bytes, and the files stay as they were."""
    paths = sorted(path for path in corpus.rglob("*.jsonl") if path.name not in ("hooks.jsonl", "journal.jsonl"))
    assert len(paths) > 100
    for path in paths:
        if not has_conversation(path):
            continue
        unchanged(path)
        bottle = render(ref_of_file(path))
        parsed = parse_bottle(bottle.text)

        assert bottle.text == render(ref_of_file(path)).text
        assert bottle.user_turns == sum(speaker == "user" for speaker, _ in parsed.messages)
        assert bottle.assistant_messages == sum(speaker == "assistant" for speaker, _ in parsed.messages)


def has_conversation(path: Path) -> bool:
    return any(kind in path.read_bytes() for kind in (b'"type":"user"', b'"type":"assistant"', b'"type": "user"'))


def test_every_assistant_text_of_every_transcript_is_in_its_bottle_in_order(corpus: Path) -> None:
    """Read apart from the pipeline, by the plainest means; rewound branches are shown so that nothing may be missing."""
    for path in sorted(corpus.rglob("*.jsonl")):
        texts = assistant_texts(path)
        if not texts:
            continue
        bottle = render(ref_of_file(path), all_branches=True)
        said = [text for speaker, text in parse_bottle(bottle.text).messages if speaker == "assistant"]
        position = 0
        whole = "\n\n".join(said)
        for text in texts:
            found = whole.find(text, position)
            assert found >= 0, f"{path}: {text[:80]!r}"
            position = found + len(text)


def assistant_texts(path: Path) -> list[str]:
    entries = []
    for line in path.read_text("utf-8", "replace").split("\n"):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("type") == "assistant" and isinstance(entry.get("message"), dict):
            entries.append(entry)
    sidechain = [bool(entry.get("isSidechain")) for entry in entries]
    seen: set[str] = set()
    texts = []
    for entry, is_sidechain in zip(entries, sidechain, strict=True):
        if (
            (is_sidechain and not all(sidechain))
            or entry.get("isApiErrorMessage")
            or entry["message"].get("model") == "<synthetic>"
        ):
            continue
        if entry.get("uuid") in seen:
            continue
        seen.add(entry.get("uuid"))
        content = entry["message"].get("content")
        texts += (
            [block["text"] for block in content if block.get("type") == "text"] if isinstance(content, list) else []
        )
    odd = re.compile("<private|[\ud800-\udfff\x00]|^\\\\*(?:\\*\\*User|\\*\\*Assistant)", re.MULTILINE)
    return [text for text in texts if text.strip() and not odd.search(text)]


@pytest.mark.parametrize("version", ["1.0.128", "2.0.76", "2.1.77", "2.1.200", "2.1.332"])
def test_a_rewound_branch_is_left_out_and_shown_on_request(corpus: Path, version: str) -> None:
    """Captured in a real terminal with Esc Esc; the oldest version may not have taken the rewind."""
    (path,) = [
        path
        for path in (corpus / "claude-code-captured" / version / "interactive").rglob("*.jsonl")
        if b"go the wrong way" in path.read_bytes() and path.name != "hooks.jsonl"
    ]
    plain, everything = render(ref_of_file(path)), render(ref_of_file(path), all_branches=True)

    assert "go the right way" in plain.text
    assert "KEPT ANSWER" in plain.text
    assert "go the wrong way" in everything.text
    if version != "1.0.128":
        assert "go the wrong way" not in plain.text
        assert "ABANDONED ANSWER" not in plain.text
        assert plain.left_out["rewound branches"] == 1
        assert "*[bottlepipe] rewound branch 1 begins*" in everything.text


def test_records_that_were_written_twice_are_shown_once(corpus: Path) -> None:
    """2.1.200 appends all earlier records again at a second compaction in one process."""
    (path,) = (corpus / "claude-code-captured" / "2.1.200" / "tools-then-compact" / "projects").rglob("*.jsonl")
    bottle = render(ref_of_file(path))
    prompts = Counter(text for speaker, text in parse_bottle(bottle.text).messages if speaker == "user")

    assert bottle.left_out["repeated entries"] > 0
    assert max(prompts.values()) == 1


def test_every_database_gives_every_session_without_a_canary(corpus: Path, tmp_path: Path) -> None:
    """From 4.0.2 to 13.25.3, with session A's transcript and without any; private text of all of them stays hidden."""
    names = sorted(path.parent.name for path in (corpus / "claude-mem").rglob("claude-mem.db"))
    transcript = corpus / "claude-mem" / "transcripts" / f"{STORY_IDS[0]}.jsonl"
    assert len(names) == 11
    for name in names:
        database = copy_of_database(corpus, tmp_path, name)
        refs = [ref_of_file(transcript), *(SessionRef(one, one, None) for one in STORY_IDS)]
        bottles = [
            one for one in render_sessions(refs, SETTINGS, Options(database=database), NOW) if isinstance(one, Bottle)
        ]

        assert bottles[0].mode == "full"
        assert len(bottles) >= 3
        for bottle in bottles:
            parse_bottle(bottle.text)
            leaked = [canary for canary in CANARIES if canary in bottle.text or canary in bottle.current_task]
            assert leaked == [], f"{name}, {bottle.session_id}"
