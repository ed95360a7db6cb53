"""What a scenario gets whose section ``[comparison]`` is wrong: one line for each issue, as everywhere in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.scenario_text import SMALL, find_lines, read

COMPARED = f"""{SMALL}
[variants.skip_locked]
queue.kind = "skip_locked"

[variants.reader]
workers.count = 3

[comparison]
metric = "completed.rate"
phase = "longtx"
better = "higher"
source = "An article"

[comparison.published."a laptop, jobs/s"]
control = 91
skip_locked = 120.5
"""
PUBLISHED = 'comparison.published."a laptop, jobs/s"'

TABLE = [
    (
        '"completed.rate"',
        '"complete.rate"',
        'comparison.metric is "complete.rate"; expected a metric that docs/measures.md lists; did you mean "completed.rate"?',
    ),
    (
        '"completed.rate"',
        '"completed.p95"',
        'comparison.metric is "completed.p95"; expected completed with one of .count, .rate, .share',
    ),
    ('metric = "completed.rate"\n', "", 'comparison.metric is missing; write it like metric = "completed.rate"'),
    (
        'phase = "longtx"\nbetter',
        'phase = "longx"\nbetter',
        'comparison.phase is "longx"; expected one of baseline, longtx; did you mean "longtx"?',
    ),
    (
        'phase = "longtx"\nbetter',
        'phase = "warmup"\nbetter',
        'comparison.phase is "warmup", which is not measured; expected one of baseline, longtx',
    ),
    (
        'phase = "longtx"\nbetter',
        'phase = "run"\nbetter',
        'comparison.phase is "run", which is not a phase; leave it out to mean the whole run',
    ),
    (
        'better = "higher"',
        'better = "higher"\nrelative_to = "longtx"',
        'comparison.relative_to is "longtx", the phase itself; expected another phase',
    ),
    (
        'better = "higher"',
        'better = "highest"',
        'comparison.better is "highest"; expected "higher" or "lower"; did you mean "higher"?',
    ),
    ('better = "higher"\n', "", 'comparison.better is missing; write it like better = "higher"'),
    (
        'better = "higher"',
        'better = "higher"\nbeter = 1',
        "comparison.beter: unknown key; allowed are metric, phase, relative_to, better, undegraded, published, source, columns;"
        ' did you mean "better"?',
    ),
    (
        "skip_locked = 120.5",
        "skip_locke = 120.5",
        f'{PUBLISHED}.skip_locke: there is no such variant; expected one of control, skip_locked, reader; did you mean "skip_locked"?',
    ),
    (
        'better = "higher"',
        'better = "higher"\ncolumns = [{ title = "lost", metric = "lost.cout" }]',
        'comparison.columns[0].metric is "lost.cout"; expected lost with one of .count',
    ),
    (
        'better = "higher"',
        'better = "higher"\ncolumns = [{ title = "again", metric = "re_executed.count", phase = "longtx" }]',
        "comparison.columns[0].phase is given, but re_executed.count is measured over the whole run; leave it out",
    ),
    ("skip_locked = 120.5", 'skip_locked = "fast"', f'{PUBLISHED}.skip_locked is "fast"; expected a number'),
    ("skip_locked = 120.5", "skip_locked = nan", f"{PUBLISHED}.skip_locked is nan; expected a finite number"),
    ("control = 91\nskip_locked = 120.5\n", "", f"{PUBLISHED} is empty; expected at least 1"),
    (
        '[comparison.published."a laptop, jobs/s"]\ncontrol = 91\nskip_locked = 120.5\n',
        "published = 3\n",
        "comparison.published is 3; expected a table",
    ),
    ('source = "An article"', 'source = ""', 'comparison.source is ""; expected text that is not empty'),
    (
        "[variants.reader]\nworkers.count = 3",
        '[variants.reader]\njudged_by = { metric = "errors.count", phase = "longx", better = "lower" }',
        'variants.reader.judged_by.phase is "longx"; expected one of baseline, longtx; did you mean "longtx"?',
    ),
    (
        "[variants.reader]\nworkers.count = 3",
        '[variants.reader]\njudged_by = { metric = "errors.count" }',
        'with variant reader: judged_by.better is missing; write it like better = "higher"',
    ),
    (
        "[variants.reader]\nworkers.count = 3",
        '[variants.reader]\njudged_by = { metric = "errors.count", better = "lower", reference = "skip_locke" }',
        'variants.reader.judged_by.reference is "skip_locke", which is not a variant; expected one of skip_locked, reader;'
        ' did you mean "skip_locked"?',
    ),
    (
        "[variants.reader]\nworkers.count = 3",
        '[variants.reader]\njudged_by = { metric = "errors.count", better = "lower", reference = "reader" }',
        'variants.reader.judged_by.reference is "reader", the variant itself; expected another variant',
    ),
    (
        "[variants.reader]\nworkers.count = 3",
        '[variants.reader]\njudged_by = { metric = "errors.count", better = "lower", reference = "control" }',
        'variants.reader.judged_by.reference is "control", which is not a variant; leave it out to mean the scenario without a variant',
    ),
    (
        "[variants.reader]\nworkers.count = 3",
        '[variants.reader]\ncomparison.metric = "claim_ms.p95"',
        "variants.reader.comparison is a table; a comparison covers all variants; expected at the top of the file only",
    ),
    (
        "[variants.reader]",
        "[variants.control]",
        "variants.control: this name means the scenario without a variant; expected another name",
    ),
    (
        "[variants.reader]\nworkers.count = 3",
        '[variants.reader]\nexpect = []\nphases = [{ name = "baseline", duration = "5s" }]',
        'with variant reader: comparison.phase is "longtx"; expected one of baseline',
    ),
]


@pytest.mark.parametrize(
    ("written", "instead", "line"), TABLE, ids=[f"{number}:{case[1].strip()[:40]}" for number, case in enumerate(TABLE)]
)
def test_an_issue_is_reported_in_one_line(written: str, instead: str, line: str, tmp_path: Path) -> None:
    assert COMPARED.count(written) == 1, "each case changes one place of the scenario"
    assert find_lines(tmp_path, COMPARED.replace(written, instead)) == [line]


def test_a_valid_section_is_read(tmp_path: Path) -> None:
    comparison = read(tmp_path, COMPARED, variant="reader").comparison
    assert comparison is not None
    assert (comparison.metric, comparison.phase, comparison.better) == ("completed.rate", "longtx", "higher")
    assert comparison.published == {"a laptop, jobs/s": {"control": 91, "skip_locked": 120.5}}


def test_a_change_of_the_command_line_is_checked_in_the_same_way(tmp_path: Path) -> None:
    lines = find_lines(tmp_path, COMPARED, overrides=["comparison.published.here.que=1", "comparison.phase=longx"])
    assert lines == [
        '--set comparison.phase is "longx"; expected one of baseline, longtx; did you mean "longtx"?',
        "--set comparison.published.here.que: there is no such variant; expected one of control, skip_locked, reader",
    ]
