"""The run second by second."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.measures import MEASURES
from stallbench.pipeline.measurements import counted_measures, measure_number, sampled_measures
from stallbench.pipeline.statistics import AMOUNT, STATISTICS, statistic_number
from stallbench.pipeline.time_axis import TimeAxis
from stallbench.records.nanoseconds import NS_PER_S


def make_windows(figures: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return a row for each second that `stallbench.pipeline.measurements.keep_silent_times` keeps, from its figures.

    A second belongs to the phase that contains its middle. A sampled measure has its last value in the second; null without a sample.
    """
    counts = {name: _key(counted, AMOUNT) for name, counted in counted_measures().items()}
    values = {
        f"{name}_{each}": _key(name, each)
        for name, measure in MEASURES.items()
        for each in measure.by_second
        if each not in measure.quotients
    }
    values |= {name: _key(name, "last") for name in sampled_measures()}
    quotients = {
        f"{name}_{each}": (_key(name, AMOUNT), _key(measure.divided_by, AMOUNT))
        for name, measure in MEASURES.items()
        for each in measure.by_second
        if each in measure.quotients
    }
    divided = (key for both in quotients.values() for key in both)
    keys: list[bool | float | int | str] = sorted({*counts.values(), *values.values(), *divided})
    key = F.col("measure").cast("int") * len(STATISTICS) + F.col("statistic")
    of_seconds = figures.filter(axis.is_second(F.col("scope"))).select(F.col("scope").alias("t_s"), key.alias("key"), "value")
    seconds = of_seconds.groupBy("t_s").pivot("key", keys).agg(F.max("value"))
    columns = [F.expr(f"coalesce(`{key}`, 0) AS {name}") for name, key in counts.items()]
    columns += [F.expr(f"`{key}` AS {name}") for name, key in values.items()]
    columns += [F.expr(f"try_divide(`{above}`, `{below}`) AS {name}") for name, (above, below) in quotients.items()]
    begin_ns: Column = F.col("t_s").cast("long") * NS_PER_S + axis.start_ns
    return seconds.select("t_s", begin_ns.alias("t_ns"), axis.phase(begin_ns + NS_PER_S // 2).alias("phase"), *columns)


def _key(measure: str, statistic: str) -> int:
    return measure_number(measure) * len(STATISTICS) + statistic_number(AMOUNT if statistic == "count" else statistic)
