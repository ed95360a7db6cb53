"""The diffs in the pages on how to add something: read, so that tests can carry them out."""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import Any

import pytest

from stallbench import PROJECT


def read_added_lines(page: str) -> dict[str, str]:
    """Return what the diff in ``docs/<page>`` adds to each file, by the file's path."""
    (diff,) = re.findall(r"```diff\n(.*?)```", (PROJECT / "docs" / page).read_text(), re.DOTALL)
    parts = re.findall(r"^\+\+\+ b/(\S+)\n(.*?)(?=^diff |\Z)", diff, re.DOTALL | re.MULTILINE)
    return {file: "".join(f"{line}\n" for line in re.findall(r"^\+(.*)$", lines, re.MULTILINE)) for file, lines in parts}


def load_module(file: str, code: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a module as if ``code`` were in ``file``; it can be imported until the test ends."""
    name = file.removesuffix(".py").replace("/", ".")
    module = ModuleType(name)
    exec(code, vars(module))
    monkeypatch.setitem(sys.modules, name, module)
    return module


def load_test(files: dict[str, str]) -> dict[str, Any]:
    """Return what the only test file among ``files`` defines, by name."""
    (code,) = [code for file, code in files.items() if file.startswith("tests/")]
    test: dict[str, Any] = {}
    exec(code, test)
    return test
