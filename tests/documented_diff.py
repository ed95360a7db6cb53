"""The diffs in the pages on how to add something: read and applied, so that tests can carry them out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stallbench import PROJECT
from tests.documented_blocks import find_block

PAGES = tuple(sorted(path.name for path in (PROJECT / "docs").glob("add-a-*.md") if "```diff" in path.read_text()))
"""The pages with a diff."""


def read_added_lines(page: str) -> dict[str, str]:
    """Return what the diff in ``docs/<page>`` adds to each file, by the file's path."""
    return {file: "".join(f"{line[1:]}\n" for line in lines if line.startswith("+")) for file, lines in _read_parts(page).items()}


PROGRAMS = {"git": ("git", "apply"), "patch": ("patch", "--strip=1", "--fuzz=0", "--no-backup-if-mismatch")}
"""What a reader applies a diff with."""


def apply_diff(page: str, project: Path, program: str = "git") -> None:
    """Apply the diff in ``docs/<page>`` to a copy of the project, with one of `PROGRAMS`."""
    # Where the copy is within a clone, git would look for the files there.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(project.resolve().parent)}
    ended = subprocess.run(
        PROGRAMS[program], cwd=project, input=_read_diff(page), env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, f"docs/{page}: {ended.stdout}{ended.stderr}"


def _read_diff(page: str) -> str:
    return find_block(f"docs/{page}", "diff")


def _read_parts(page: str) -> dict[str, list[str]]:
    """Return the lines of each part of the diff after its header, with their first character, by the file's path."""
    parts = re.findall(r"^\+\+\+ b/(\S+)\n@@[^\n]*\n(.*?)(?=^diff |\Z)", _read_diff(page), re.DOTALL | re.MULTILINE)
    return {file: lines.splitlines() for file, lines in parts}


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
