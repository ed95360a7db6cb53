"""The diff in docs/add-a-collector.md is a collector that works as its test there says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documented_diff import load_module, load_test, read_added_lines
from tests.integration.conftest import TestDatabase

pytestmark = pytest.mark.integration


def test_the_documented_collector_sees_a_sort_on_disk(
    database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = read_added_lines("add-a-collector.md")
    collector = "stallbench/engines/postgres/collectors/temp_files.py"
    load_module(collector, files[collector], monkeypatch)
    load_test(files)["test_a_sort_on_disk_is_seen"](database, tmp_path)
