"""The round in which a job is claimed, against the article's expected value."""

from __future__ import annotations

import math
import random
from bisect import insort
from collections import Counter
from operator import itemgetter

import pytest
from pyspark.sql import Observation, SparkSession

from stallbench.pipeline.failures import PipelineError
from stallbench.pipeline.rounds import make_round_metrics, make_rounds, observe_rounds
from stallbench.queues.queue import LARGEST_WINDOW
from stallbench.report.page import expected_round

EVENTS = "t_ns long, process string, event string, job_id long"
JOBS = "job_id long, enqueued_ns long, first_claimed_ns long, enqueue_recorded boolean"


Pick = tuple[str, int]


def rounds_of(
    spark: SparkSession, picks: list[Pick], jobs: int, window: int, *, at_once: int = 1, **options: int
) -> dict[int, int]:
    """``picks``: in order, ``claimed`` or ``lost_race`` and the job; so many ``at_once`` have the same time, in the order of their jobs."""
    moments = [(place // at_once, "worker-1", *pick) for place, pick in enumerate(picks)]
    events = spark.createDataFrame(random.Random(2).sample(moments, len(moments)), EVENTS)
    claimed = {job: t for t, _, event, job in moments if event == "claimed"}
    rows = [(job, job // at_once, claimed.get(job), True) for job in range(1, jobs + 1)]
    rounds = make_rounds(events, spark.createDataFrame(rows, JOBS), window, picks=len(picks), **options)
    return {row["round"]: row["jobs"] for row in rounds.collect()}


def choose(jobs: int, window: int) -> list[Pick]:
    """Let workers choose among the first ``window`` jobs at random, and every tenth time be too late for one. Job 7 is left until the end."""
    draw, waiting, picks = random.Random(1), list(range(1, jobs + 1)), list[Pick]()
    while waiting:
        place = draw.randrange(min(window, len(waiting)))
        if waiting[place] == 7 and len(waiting) > 1:
            continue
        if draw.random() < 0.1:
            picks.append(("lost_race", waiting[place]))
        else:
            picks.append(("claimed", waiting.pop(place)))
    return picks


def expected_rounds(picks: list[Pick], window: int) -> dict[int, int]:
    """The rounds by the definition: for each job, the picks since fewer than ``window`` earlier jobs are unclaimed."""
    picked = {job: number for number, (event, job) in enumerate(picks, start=1) if event == "claimed"}
    earlier: list[int] = []
    rounds: Counter[int] = Counter()
    for job in sorted(picked):
        entered_after = earlier[-window] if len(earlier) >= window else 0
        rounds[max(1, math.ceil((picked[job] - entered_after) / window))] += 1
        insort(earlier, picked[job])
    return dict(rounds)


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


@pytest.mark.parametrize("partitions", [*(pytest.param(few, marks=pytest.mark.long) for few in (1, 2)), 7])
@pytest.mark.parametrize("window", [3, pytest.param(30, marks=pytest.mark.long), 1200])
def test_rounds_are_the_same_however_the_jobs_are_divided(spark: SparkSession, window: int, partitions: int) -> None:
    """A window may be larger than a chunk, and a job may stay in it for longer than a chunk lasts."""
    picks = choose(4000, window)
    found = rounds_of(spark, picks, 4000, window, partitions=partitions, jobs_per_chunk=500)
    assert found == expected_rounds(picks, window)
    assert max(found) > 3


@pytest.mark.parametrize("partitions", [*(pytest.param(few, marks=pytest.mark.long) for few in (1, 2)), 7])
def test_of_jobs_that_are_claimed_at_the_same_time_that_with_the_lower_number_is_first(
    spark: SparkSession, partitions: int
) -> None:
    """Each worker claims batches: forty picks have the same time and the same process."""
    chosen = [pick for pick in choose(4000, 10) if pick[0] == "claimed"]
    picks = [pick for first in range(0, len(chosen), 40) for pick in sorted(chosen[first : first + 40], key=itemgetter(1))]
    found = rounds_of(spark, picks, 4000, 10, at_once=40, partitions=partitions, jobs_per_chunk=500)
    assert found == expected_rounds(picks, 10)


def test_a_window_that_is_too_large_is_refused(spark: SparkSession) -> None:
    assert rounds_of(spark, [("claimed", 2), ("claimed", 1)], 2, window=LARGEST_WINDOW) == {1: 2}
    with pytest.raises(PipelineError, match=r"window is 100001, .* at most 100000 jobs"):
        rounds_of(spark, [("claimed", 1)], 1, window=LARGEST_WINDOW + 1)


def test_the_metrics_are_those_of_the_histogram(spark: SparkSession) -> None:
    histogram = spark.createDataFrame([(1, 3), (2, 1)], "round long, jobs long")
    seen = Observation()
    observe_rounds(histogram, seen).collect()
    metrics = make_round_metrics(seen.get)
    assert dict(zip(metrics["statistic"], metrics["value"], strict=True)) == {"mean": 1.25, "max": 2}
    assert set(metrics["count"]) == {4}
