"""``python -m tools.observed_states [RECORDED]``: writes the table of docs/results/observe.md.

It runs the tests that build a state on a real server and record what `stallbench observe` says of it (``record_state``), and writes a row for each
state between the markers of the page. ``RECORDED``: a file that such tests have written already (environment variable STALLBENCH_OBSERVED_STATES);
no test is run then.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stallbench import PROJECT
from tests.integration.observed_states import FILE

PAGE = PROJECT / "docs" / "results" / "observe.md"
BEGIN, END = "<!-- states: begin, made by python -m tools.observed_states -->", "<!-- states: end -->"
_SPECIAL = re.compile(r"([|<>*_\\])")
"""What Markdown would take for markup in a sentence."""


def find_tests() -> list[Path]:
    """Return the files of tests that record a state."""
    tests = sorted((PROJECT / "tests" / "integration").glob("test_*.py"))
    return [path for path in tests if "record_state(" in path.read_text()]


def run_tests(recorded: Path) -> None:
    """Let the tests write what they record; raises `SystemExit` if one fails."""
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "0", *map(str, find_tests())]
    ended = subprocess.run(argv, cwd=PROJECT, env={**os.environ, FILE: str(recorded)}, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"the tests failed (exit code {ended.returncode}); the page stays as it was")


def read_states(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Return the recorded states, in alphabetical order; of one that was recorded twice the last."""
    states = {state["state"]: state for state in map(json.loads, lines)}
    return [states[name] for name in sorted(states, key=str.lower)]


def write_page(page: str, states: Sequence[Mapping[str, Any]]) -> str:
    """Return the page with a row for each state between its markers; raises `ValueError` if it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no markers {BEGIN} and {END}")
    head = "| state of the server | to blame | what this version says first |\n|---|---|---|\n"
    rows = "".join(f"| {_row(state)} |\n" for state in states)
    return f"{before}{begin}\n\n{head}{rows}\n{end}{after}"


def _row(state: Mapping[str, Any]) -> str:
    return " | ".join((_cell(state["state"]), _cell(state["truth"]), _describe(state["findings"])))


def _describe(findings: Sequence[Mapping[str, Any]]) -> str:
    if not findings:
        return "nothing"
    first = findings[0]
    ways = [("To end it", first), *(("or", way) for way in first.get("other_ways", ()))]
    others = len(findings) - 1
    parts = [f"**{first['severity'].lower()}**: {_escape(first['sentence'])}", *(_way(label, way) for label, way in ways)]
    if others:
        parts.append(f"({others} other {'finding' if others == 1 else 'findings'} below it)")
    return "<br>".join(part for part in parts if part)


def _way(label: str, way: Mapping[str, str]) -> str:
    """Return a statement with its consequence; empty if there is none."""
    caution = _escape(way["caution"])
    if not way["statement"]:
        return f"{label}: {caution}" if caution and label == "or" else ""
    where = f" ({_escape(way['where'])})" if way["where"] else ""
    code = way["statement"].replace("|", "\\|")
    return f"{label}{where}: `{code}`" + (f", which {caution}" if caution else "")


def _cell(text: str) -> str:
    """Return a test's own words, which may have Markdown, for a cell."""
    return " ".join(text.split()).replace("|", "\\|")


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="python -m tools.observed_states")
    parser.add_argument("recorded", nargs="?", type=Path, metavar="RECORDED")
    recorded = parser.parse_args().recorded
    with tempfile.TemporaryDirectory() as folder:
        if recorded is None:
            recorded = Path(folder) / "states"
            run_tests(recorded)
        states = read_states(recorded.read_text(encoding="utf-8").splitlines())
    PAGE.write_text(write_page(PAGE.read_text(encoding="utf-8"), states), encoding="utf-8")
    print(f"{len(states)} states: {PAGE.relative_to(PROJECT)}")


if __name__ == "__main__":
    main()
