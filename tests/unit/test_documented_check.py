"""The diff in docs/add-a-check.md is a check that works as its tests there say."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.verdicts import find_checks
from tests.documented_diff import load_module, load_test, read_added_lines


def test_the_documented_check_passes_fails_and_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = read_added_lines("add-a-check.md")
    check = "stallbench/verdicts/completions.py"
    monkeypatch.setitem(find_checks(), "completions", load_module(check, files[check], monkeypatch).Completions)
    tests = load_test(files)
    for number, (completed, result) in enumerate([(8000.0, "pass"), (0.0, "fail")]):
        folder = tmp_path / str(number)
        folder.mkdir()
        tests["test_a_run_without_a_completion_fails"](completed, result, folder)
    (tmp_path / "unknown").mkdir()
    tests["test_without_the_count_it_is_unknown"](tmp_path / "unknown")
