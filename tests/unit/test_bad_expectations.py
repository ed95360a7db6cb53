"""What a scenario gets whose expectations are invalid: one line for each issue, as everywhere in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.scenario_text import SMALL, find_lines

TABLE: list[tuple[str, str, str | list[str]]] = [
    ("at_least = 5", "at_least = 5\nat_most = 4", "expect[0].at_least is 5, more than at_most, which is 4; no value meets both"),
    ("at_least = 5", "", "expect[0] has no bound; expected at_least, at_most or both"),
    ("at_least = 5", "at_least = nan", "expect[0].at_least is nan; expected a finite number"),
    ("at_least = 5", 'at_least = "5"', 'expect[0].at_least is "5"; expected a number'),
    (
        "at_least = 5",
        'at_least = 5\ncodes = ["53100"]',
        "expect[0].codes is given, but claim_ms.p95 does not count errors by their codes; leave it out",
    ),
    (
        'metric = "claim_ms.p95"',
        'metric = "errors.count"\ncodes = ["disk full"]',
        'expect[0].codes[0] is "disk full"; expected a code as the report names it, like "53100" or "SQLITE_BUSY", without spaces and'
        " colons",
    ),
    (
        'metric = "claim_ms.p95"',
        'metric = "errors.count"\ncodes = [53100]',
        "expect[0].codes[0] is 53100; expected text in quotes",
    ),
    (
        'metric = "claim_ms.p95"',
        'metric = "errors.count"\ncodes = []',
        "expect[0].codes is empty; expected at least 1",
    ),
    ("at_least = 5", 'at_least = 5\nbecause = ""', 'expect[0].because is ""; expected text that is not empty'),
    (
        "at_least = 5",
        "at_leats = 5",
        [
            "expect[0].at_leats: unknown key; allowed are metric, phase, relative_to, at_least, at_most, codes, because;"
            ' did you mean "at_least"?',
            "expect[0] has no bound; expected at_least, at_most or both",
        ],
    ),
    (
        '"claim_ms.p95"',
        '"claim_ms.p90"',
        'expect[0].metric is "claim_ms.p90"; expected claim_ms with one of .p50, .p95, .p99, .max, .mean',
    ),
    (
        '"claim_ms.p95"',
        '"claim_ms"',
        'expect[0].metric is "claim_ms"; expected claim_ms with one of .p50, .p95, .p99, .max, .mean',
    ),
    (
        '"claim_ms.p95"',
        '"dead_tuple.max"',
        'expect[0].metric is "dead_tuple.max"; expected a metric that docs/measures.md lists; did you mean "dead_tuples.max"?',
    ),
    ('metric = "claim_ms.p95"\n', "", 'expect[0].metric is missing; write it like metric = "claim_ms.p95"'),
    (
        'phase = "longtx"',
        'phase = "longtxx"',
        'expect[0].phase is "longtxx"; expected one of baseline, longtx; did you mean "longtx"?',
    ),
    (
        'phase = "longtx"',
        'phase = "warmup"',
        'expect[0].phase is "warmup", which is not measured; expected one of baseline, longtx',
    ),
    ('phase = "longtx"', 'phase = "run"', 'expect[0].phase is "run", which is not a phase; leave it out to mean the whole run'),
    (
        'relative_to = "baseline"',
        'relative_to = "base"',
        'expect[0].relative_to is "base"; expected one of baseline, longtx; did you mean "baseline"?',
    ),
    (
        'relative_to = "baseline"',
        'relative_to = "warmup"',
        'expect[0].relative_to is "warmup", which is not measured; expected one of baseline, longtx',
    ),
    (
        'relative_to = "baseline"',
        'relative_to = "longtx"',
        'expect[0].relative_to is "longtx", the phase itself; expected another phase',
    ),
    ("[[expect]]", "[expect]", "expect is a table; expected an array, like [{ .. }, { .. }]"),
]


@pytest.mark.parametrize(
    ("written", "instead", "lines"), TABLE, ids=[f"{number}:{case[1].strip()[:40]}" for number, case in enumerate(TABLE)]
)
def test_an_issue_is_reported_in_one_line(written: str, instead: str, lines: str | list[str], tmp_path: Path) -> None:
    assert SMALL.count(written) == 1, "each case changes one place of the small scenario"
    assert find_lines(tmp_path, SMALL.replace(written, instead)) == ([lines] if isinstance(lines, str) else lines)
