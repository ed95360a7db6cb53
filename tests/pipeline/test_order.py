"""The order of claims against the order of enqueueing, by the Laravel article's measure."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, Observation, SparkSession

from stallbench.pipeline.order import make_order, make_order_metrics, observe_order
from stallbench.pipeline.positions import ROWS_PER_PARTITION, choose_partitions
from tests.pipeline.conftest import ReadParts
from tests.synthetic_run import SyntheticRun


def jobs_of(spark: SparkSession, rows: list[tuple[int, int, int]]) -> DataFrame:
    """Rows of ``jobs`` with their id, and when they were enqueued and claimed."""
    columns = "job_id long, enqueued_ns long, first_claimed_ns long, enqueue_recorded boolean"
    return spark.createDataFrame([(*row, True) for row in rows], columns)


def none_again(jobs: DataFrame) -> DataFrame:
    """No execution but each job's first."""
    return jobs.selectExpr("job_id", "first_claimed_ns AS claimed_ns").filter("false")


def histogram(order: DataFrame) -> dict[int, int]:
    return {row["diff"]: row["claims"] for row in order.collect()}


def metrics_of(order: DataFrame, partitions: int = 1) -> pd.DataFrame:
    seen = Observation()
    observe_order(order, partitions, seen).collect()
    return make_order_metrics(seen.get)


def test_the_example_of_the_source(read_parts: ReadParts, tmp_path: Path) -> None:
    """Job ID 1 2 4 7 3 6 5 in sequence 1 to 7 has Diff 0 0 1 3 2 0 2."""
    run = SyntheticRun(tmp_path / "run")
    for job in range(1, 8):
        run.enqueue(job, at_s=job / 10)
    for place, job in enumerate([1, 2, 4, 7, 3, 6, 5]):
        run.execute(job, at_s=2 + place / 10)
    parts = read_parts(run.write())
    assert histogram(make_order(parts.jobs, none_again(parts.jobs), 1)) == {0: 3, 1: 1, 2: 2, 3: 1}


def test_only_claims_of_recorded_jobs_have_a_position(read_parts: ReadParts, tmp_path: Path) -> None:
    run = SyntheticRun(tmp_path / "run")
    run.enqueue(1, at_s=0.1).enqueue(2, at_s=0.2).enqueue(3, at_s=0.3)
    run.execute(99, at_s=1)  # its enqueue was not recorded
    run.execute(2, at_s=2).execute(1, at_s=3).execute(2, at_s=4)  # 3 is never claimed
    parts = read_parts(run.write())
    jobs = parts.jobs
    assert histogram(make_order(jobs, none_again(jobs), 1)) == {1: 2}


def test_an_execution_that_comes_late_moves_all_that_follow(spark: SparkSession) -> None:
    """Job ID 1 2 1 3 4: the second execution of 1 is in the place of 3, as in the article's protocol table."""
    jobs = jobs_of(spark, [(1, 1, 10), (2, 2, 20), (3, 3, 40), (4, 4, 50)])
    again = spark.createDataFrame([(1, 30)], "job_id long, claimed_ns long")
    assert histogram(make_order(jobs, again, 1)) == {0: 2, 2: 1, 1: 2}


def test_the_metrics_of_the_order_are_those_of_its_histogram(spark: SparkSession) -> None:
    order = spark.createDataFrame([(0, 90), (1, 9), (7, 1)], "diff long, claims long")
    figures = metrics_of(order)
    assert dict(zip(figures["statistic"], figures["value"], strict=True)) == {"mean": 0.16, "p99": 1, "max": 7}
    assert metrics_of(order.filter("diff > 7")).empty, "without claims nothing is known"


@pytest.mark.parametrize("partitions", [1, pytest.param(2, marks=pytest.mark.long), 7])
@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_the_metrics_do_not_depend_on_the_number_of_partitions(spark: SparkSession, rows: int, partitions: int) -> None:
    """Against the same figures by Python; the histogram has gaps, and no order."""
    draw = random.Random(3)
    claims = {diff * 3: draw.choice([1, 1, 1, 50]) for diff in draw.sample(range(rows), rows)}
    in_order = sorted(diff for diff, times in claims.items() for _ in range(times))
    order = spark.createDataFrame(list(claims.items()), "diff long, claims long").repartition(3)
    (mean, p99, largest) = metrics_of(order, partitions).to_dict("records")
    assert [mean["statistic"], p99["statistic"], largest["statistic"]] == ["mean", "p99", "max"]
    assert mean["value"] == pytest.approx(sum(in_order) / len(in_order))
    assert p99["value"] == in_order[math.ceil(0.99 * len(in_order)) - 1]
    assert largest["value"] == in_order[-1]
    assert {row["count"] for row in (mean, p99, largest)} == {len(in_order)}


def test_no_partition_has_the_whole_histogram_if_there_are_several(spark: SparkSession) -> None:
    order = spark.createDataFrame([(diff, 1) for diff in range(100)], "diff long, claims long")
    plan = observe_order(order, 3, Observation())._jdf.queryExecution().optimizedPlan().toString()
    windows = [line for line in plan.splitlines() if "Window" in line]
    assert windows
    assert all("[range_number" in line for line in windows), plan


@pytest.mark.parametrize("partitions", [pytest.param(2, marks=pytest.mark.long), 7])
def test_the_histogram_does_not_depend_on_the_number_of_partitions(spark: SparkSession, partitions: int) -> None:
    draw = random.Random(1)
    claimed = list(range(3000))
    draw.shuffle(claimed)
    # Many at the same nanosecond, so that ranges are uneven and ties have to be broken alike.
    jobs = jobs_of(spark, [(job, job // 5, claimed[job] // 3) for job in range(3000)])
    alone = histogram(make_order(jobs, none_again(jobs), 1))
    assert sum(alone.values()) == 3000
    assert histogram(make_order(jobs, none_again(jobs), partitions)) == alone


def test_partitions_may_be_more_than_jobs(spark: SparkSession) -> None:
    jobs = jobs_of(spark, [(1, 10, 20), (2, 11, 19)])
    assert histogram(make_order(jobs, none_again(jobs), 5)) == {1: 2}


def test_large_runs_are_sorted_in_more_than_one_partition() -> None:
    assert choose_partitions(0) == 1
    assert choose_partitions(ROWS_PER_PARTITION - 1) == 1
    assert choose_partitions(3 * ROWS_PER_PARTITION) == 4
