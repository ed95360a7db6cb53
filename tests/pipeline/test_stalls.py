"""Seconds in which nothing was completed although jobs waited."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from stallbench.pipeline.jobs_by_time import count_jobs
from stallbench.pipeline.stalls import make_stalls
from stallbench.pipeline.time_axis import TimeAxis
from stallbench.records.nanoseconds import NS_PER_S

AXIS = cast(
    TimeAxis,
    SimpleNamespace(
        intervals=[SimpleNamespace(name=name) for name in ("warmup", "drain", "run")],
        second=lambda t_ns: F.floor(t_ns / NS_PER_S).cast("int"),
        last_ns=10 * NS_PER_S,
    ),
)


def stalled(
    spark: SparkSession,
    seconds: list[tuple[int, str | None, int, float | None]],
    jobs: Sequence[tuple[float, float | None, str]] = (),
) -> dict[tuple[str, str], float]:
    """``jobs``: when each was wanted and first claimed, in s, and its state."""
    windows = pd.DataFrame(seconds, columns=["t_s", "phase", "completed", "depth"]).astype({"depth": "float64"})
    of_jobs = [
        (int(wanted_s * NS_PER_S), None if claimed_s is None else int(claimed_s * NS_PER_S), None, state)
        for wanted_s, claimed_s, state in jobs
    ]
    columns = "intended_ns long, first_claimed_ns long, first_completed_ns long, state string"
    enqueued = ["intended_ns AS enqueue_began_ns", "intended_ns AS enqueued_ns", "first_claimed_ns AS first_claim_began_ns"]
    complete = spark.createDataFrame(of_jobs, columns).selectExpr("*", *enqueued, "true AS enqueue_recorded")
    stalls = make_stalls(windows, count_jobs(complete, AXIS).changes, AXIS)
    return {(phase, statistic): value for phase, statistic, value in stalls[["phase", "statistic", "value"]].to_numpy()}


def test_stalled_seconds_are_counted_and_the_longest_stall_is_found(spark: SparkSession) -> None:
    completed = [5, 0, 0, 3, 0, 0, 0, 2]
    seconds: list[Any] = [(t_s, "drain", count, 10.0) for t_s, count in enumerate(completed)]
    figures = stalled(spark, seconds)
    assert figures["drain", "total"] == 5
    assert figures["drain", "longest"] == 3
    assert figures["run", "longest"] == 3


def test_an_empty_queue_is_not_stalled(spark: SparkSession) -> None:
    figures = stalled(spark, [(0, "drain", 0, 4.0), (1, "drain", 0, 0.0), (2, "drain", 0, None), (3, "drain", 0, 1.0)])
    assert figures["drain", "total"] == 2, "a second without a sample is as deep as the one before"


def test_without_samples_a_job_that_waits_for_a_whole_second_shows_a_stall(spark: SparkSession) -> None:
    seconds: list[Any] = [(t_s, "drain", 0, None) for t_s in range(8)]
    assert stalled(spark, seconds, [(1.9, 4.1, "completed")])["drain", "total"] == 2, "seconds 2 and 3"
    assert stalled(spark, seconds, [(1.1, 1.9, "completed"), (3.9, 4.1, "completed")])["drain", "total"] == 0
    assert stalled(spark, seconds, [(5.5, None, "queued"), (0.5, None, "lost")])["drain", "total"] == 2, (
        "a lost job does not wait"
    )


def test_seconds_in_which_something_was_completed_are_not_stalled(spark: SparkSession) -> None:
    seconds: list[Any] = [
        (0, "drain", 0, None),
        (1, "drain", 0, 0.0),
        (2, "drain", 1, 0.0),
        (3, "drain", 0, 0.0),
        (4, None, 0, 0.0),
    ]
    assert stalled(spark, seconds, [(0.5, 9.5, "completed")])["drain", "total"] == 2
