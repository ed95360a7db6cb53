"""What follows from the few rows that Spark counts, without Spark: jobs by their state and origin, and metrics of the whole run."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from stallbench.pipeline.claim_growth import make_growth_metrics
from stallbench.pipeline.conservation import Unrecorded, count_unrecorded, make_conservation, make_lost_metric
from stallbench.pipeline.jobs_by_time import JobsByTime
from stallbench.pipeline.order import make_order_metrics
from stallbench.pipeline.rounds import make_round_metrics
from stallbench.pipeline.tables import EXAMPLES
from stallbench.pipeline.unrecorded_enqueues import Gap, fill_gaps, place_gaps

FATE = ["state", "enqueue_recorded", "enqueue_failed", "left_over", "held_after_completion", "jobs", "examples"]


def fates(*rows: tuple[object, ...]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=FATE)


def values_of(metrics: pd.DataFrame) -> dict[str, float]:
    assert set(metrics["phase"]) <= {"run"}
    return dict(zip(metrics["statistic"], metrics["value"], strict=True))


def test_jobs_are_counted_for_their_state_and_for_their_origin() -> None:
    many = list(range(100, 100 + EXAMPLES))
    found = fates(
        ("completed", True, False, False, False, 1_000, many),
        ("completed", False, False, False, True, 2, [7, 300]),
        ("queued", False, False, True, False, 3, [1, 2, 3]),
        ("lost", False, True, False, False, 1, [4]),
    )
    assert count_unrecorded(found) == 2
    by_nobody = Unrecorded(unexpected=2, unexpected_examples=(7, 300))
    rows = make_conservation(found, unrecorded=by_nobody, refused=5).set_index("state")
    assert dict(rows["jobs"]) == {
        "completed": 1_002,
        "enqueued": 1_000,
        "unexpected": 2,
        "held_after_completion": 2,
        "queued": 3,
        "left_over": 3,
        "lost": 1,
        "enqueue_unrecorded": 1,
        "refused": 5,
    }
    assert rows["examples"]["completed"] == [7, *many[:-1]], "the lowest ids of all"
    assert rows["examples"]["refused"] == []
    by_a_failed_call = Unrecorded(explained=1, explained_examples=(7,), unexpected=1, unexpected_examples=(300,))
    jobs = make_conservation(found, unrecorded=by_a_failed_call).set_index("state")["jobs"]
    assert (jobs["enqueue_unrecorded"], jobs["unexpected"]) == (2, 1)


IDS_BY_TIME = pd.DataFrame(
    [
        (is_begin, slot, lowest, highest)
        for slot, lowest, highest in ((10, 1, 5), (11, 6, 9), (14, 20, 24))
        for is_begin in (True, False)
    ],
    columns=["is_begin", "slot", "lowest", "highest"],
)
"""Calls of three tenths of a second; between the second and the third, ids are missing."""


def a_gap(from_slot: int, to_slot: int, room: float) -> Gap:
    return Gap(from_ns=from_slot * 10**8, to_ns=to_slot * 10**8, room=room)


@pytest.mark.parametrize(
    ("gap", "window"),
    [
        (a_gap(12, 13, 4), (10, 20, 4)),
        (a_gap(11, 11, 4), (6, 20, 4)),
        (a_gap(1, 2, 4), (-math.inf, 1, 4)),
        (a_gap(20, 21, 4), (25, math.inf, 4)),
    ],
    ids=["between two calls", "beside a call", "before all", "after all"],
)
def test_a_call_that_failed_may_have_stored_jobs_with_ids_between_those_of_its_neighbours(
    gap: Gap, window: tuple[float, float, float]
) -> None:
    assert place_gaps([gap], IDS_BY_TIME) == [window]


def test_if_ids_do_not_ascend_with_time_they_say_nothing() -> None:
    of_two_producers = pd.concat([IDS_BY_TIME, pd.DataFrame([(True, 15, 2, 2), (False, 15, 2, 2)], columns=IDS_BY_TIME.columns)])
    assert place_gaps([a_gap(12, 13, 4)], of_two_producers) == [(-math.inf, math.inf, 4)]


@pytest.mark.parametrize(
    ("windows", "found", "explained", "unexpected"),
    [
        ([(10, 20, 2)], [(10, 2, [11, 12])], [11, 12], []),
        ([(10, 20, 2)], [(10, 3, [11, 12, 13])], [11, 12], [13]),
        ([(10, 20, 2)], [(20, 1, [25])], [], [25]),
        ([(10, 20, 2)], [(-math.inf, 1, [5]), (10, 1, [11])], [11], [5]),
        ([(10, 30, 1), (10, 20, 1)], [(10, 1, [11]), (20, 1, [21])], [11, 21], []),
        ([(-math.inf, math.inf, math.inf)], [(-math.inf, 3, [1, 2, 3])], [1, 2, 3], []),
        ([], [(-math.inf, 1, [5])], [], [5]),
    ],
    ids=[
        "its batch",
        "more than its batch",
        "outside",
        "before it",
        "the window that ends first is filled first",
        "a torn line",
        "none",
    ],
)
def test_a_failed_call_explains_as_many_jobs_as_it_may_have_stored(
    windows: list[tuple[float, float, float]],
    found: list[tuple[float, int, list[int]]],
    explained: list[int],
    unexpected: list[int],
) -> None:
    assert fill_gaps(windows, found) == Unrecorded(
        explained=len(explained),
        explained_examples=tuple(explained),
        unexpected=len(unexpected),
        unexpected_examples=tuple(unexpected),
    )


@pytest.mark.parametrize(
    ("jobs", "lost"), [({"completed": 3}, [0]), ({"completed": 3, "lost": 2}, [2]), ({"lost": 2, "unknown": 1}, []), ({}, [])]
)
def test_lost_jobs_are_known_only_if_the_state_of_each_job_is(jobs: dict[str, int], lost: list[int]) -> None:
    metrics = make_lost_metric(pd.DataFrame(list(jobs.items()), columns=["state", "jobs"]))
    assert list(metrics["value"]) == list(metrics["count"]) == lost


def test_metrics_of_order_and_rounds_follow_from_what_was_counted() -> None:
    order = make_order_metrics({"claims": 100, "distance": 16, "p99": 1, "max": 7})
    assert values_of(order) == {"mean": 0.16, "p99": 1, "max": 7}
    assert make_order_metrics({"claims": None, "distance": None, "p99": None, "max": None}).empty
    assert values_of(make_round_metrics({"jobs": 4, "rounds": 5, "max": 2})) == {"mean": 1.25, "max": 2}
    assert make_round_metrics({"jobs": None, "rounds": None, "max": None}).empty


def test_the_line_of_claim_times_goes_through_the_parts() -> None:
    parts = pd.DataFrame({"ms": [2.0, 3.0, 4.0], "position": [5.5, 15.5, 25.5], "end": [10, 20, 30], "claims": [10, 10, 10]})
    line = make_growth_metrics(parts)
    assert values_of(line) == pytest.approx({"slope_us": 100, "first_ms": 1.55, "last_ms": 4.45, "times": 4.45 / 2, "r2": 1}), (
        "the ratio has no smaller divisor than the quickest part"
    )
    assert set(line["count"]) == {30}
    assert make_growth_metrics(parts[:2]).empty
    assert values_of(make_growth_metrics(parts.assign(ms=2.0)))["slope_us"] == 0


def test_counts_by_time_have_no_rows_without_jobs() -> None:
    nothing = pd.DataFrame(columns=["what", "number", "times", "first_ns", "last_ns"])
    by_time = JobsByTime.from_counts(nothing, [])
    assert by_time.changes.empty
    assert by_time.came.empty
    assert by_time.spans.empty
