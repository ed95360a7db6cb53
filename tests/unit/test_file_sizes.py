"""A file of more than 300 lines usually tells two stories: it becomes two files. The same is true for a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from stallbench import PROJECT

MOST_LINES = 300
FOLDERS = (
    "benchmarks",
    "dashboards",
    "libraries",
    "longrunners",
    "producers",
    "schedulers",
    "stallbench",
    "tests",
    "tools",
    "workers",
)


def find_long_files(paths: Iterable[Path]) -> dict[str, int]:
    """Return the length of each file that is too long; fails without a file."""
    lengths = {str(path.relative_to(PROJECT)): len(path.read_text().splitlines()) for path in paths}
    assert lengths
    return {path: length for path, length in lengths.items() if length > MOST_LINES}


def test_no_file_has_more_than_300_lines() -> None:
    assert find_long_files(chain.from_iterable((PROJECT / folder).rglob("*.py") for folder in FOLDERS)) == {}


def test_no_scenario_and_no_compose_file_has_more_than_300_lines() -> None:
    assert find_long_files([*(PROJECT / "scenarios").rglob("*.toml"), PROJECT / "docker-compose.yml"]) == {}


def test_no_page_has_more_than_300_lines() -> None:
    assert find_long_files((PROJECT / "docs").rglob("*.md")) == {}
