"""The declarations of measures agree with one another and with the page that is made from them."""

from __future__ import annotations

import pytest

from stallbench import PROJECT
from stallbench.measure_definition import FromEvents, FromSamples, FromTable, Measure
from stallbench.measures import MEASURES, measure_of, metric_names, split_metric
from stallbench.pipeline.tables import TABLES
from tools.measures_page import describe_measures

PAGE = PROJECT / "docs" / "measures.md"


def test_the_page_of_measures_is_current() -> None:
    assert PAGE.read_text().endswith(f"\n{describe_measures()}"), "renew it by: python -m tools.measures_page"


def test_the_page_explains_every_statistic() -> None:
    before_the_table = PAGE.read_text().partition("| measure |")[0]
    assert not [metric for metric in metric_names() if f"`{split_metric(metric)[1]}`" not in before_the_table]


@pytest.mark.parametrize("measure", MEASURES.values(), ids=list(MEASURES))
def test_a_measure_can_be_computed_from_its_source(measure: Measure) -> None:
    match measure.source:
        case FromEvents(events, value, operation):
            assert events
            assert measure.is_counted == (value is None)
            assert not (value and operation)
        case FromSamples(_, _, _, is_counter):
            assert ("count" in measure.statistics) == is_counter
            assert set(measure.by_second) <= ({"count", *measure.quotients} if is_counter else set()), (
                "a second has the last sample, and growth if asked for"
            )
        case FromTable(table):
            assert table in TABLES


@pytest.mark.parametrize("measure", MEASURES.values(), ids=list(MEASURES))
def test_what_is_shown_of_a_measure_is_one_of_its_statistics(measure: Measure) -> None:
    assert set(measure.in_report) | set(measure.by_second) <= set(measure.statistics)
    assert bool(measure.quotients) == bool(measure.divided_by)
    assert measure.divided_by in {"", *MEASURES}


def test_a_metric_leads_to_its_measure() -> None:
    assert measure_of("claim_ms.p95") is MEASURES["claim_ms"]
    assert measure_of("claim.p95") is None


@pytest.mark.parametrize(
    ("metric", "title"),
    [
        ("claim_ms.p95", "claim time p95, ms"),
        ("completed.rate", "completed, jobs/s"),
        ("deadlocks.count", "deadlocks"),
        ("depth.last", "queue depth at the end"),
        ("dead_tuples.max", "dead tuples, maximum"),
        ("claim_statement_buffers.per_call", "claim statement, buffers per call"),
        ("wal_bytes.per_job", "WAL per job, bytes"),
        ("row_lock_wait_ms.rate", "row lock waits, ms/s"),
        ("hot_updates.share", "HOT updates, share"),
        ("recovery_s.to_empty_backlog", "recovery, to empty backlog, s"),
    ],
)
def test_a_title_has_the_label_the_statistic_and_the_unit(metric: str, title: str) -> None:
    measure, statistic = split_metric(metric)
    assert MEASURES[measure].title_of(statistic) == title
