"""What may be larger than memory is read in batches, and a page has a bounded part of it; the figures stay exact."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stallbench.pipeline.large_tables import LARGE, field, read_first
from stallbench.report import make_report
from stallbench.verdicts import judge
from stallbench.verdicts.duplicates import Repeated, count_repeated
from tests.unit.made_up_run import find_of, make_record, make_run

JOBS = 200_000


def make_duplicates(jobs: int) -> pd.DataFrame:
    """Every job was executed twice, the higher numbers first; each third without a reason."""
    numbers = np.arange(jobs, 0, -1)
    return pd.DataFrame(
        {
            "job_id": numbers,
            "executions": np.full(jobs, 2),
            "completions": np.full(jobs, 1),
            "processes": "worker-1, worker-2",
            "excused": numbers % 3 != 0,
            "reason": np.where(numbers % 3, "", "its worker was alive"),
        }
    )


def groups_of(page: str) -> list[tuple[str, str]]:
    """Return the label and the count of each group of jobs, of which a page shows the share as a bar."""
    return re.findall(r'<tr><th scope="row">([^<]*)</th><td>([^<]*)</td><td>[^<]* %</td><td class="bar">', page)


@pytest.mark.parametrize("name", sorted(LARGE))
def test_a_table_that_may_be_large_is_never_read_whole(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"table '{name}' may be larger than memory"):
        make_run(tmp_path)[name]


def test_the_first_rows_are_those_of_the_whole_table_and_not_of_its_first_file(tmp_path: Path) -> None:
    make_run(tmp_path, duplicates=make_duplicates(JOBS))
    assert list(read_first(tmp_path, "duplicates", 3).job_id) == [1, 2, 3]
    assert list(read_first(tmp_path, "duplicates", 3, where=~field("excused")).job_id) == [3, 6, 9]


def test_there_may_be_fewer_rows_than_asked_for(tmp_path: Path) -> None:
    make_run(tmp_path, duplicates=make_duplicates(2))
    assert list(read_first(tmp_path, "duplicates", 20).job_id) == [1, 2]
    assert read_first(tmp_path, "rounds", 20).empty


def test_duplicates_are_counted_exactly_and_the_lowest_are_examples(tmp_path: Path) -> None:
    run = make_run(tmp_path, duplicates=make_duplicates(JOBS))
    assert count_repeated(run) == Repeated(jobs=JOBS, re_executed=JOBS, re_executions=JOBS)
    finding = find_of(run, "duplicates")
    assert (
        f"{JOBS:,} jobs were executed or completed more than once ({JOBS:,} repeated executions), {JOBS // 3:,} of them"
        in finding.reason
    )
    assert finding.examples[:2] == ("3 (its worker was alive)", "6 (its worker was alive)")
    assert len(finding.examples) == 20


def test_a_page_has_few_groups_of_the_order_that_contain_every_execution(tmp_path: Path) -> None:
    order = pd.DataFrame({"diff": np.arange(2_000_001), "claims": np.ones(2_000_001, dtype=int)})
    run = make_run(tmp_path, order=order)
    page = make_report(run, judge(run)).read_text()
    assert groups_of(page) == [
        ("0", "1"),
        ("1", "1"),
        ("2 to 5", "4"),
        ("6 to 20", "15"),
        ("21 to 100", "80"),
        ("101 to 1,000", "900"),
        ("1,001 to 10,000", "9,000"),
        ("10,001 to 100,000", "90,000"),
        ("100,001 to 1,000,000", "900,000"),
        ("over 1,000,000", "1,000,000"),
    ]
    assert len(page) < 1_000_000


def test_a_page_has_the_first_rounds_and_the_sum_of_the_others(tmp_path: Path) -> None:
    rounds = pd.DataFrame({"round": np.arange(1, 101), "jobs": np.full(100, 7)})
    record = make_record()
    record["queue"]["window"] = 10
    run = make_run(tmp_path, record, rounds=rounds)
    _, _, after = make_report(run, judge(run)).read_text().partition("Round in which a job was claimed")
    assert groups_of(after) == [*((f"round {number}", "7") for number in range(1, 21)), ("later", "560")]
