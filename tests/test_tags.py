"""What the private-tag scanner hides, and that it hides nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bottlepipe.tags import LOOSE_NAMES, STRICT_NAMES, strip_tags

CASES = Path(__file__).parent / "cases" / "tags"
NAMES = sorted(STRICT_NAMES | LOOSE_NAMES)
_quick = settings(deadline=None, max_examples=100)

# Whole tags, their pieces, what could stand in them, and Markdown code.
_SOUP = st.lists(
    st.one_of(
        st.sampled_from([f"<{name}>" for name in NAMES]),
        st.sampled_from([f"</{name}>" for name in NAMES]),
        st.sampled_from(["<private/>", "<PRIVATE x='<>'>", "</private", "<private", "< private ", "<priv", "</priv"]),
        st.sampled_from(["ate>", "private>", "<system-", "reminder>", "<", ">", "/", "</", " ", "\n", "\n\n", "\\"]),
        st.sampled_from(["`", "``", "```", "\n```\n", "\n~~~\n", "a", "é", "\x00", "\u2028"]),
    ),
    max_size=24,
).map("".join)


def _cases() -> list[Any]:
    found = []
    for path in sorted(CASES.glob("*.toml")):
        for case in tomllib.loads(path.read_text("utf-8"))["case"]:
            found.append(pytest.param(case, id=f"{path.stem}: {case['what']}"))
    assert found, f"no cases in {CASES}"
    return found


@pytest.mark.parametrize("case", _cases())
def test_a_text_keeps_what_its_case_says(case: dict[str, Any]) -> None:
    """The case's text, as a user's and as an assistant's, keeps exactly what the case names."""
    users, answer = strip_tags(case["text"]), strip_tags(case["text"], keep_code=True)

    assert case["left"] == users.text
    assert case.get("answer", case["left"]) == answer.text
    assert case.get("private_spans", users.private_spans) == users.private_spans
    assert case.get("host_spans", users.host_spans) == users.host_spans


@pytest.mark.parametrize("text", ["<private>S</private>", " <private>S</private>\n", "<private>S", "<private"])
def test_a_text_of_private_spans_and_white_space_is_wholly_private(text: str) -> None:
    """What leaves nothing to read is known as private, not as empty."""
    assert strip_tags(text).is_wholly_private


@pytest.mark.parametrize(
    "text", ["", " ", "</private>", "<system-reminder>x</system-reminder>", "a<private>S</private>"]
)
def test_a_text_without_private_spans_or_with_more_is_not_wholly_private(text: str) -> None:
    """An empty text is not a private one, and neither is one of which something is left."""
    assert not strip_tags(text).is_wholly_private


@_quick
@given(_SOUP, st.booleans())
@example("a<pri<private>x `y</private>vate>z` w", True)
@example("`<private>`<private>`</private>`", True)
def test_stripping_twice_is_stripping_once(text: str, keep_code: bool) -> None:
    """No removal leaves a tag behind that a second pass would find."""
    once = strip_tags(text, keep_code=keep_code).text

    assert once == strip_tags(once, keep_code=keep_code).text


@_quick
@given(_SOUP, _SOUP, st.sampled_from(["private", "Claude-Mem-Context", "PRIVATE x='a>b'"]), st.booleans())
def test_no_text_of_a_well_formed_private_span_survives(before: str, after: str, tag: str, keep_code: bool) -> None:
    """Whatever stands around it, outside of code a private span is gone."""
    if keep_code:
        before = re.sub("[`~]", "", before)
    text = f"{before}<{tag}>SECRET</{tag.split()[0]}>{after}"

    assert "SECRET" not in strip_tags(text, keep_code=keep_code).text


@_quick
@given(st.text(), st.booleans())
@example("a <b> private </b> system-reminder <privateer>", False)
def test_text_without_tags_is_unchanged(text: str, keep_code: bool) -> None:
    """Verbatim means verbatim: the scanner touches nothing but tags."""
    assert text == strip_tags(text, keep_code=keep_code).text


@_quick
@given(_SOUP)
def test_what_is_left_is_a_subsequence_of_the_text(text: str) -> None:
    """The scanner only removes: it adds nothing and reorders nothing."""
    rest = iter(text)

    assert all(character in rest for character in strip_tags(text).text)


@_quick
@given(st.lists(st.one_of(st.sampled_from([(name, is_end) for name in NAMES for is_end in (False, True)]), st.none())))
def test_any_nesting_agrees_with_a_simple_matcher(parts: list[tuple[str, bool] | None]) -> None:
    """Every end hides from the nearest open start of its name; a strict start without an end hides all that follows."""
    tokens = [f"{index}." if part is None else part for index, part in enumerate(parts)]
    text = "".join(token if isinstance(token, str) else f"<{'/' * token[1]}{token[0]}>" for token in tokens)

    assert _match_intervals(tokens) == strip_tags(text).text


@_quick
@given(_SOUP)
def test_any_soup_of_tags_agrees_with_rewriting_it_step_by_step(text: str) -> None:
    """The one pass gives what a slow rewriter gives that removes the first thing it can and starts again."""
    assert rewrite(text) == strip_tags(text).text


# Two minutes of processor time for what takes some seconds: a scanner that looks back over what it has seen takes hours.
_SCAN = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
from tags import SHOWN, make_text
from bottlepipe.tags import strip_tags
text = make_text(sys.argv[1], 10_000_000)
print(len(text), strip_tags(text).text == SHOWN)
"""


@pytest.mark.parametrize("kind", ["unclosed tags", "half-open tags", "nested splices"])
def test_a_hostile_text_is_scanned_in_linear_time(kind: str) -> None:
    """10 MB of what the benchmarks measure: the scan ends, and exactly the hidden part is gone."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "benchmarks")}
    done = subprocess.run([sys.executable, "-c", _SCAN, kind], capture_output=True, text=True, env=environ, check=False)

    assert 0 == done.returncode, f"killed by its limit of processor time, or failed: {done.stderr}"
    size, is_right = done.stdout.split()
    assert 9_000_000 < int(size)
    assert "True" == is_right


def _match_intervals(tokens: list[str | tuple[str, bool]]) -> str:
    """The text outside of all hidden intervals. Slow and simple: no cutting, no splices."""
    hidden: set[int] = set()
    unmatched: list[tuple[int, str]] = []
    for index, token in enumerate(tokens):
        if isinstance(token, str):
            continue
        name, is_end = token
        hidden.add(index)
        if not is_end:
            unmatched.append((index, name))
        elif starts := [start for start in unmatched if start[1] == name]:
            unmatched.remove(starts[-1])
            hidden.update(range(starts[-1][0], index))
    for start, name in unmatched:
        if name in STRICT_NAMES:
            hidden.update(range(start, len(tokens)))
    return "".join(token for index, token in enumerate(tokens) if isinstance(token, str) and index not in hidden)


# Private-use characters stand for open tags, so that the text around one closes up as it does in the scanner.
_OPEN = {name: chr(0xE000 + index) for index, name in enumerate(NAMES)}
_MARK = "[\ue000-\ue005]"


def rewrite(text: str) -> str:
    """Replace the leftmost tag by a mark, or remove it with what it closes, until there is none; then hide the rest."""
    gap = f"{_MARK}*"

    def spread(word: str) -> str:
        return gap.join(map(re.escape, word))

    names = "|".join(spread(name) for name in NAMES)
    space = rf"(?:\s{gap}){{0,16}}"
    tag = re.compile(rf"<{gap}{space}(/{gap}{space})?((?ai:{names}))(?!{gap}[\w.:-])([^<>]*)(>?)")
    while found := tag.search(text):
        before, after = text[: found.start()], text[found.end() :]
        name = re.sub(_MARK, "", found[2]).lower()
        carried = "".join(re.findall(_MARK, found[0]))
        attributes = re.sub(_MARK, "", found[3]).rstrip()
        if found[1]:
            opened = (before + carried).rfind(_OPEN[name])
            if opened >= 0:
                whole = before + carried
                carried = "".join(re.findall(_MARK, whole[opened + 1 :]))
                before = whole[:opened]
            text = before + carried + after
        elif found[4] and attributes.endswith("/") and (attributes.strip() == "/" or attributes[-2] in " \t\r\n\"'"):
            text = before + carried + after
        else:
            text = before + carried + _OPEN[name] + after
    strict = [text.index(_OPEN[name]) for name in STRICT_NAMES if _OPEN[name] in text]
    return re.sub(_MARK, "", text[: min(strict, default=len(text))])
