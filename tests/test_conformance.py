"""The conformance page names tests; they must exist."""

from __future__ import annotations

import re

from conftest import ROOT


def test_every_test_on_the_conformance_page_exists() -> None:
    """A rule without its test would be an empty promise."""
    page = (ROOT / "docs" / "conformance.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    written = {
        name
        for path in (ROOT / "tests").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }

    assert len(named) > 40
    assert named - written == set()
