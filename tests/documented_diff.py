"""The diffs in the pages on how to add something: read and applied, so that tests can carry them out."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stallbench import PROJECT

PAGES = tuple(sorted(path.name for path in (PROJECT / "docs").glob("add-a-*.md") if "```diff" in path.read_text()))
"""The pages with a diff."""


def read_added_lines(page: str) -> dict[str, str]:
    """Return what the diff in ``docs/<page>`` adds to each file, by the file's path."""
    return {file: _join(lines, "+") for file, lines in _read_parts(page).items()}


def apply_diff(page: str, project: Path) -> None:
    """Apply the diff in ``docs/<page>`` to a copy of the project. A part with context is for a file that has these lines, once."""
    for file, lines in _read_parts(page).items():
        path, before, after = project / file, _join(lines, " "), _join(lines, " +")
        if not before:
            assert not path.exists(), f"the diff in docs/{page} makes {file}, which exists"
            path.write_text(after)
            continue
        text = path.read_text()
        # The page with the diff has the same lines in it, each behind a space.
        found = list(re.finditer(rf"^{re.escape(before)}", text, re.MULTILINE))
        assert len(found) == 1, f"{file} has the context of the diff in docs/{page} {len(found)} times; expected once"
        path.write_text(text[: found[0].start()] + after + text[found[0].end() :])


def _read_parts(page: str) -> dict[str, list[str]]:
    """Return the lines of each part of the diff after its header, with their first character, by the file's path."""
    (diff,) = re.findall(r"```diff\n(.*?)```", (PROJECT / "docs" / page).read_text(), re.DOTALL)
    parts = re.findall(r"^\+\+\+ b/(\S+)\n@@[^\n]*\n(.*?)(?=^diff |\Z)", diff, re.DOTALL | re.MULTILINE)
    return {file: lines.splitlines() for file, lines in parts}


def _join(lines: list[str], kinds: str) -> str:
    return "".join(f"{line[1:]}\n" for line in lines if line[:1] in kinds)


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
