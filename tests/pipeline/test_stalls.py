"""Seconds in which nothing was completed although jobs waited."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from pyspark.sql import SparkSession

from stallbench.pipeline.stalls import make_stalls
from stallbench.pipeline.time_axis import TimeAxis

AXIS = cast(TimeAxis, SimpleNamespace(stretches=[SimpleNamespace(name=name) for name in ("warmup", "drain", "run")]))


def stalled(spark: SparkSession, seconds: list[tuple[int, str | None, int, float | None]]) -> dict[tuple[str, str], float]:
    windows = spark.createDataFrame(seconds, "t_s int, phase string, completed long, depth double")
    return {(row["phase"], row["statistic"]): row["value"] for row in make_stalls(windows, AXIS).collect()}


def test_stretches_are_counted_and_the_longest_is_found(spark: SparkSession) -> None:
    completed = [5, 0, 0, 3, 0, 0, 0, 2]
    seconds: list[Any] = [(t_s, "drain", count, 10.0) for t_s, count in enumerate(completed)]
    figures = stalled(spark, seconds)
    assert figures["drain", "total"] == 5
    assert figures["drain", "longest"] == 3
    assert figures["run", "longest"] == 3


def test_an_empty_queue_is_not_stalled(spark: SparkSession) -> None:
    figures = stalled(spark, [(0, "drain", 0, 4.0), (1, "drain", 0, 0.0), (2, "drain", 0, None), (3, "drain", 0, 1.0)])
    assert figures["drain", "total"] == 2, "a second without a sample is as deep as the one before"


def test_without_samples_nothing_is_known(spark: SparkSession) -> None:
    assert stalled(spark, [(0, "drain", 0, None), (1, None, 0, 3.0)]) == {}
