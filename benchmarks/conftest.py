"""The files that the benchmarks are measured on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from measure import Files
from transcript import parse_size


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--size", default="10MB", help="Size of the transcript that is measured.")
    parser.addoption("--observations", type=int, default=10_000, help="Size of the database that is measured.")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("benchmarks"))


@pytest.fixture(scope="session")
def session(files: Files, pytestconfig: pytest.Config) -> tuple[Path, dict[str, int]]:
    """A transcript, and the truth about it."""
    return files.transcript(parse_size(pytestconfig.getoption("--size")))


@pytest.fixture(scope="session")
def database(
    files: Files, session: tuple[Path, dict[str, int]], pytestconfig: pytest.Config
) -> tuple[Path, dict[str, dict[str, Any]]]:
    """A database in which the transcript's session is stored too, and the truth about its sessions."""
    return files.database(pytestconfig.getoption("--observations"), session[0])
