"""Every metric of `stallbench.measures` in every interval: each phase, and the whole run."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.measures import MEASURES, metric_names
from stallbench.pipeline.measurements import counted_measures, sampled_measures
from stallbench.pipeline.statistics import AMOUNT, STATISTICS, statistic_number
from stallbench.pipeline.time_axis import TimeAxis


def make_phases(figures: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return ``phase, measure, statistic, value, count``; ``count`` is the number of events or samples behind the value.

    A count is 0 in an interval without such events. A distribution, a series or a counter without any value has no row.
    """
    is_amount = F.col("statistic") == statistic_number(AMOUNT)
    counted_as = {counted: name for name, counted in counted_measures().items()}
    counters = {name: name for name, source in sampled_measures().items() if source.is_counter}
    amounts = counted_as | counters
    amount_of = _at([amounts.get(name) for name in MEASURES], F.col("measure"))
    name = F.when(is_amount, amount_of).otherwise(_at(list(MEASURES), F.col("measure")))
    rate = F.when(is_amount, F.col("value") / axis.interval_s(F.col("scope")))
    rows = F.array(
        _row(F.when(is_amount, "count").otherwise(_at(STATISTICS, F.col("statistic"))), F.col("value")), _row(F.lit("rate"), rate)
    )
    of_intervals = figures.filter(~axis.is_second(F.col("scope"))).select(
        axis.interval_name(F.col("scope")).alias("phase"), "measure", name.alias("name"), "count", F.inline(rows)
    )
    divided = {f"{measure.name}.{statistic}" for measure in MEASURES.values() for statistic in measure.quotients}
    is_declared = F.concat_ws(".", "name", "statistic").isin([metric for metric in metric_names() if metric not in divided])
    return of_intervals.filter(F.col("value").isNotNull() & is_declared).select(
        "phase", F.col("name").alias("measure"), "statistic", "value", "count"
    )


def _row(statistic: Column, value: Column) -> Column:
    return F.struct(statistic.alias("statistic"), value.cast("double").alias("value"))


def _at(names: Sequence[str | None], number: Column) -> Column:
    return F.get(F.array(*(F.lit(name).cast("string") for name in names)), number.cast("int"))
