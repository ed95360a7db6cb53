"""The diff in docs/add-a-fault.md is a fault that works as its test there says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stallbench import PROJECT
from stallbench.faults import find_faults

pytestmark = pytest.mark.integration

PAGE = PROJECT / "docs" / "add-a-fault.md"


def test_the_documented_fault_locks_the_jobs_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (diff,) = re.findall(r"```diff\n(.*?)```", PAGE.read_text(), re.DOTALL)
    added = re.findall(r"^\+\+\+ b/(\S+)\.py\n@@[^\n]*\n(.*?)(?=^diff |\Z)", diff, re.DOTALL | re.MULTILINE)
    (fault, its_code), (_, its_test) = [(name.replace("/", "."), re.sub(r"^\+", "", code, flags=re.M)) for name, code in added]
    module = ModuleType(fault)
    exec(its_code, vars(module))
    monkeypatch.setitem(sys.modules, fault, module)
    monkeypatch.setitem(find_faults(), "lock_table", module.LockTable)
    test: dict[str, Any] = {}
    exec(its_test, test)
    test["test_the_queue_waits_until_the_lock_is_released"](tmp_path)
