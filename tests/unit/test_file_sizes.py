"""A file of more than 300 lines usually tells two stories: it becomes two files."""

from __future__ import annotations

from itertools import chain

from stallbench import PROJECT

MOST_LINES = 300
FOLDERS = ("benchmarks", "dashboards", "libraries", "longrunners", "producers", "schedulers", "stallbench", "tests", "workers")


def test_no_file_has_more_than_300_lines() -> None:
    paths = chain.from_iterable((PROJECT / folder).rglob("*.py") for folder in FOLDERS)
    lengths = {str(path.relative_to(PROJECT)): len(path.read_text().splitlines()) for path in paths}
    assert lengths
    assert {path: length for path, length in lengths.items() if length > MOST_LINES} == {}
