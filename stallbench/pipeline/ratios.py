"""Metrics that divide one metric by another of the same phase: ``per_job``, ``share``, ``per_call`` and the mean of a counter."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.measures import MEASURES, Measure

_JOBS = ("completed", "count")


def make_ratios(phases: DataFrame) -> DataFrame:
    """Return the rows of ``phases`` for every ratio that a measure declares; none if the divisor is 0 or missing.

    ``per_job``: for a count or a counter, its count; for a series, the difference of its largest and its first value in the phase. Both are
    divided by the jobs completed in the phase. The others: its count divided by the count of another measure (`Measure.divided_by`). A row's
    ``count`` is the divisor.
    """
    rows = [
        F.struct(
            F.lit(measure.name).alias("measure"),
            F.lit(statistic).alias("statistic"),
            F.try_divide(above, below).alias("value"),
            below.cast("long").alias("count"),
        )
        for measure in MEASURES.values()
        for statistic, above, below in _list_ratios(measure)
    ]
    ratios = phases.groupBy("phase").agg(F.array(*rows).alias("ratios"))
    return ratios.select("phase", F.inline("ratios")).filter("value IS NOT NULL")


def _list_ratios(measure: Measure) -> list[tuple[str, Column, Column]]:
    ratios = []
    if "per_job" in measure.statistics:
        is_series = "first" in measure.statistics
        amount = _value(measure.name, "max") - _value(measure.name, "first") if is_series else _value(measure.name, "count")
        ratios.append(("per_job", amount, _value(*_JOBS)))
    for statistic in measure.quotients:
        ratios.append((statistic, _value(measure.name, "count"), _value(measure.divided_by, "count")))
    return ratios


def _value(measure: str, statistic: str) -> Column:
    return F.max(F.when((F.col("measure") == measure) & (F.col("statistic") == statistic), F.col("value")))
