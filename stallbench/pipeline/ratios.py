"""Metrics that divide one metric by another of the same phase: ``per_job``, ``share``, ``per_call`` and the mean of a counter."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.measures import MEASURES
from stallbench.pipeline.frames import constant

_JOBS = "completed.count"
_RATIOS = "array<struct<measure:string,statistic:string,above:string,first:string,below:string>>"


def make_ratios(phases: DataFrame) -> DataFrame:
    """Return the rows of ``phases`` for every ratio that a measure declares; none if the divisor is 0 or missing.

    ``per_job``: for a count or a counter, its count; for a series, the difference of its largest and its first value in the phase. Both are
    divided by the jobs completed in the phase. The others: its count divided by the count of another measure (`Measure.divided_by`). A row's
    ``count`` is the divisor.
    """
    metrics = F.collect_list(F.struct(F.concat_ws(".", "measure", "statistic").alias("metric"), "value"))
    of_phases = phases.groupBy("phase").agg(F.map_from_entries(metrics).alias("metrics"))

    def value(metric: Column) -> Column:
        return F.try_element_at("metrics", metric)

    def divide(ratio: Column) -> Column:
        first = F.when(ratio.first.isNull(), 0.0).otherwise(value(ratio.first))
        below = value(ratio.below)
        quotient = F.try_divide(value(ratio.above) - first, below).alias("value")
        return F.struct(
            ratio.measure.alias("measure"), ratio.statistic.alias("statistic"), quotient, below.cast("long").alias("count")
        )

    ratios = F.transform(constant(_list_ratios(), _RATIOS), divide)
    return of_phases.select("phase", F.inline(ratios)).filter("value IS NOT NULL")


def _list_ratios() -> list[dict[str, str | None]]:
    """Return each ratio with the metrics it is made of: ``above`` minus ``first``, if there is one, by ``below``."""
    ratios: list[dict[str, str | None]] = []
    for measure in MEASURES.values():
        count = f"{measure.name}.count"
        if "per_job" in measure.statistics:
            is_series = "first" in measure.statistics
            above, first = (f"{measure.name}.max", f"{measure.name}.first") if is_series else (count, None)
            ratios.append({"measure": measure.name, "statistic": "per_job", "above": above, "first": first, "below": _JOBS})
        for statistic in measure.quotients:
            below = f"{measure.divided_by}.count"
            ratios.append({"measure": measure.name, "statistic": statistic, "above": count, "first": None, "below": below})
    return ratios
