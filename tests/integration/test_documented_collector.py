"""The diff in docs/add-a-collector.md is a collector that works as its test there says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stallbench import PROJECT
from tests.integration.conftest import TestDatabase

pytestmark = pytest.mark.integration

PAGE = PROJECT / "docs" / "add-a-collector.md"


def test_the_documented_collector_sees_a_sort_on_disk(
    database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (diff,) = re.findall(r"```diff\n(.*?)```", PAGE.read_text(), re.DOTALL)
    added = re.findall(r"^\+\+\+ b/(\S+)\.py\n@@[^\n]*\n(.*?)(?=^diff |\Z)", diff, re.DOTALL | re.MULTILINE)
    (collector, its_code), (_, its_test) = [
        (name.replace("/", "."), re.sub(r"^\+", "", code, flags=re.M)) for name, code in added
    ]
    module = ModuleType(collector)
    exec(its_code, vars(module))
    monkeypatch.setitem(sys.modules, collector, module)
    test: dict[str, Any] = {}
    exec(its_test, test)
    test["test_a_sort_on_disk_is_seen"](database, tmp_path)
