"""The diff in docs/add-a-fault.md is a fault that works as its test there says."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.injection.faults import find_faults
from tests.documented_diff import load_module, load_test, read_added_lines

pytestmark = pytest.mark.integration


def test_the_documented_fault_locks_the_jobs_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = read_added_lines("add-a-fault.md")
    fault = "stallbench/injection/faults/lock_table.py"
    monkeypatch.setitem(find_faults(), "lock_table", load_module(fault, files[fault], monkeypatch).LockTable)
    load_test(files)["test_the_queue_waits_until_the_lock_is_released"](tmp_path)
