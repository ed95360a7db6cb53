"""The round in which a job is claimed, against the article's expected value."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from stallbench.pipeline.rounds import make_round_metrics, make_rounds
from stallbench.report.page import expected_round

EVENTS = "t_ns long, process string, event string, job_id long"
JOBS = "job_id long, enqueued_ns long, first_claimed_ns long, enqueue_recorded boolean"


def rounds_of(spark: SparkSession, picks: list[tuple[str, int]], jobs: int, window: int) -> dict[int, int]:
    """``picks``: in order, ``claimed`` or ``lost_race`` and the job."""
    events = spark.createDataFrame([(t, "worker-1", event, job) for t, (event, job) in enumerate(picks)], EVENTS)
    claimed = {job: t for t, (event, job) in enumerate(picks) if event == "claimed"}
    rows = [(job, job, claimed.get(job), True) for job in range(1, jobs + 1)]
    table = spark.createDataFrame(rows, JOBS)
    return {row["round"]: row["jobs"] for row in make_rounds(events, table, window).collect()}


def test_in_order_each_job_has_its_turn_in_the_first_round(spark: SparkSession) -> None:
    assert rounds_of(spark, [("claimed", job) for job in range(1, 9)], 8, window=2) == {1: 8}


def test_a_job_that_is_passed_over_is_claimed_in_a_later_round(spark: SparkSession) -> None:
    # Window of 2: job 1 is there from the start, and is the fifth pick: rounds are picks 1-2, 3-4, 5-6.
    picks = [("claimed", 2), ("claimed", 3), ("lost_race", 3), ("claimed", 4), ("claimed", 1)]
    assert rounds_of(spark, picks, 4, window=2) == {1: 3, 3: 1}


def test_workers_that_choose_at_random_reach_the_article_s_expected_round(spark: SparkSession) -> None:
    draw, window, jobs = random.Random(1), 10, 4000
    waiting, picks = list(range(1, jobs + 1)), []
    while waiting:
        picks.append(("claimed", waiting.pop(draw.randrange(min(window, len(waiting))))))
    rounds = rounds_of(spark, picks, jobs, window)
    mean = sum(number * count for number, count in rounds.items()) / jobs
    assert expected_round(window) == pytest.approx(1.535, abs=0.001)
    assert mean == pytest.approx(expected_round(window), abs=0.05)


def test_the_metrics_are_those_of_the_histogram(spark: SparkSession) -> None:
    histogram = spark.createDataFrame([(1, 3), (2, 1)], "round long, jobs long")
    assert {row["statistic"]: row["value"] for row in make_round_metrics(histogram).collect()} == {"mean": 1.25, "max": 2}
