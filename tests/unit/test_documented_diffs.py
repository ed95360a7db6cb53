"""With the diff of each page on how to add something, the project is as its own tests want it: no other file has to be edited."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stallbench import PROJECT
from tests.documented_diff import PAGES, PROGRAMS, apply_diff, read_added_lines

LINKED = (".venv", ".cache")
"""What the copy of the project shares with it."""
NOT_COPIED = shutil.ignore_patterns(*LINKED, ".git", "__pycache__", ".*_cache", "runs", "build", "dist", "*.egg-info")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("page", PAGES)
def test_a_reader_can_apply_a_diff(page: str, program: str, tmp_path: Path) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not on this machine")
    text = (PROJECT / "docs" / page).read_text()
    for file in read_added_lines(page):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        if f"+++ b/{file}\n@@ -0,0" not in text:
            shutil.copy(PROJECT / file, tmp_path / file)
    apply_diff(page, tmp_path, program)
    for file, added in read_added_lines(page).items():
        assert added in (tmp_path / file).read_text(), file
    for file, length in re.findall(r"^\+\+\+ b/(\S+)\n@@ -0,0 \+1,(\d+) @@$", text, re.MULTILINE):
        assert (file, len((tmp_path / file).read_text().splitlines())) == (file, int(length))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_with_all_diffs_the_lint_and_the_tests_without_a_server_pass(tmp_path: Path) -> None:
    copy = tmp_path / "project"
    shutil.copytree(PROJECT, copy, ignore=NOT_COPIED)
    for name in LINKED:
        if (PROJECT / name).exists():
            (copy / name).symlink_to((PROJECT / name).resolve())
    for page in PAGES:
        apply_diff(page, copy)
    commands = (
        ["ruff", "format", "--check", "."],
        ["ruff", "check", "."],
        # In the copy the diffs are applied already.
        [
            "pytest",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            "-m",
            "not long",
            "--ignore",
            "tests/unit/test_documented_diffs.py",
            "tests/unit",
        ],
    )
    for command in commands:
        ended = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, f"{' '.join(command)}:\n{ended.stdout[-4000:]}{ended.stderr[-2000:]}"
