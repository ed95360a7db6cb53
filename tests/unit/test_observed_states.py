"""How the recorded states of servers become the table of docs/results/observe.md."""

from __future__ import annotations

import json

import pytest

from tools.observed_states import BEGIN, END, PAGE, find_tests, read_states, write_page

FINDING = {
    "severity": "CRITICAL",
    "sentence": "Session 7 | blocks <it>.",
    "statement": "SELECT 'a|b';",
    "where": "on r1",
    "caution": "ends it",
    "other_ways": [
        {"statement": "KILL 7;", "where": "", "caution": "closes it"},
        {"statement": "", "where": "", "caution": "wait"},
    ],
}


def test_a_state_is_a_row_with_its_first_finding_in_full() -> None:
    lines = [
        json.dumps({"state": "b", "truth": "old", "findings": []}),
        json.dumps({"state": "b", "truth": "a lock | `x`", "findings": [FINDING, FINDING]}),
        json.dumps({"state": "a", "truth": "nothing is wrong", "findings": []}),
    ]
    page = write_page(f"# Page\n\n{BEGIN}\nold\n{END}\n\nmore\n", read_states(lines))
    assert page.splitlines()[6:8] == [
        "| a | nothing is wrong | nothing |",
        "| b | a lock \\| `x` | **critical**: Session 7 \\| blocks \\<it\\>.<br>To end it (on r1): `SELECT 'a\\|b';`, which ends it<br>"
        "or: `KILL 7;`, which closes it<br>or: wait<br>(1 other finding below it) |",
    ]
    assert page.endswith(f"{END}\n\nmore\n")


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no markers"):
        write_page("# Page\n", [])


def test_the_page_has_the_markers_and_there_are_tests_that_fill_it() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.index(BEGIN) < text.index(END)
    assert find_tests()
