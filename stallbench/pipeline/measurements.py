"""Everything that is measured, in one form: a *measurement* is one value of one measure at one moment.

Measurements of events are ``t_ns, measure, value, weight``. The weight is 1; the value is null where only the event counts. A weight of 0
adds nothing, and keeps the row of a second or a phase in which nothing happened. Measurements of samples are ``t_ns, measure, value,
increase``: the increase is by how much a counter has grown since the sample before.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from stallbench.engines.error_kinds import DEADLOCK_CODES
from stallbench.measures import MEASURES, FromEvents, FromSamples
from stallbench.pipeline.duplicates import re_executions
from stallbench.pipeline.time_axis import NS_PER_S, TimeAxis
from stallbench.records.events import ERROR_PATTERN, Event

NS_PER_MS = 1_000_000


def counted_measures() -> dict[str, str]:
    """Return, by name of each measure that counts events, the measure whose measurements are counted.

    A measure that has a value at each of the same events (``enqueue_ms`` of ``enqueued``) is counted in its place, so that an event is one
    measurement and not two.
    """
    valued: dict[tuple[Event, ...], str] = {}
    for measure in MEASURES.values():
        if isinstance(measure.source, FromEvents) and measure.source.value is not None:
            valued.setdefault(measure.source.events, measure.name)
    return {
        measure.name: valued.get(measure.source.events, measure.name)
        if isinstance(measure.source, FromEvents) and not measure.source.deadlock_in
        else measure.name
        for measure in MEASURES.values()
        if measure.is_counted
    }


def sampled_measures() -> dict[str, FromSamples]:
    """Return the sources of all measures that collectors sample, by the measure's name."""
    return {measure.name: measure.source for measure in MEASURES.values() if isinstance(measure.source, FromSamples)}


def measure_each_event(events: DataFrame) -> DataFrame:
    """Return the measurements of single events."""
    began_ns = F.col("t_ns") - F.col("duration_ns")
    values = {
        "duration": F.col("duration_ns") / NS_PER_MS,
        "lag": F.greatest(began_ns - F.col("intended_ns"), F.lit(0)) / NS_PER_MS,
        None: F.lit(None),
    }
    counted = counted_measures()
    of_event: dict[Event, list[Column]] = {}
    for measure in MEASURES.values():
        source = measure.source
        if isinstance(source, FromEvents) and not source.deadlock_in and counted.get(measure.name) in (None, measure.name):
            for event in source.events:
                of_event.setdefault(event, []).append(_name_value(measure.name, values[source.value]))
    found = F.lit(None)
    for event, measured in of_event.items():
        found = F.when(F.col("event") == event, F.array(*measured)).otherwise(found)
    return _with_weight(events.filter(F.col("event").isin(list(of_event))).select("t_ns", F.inline(found)))


def measure_deadlocks(events: DataFrame) -> DataFrame:
    """Return a measurement for each call that the server rolled back to break a deadlock, whether the queue tried again or not."""
    sources = {name: measure.source for name, measure in MEASURES.items() if isinstance(measure.source, FromEvents)}
    measures = {source.deadlock_in: name for name, source in sources.items() if source.deadlock_in}
    code, operation = (F.regexp_extract("detail", ERROR_PATTERN, group) for group in (1, 2))
    names = F.create_map(*(F.lit(text) for pair in measures.items() for text in pair))
    victims = events.filter(F.col("event").isin(Event.ERROR, Event.RETRIED) & code.isin(sorted(DEADLOCK_CODES)))
    named = victims.select("t_ns", names[operation].alias("measure"), _double(None).alias("value"))
    return _with_weight(named.filter("measure IS NOT NULL"))


def measure_re_executions(executions: DataFrame) -> DataFrame:
    """Return the measurements of each execution of a job but its first, from the executions of jobs that have several."""
    after_ms = (F.col("claimed_ns") - F.col("before_ns")) / NS_PER_MS
    both = F.array(_name_value("re_executions", F.lit(None)), _name_value("re_executed_after_ms", after_ms))
    return _with_weight(re_executions(executions).select(F.col("claimed_ns").alias("t_ns"), F.inline(both)))


def measure_latency(jobs: DataFrame) -> DataFrame:
    """Return the latency of each job at its first completion."""
    completed = jobs.filter("first_completed_ns IS NOT NULL")
    latency = completed.select(
        F.col("first_completed_ns").alias("t_ns"), F.lit("latency_ms").alias("measure"), F.col("latency_ms").alias("value")
    )
    return _with_weight(latency)


def measure_re_completed(second_completions: DataFrame) -> DataFrame:
    """Return a measurement for each second completion of a job, given as ``t_ns``."""
    return _with_weight(second_completions.select("t_ns", F.lit("re_completed").alias("measure"), _double(None).alias("value")))


def measure_start_delays(preconditions: DataFrame, jobs: DataFrame) -> DataFrame:
    """Return the start delay of each scheduled job at its first claim: how long after its due time it was claimed."""
    started = preconditions.filter("kind = 'due'").join(jobs.filter("first_claimed_ns IS NOT NULL"), "job_id")
    delay_ms = (F.col("first_claimed_ns") - F.col("subject").cast("long")) / NS_PER_MS
    t_ns = F.col("first_claimed_ns").alias("t_ns")
    return _with_weight(started.select(t_ns, F.lit("start_delay_ms").alias("measure"), delay_ms.alias("value")))


def measure_each_sample(samples: DataFrame) -> DataFrame:
    """Return the measurements of what was sampled.

    All samples of one collector at one moment have the same time, so that those of several subjects or servers become one measurement. A
    counter that has become less was started anew, and has grown from 0. The first sample of a counter shows no growth.
    """
    sampled = sampled_measures()
    subject = F.substring_index("subject", ":", 1)
    measure = F.lit(None).cast("string")
    for name, source in sampled.items():
        fits = F.col("metric") == (source.metric or name)
        measure = F.when(fits & (subject == source.subject) if source.subject else fits, name).otherwise(measure)
    singles = samples.select("t_ns", "source", "subject", measure.alias("measure"), F.col("number").alias("value")).filter(
        "measure IS NOT NULL AND value IS NOT NULL"
    )
    before = F.lag("value").over(Window.partitionBy("measure", "source", "subject").orderBy("t_ns"))
    grown = F.when(F.col("value") < before, F.col("value")).otherwise(F.col("value") - before)
    is_sum = F.col("measure").isin([name for name, source in sampled.items() if source.combine == "sum"])
    together = (
        singles.withColumn("increase", grown)
        .groupBy("measure", "t_ns")
        .agg(F.sum("value").alias("sum"), F.max("value").alias("max"), F.sum("increase").alias("increase"))
    )
    return together.select("t_ns", "measure", F.when(is_sum, F.col("sum")).otherwise(F.col("max")).alias("value"), "increase")


def keep_silent_times(spark: SparkSession, axis: TimeAxis, first_ns: int | None) -> DataFrame:
    """Return measurements of weight 0, which keep the row of a time in which nothing happened.

    There is one for each second from the first record or second 0 to the last record. For each interval there is one of each measure that
    counts events.
    """
    first_s = min(0, ((axis.start_ns if first_ns is None else first_ns) - axis.start_ns) // NS_PER_S)
    last_s = (axis.last_ns - axis.start_ns) // NS_PER_S
    seconds = spark.range(first_s, last_s + 1 if first_ns is not None else first_s, numPartitions=1).select(
        (F.col("id") * NS_PER_S + axis.start_ns).alias("t_ns"), F.lit("second").alias("measure")
    )
    starts = (
        spark.range(1)
        .select(
            F.explode(F.lit([interval.start_ns for interval in axis.intervals]).cast("array<long>")).alias("t_ns"),
        )
        .select("t_ns", F.explode(F.lit(list(counted_measures().values()))).alias("measure"))
    )
    return _with_weight(seconds.unionByName(starts).withColumn("value", _double(None)), weight=0)


def _with_weight(measurements: DataFrame, *, weight: int = 1) -> DataFrame:
    return measurements.select("t_ns", "measure", "value", F.lit(weight).alias("weight"))


def _name_value(measure: str, value: Column) -> Column:
    return F.struct(F.lit(measure).alias("measure"), _double(value).alias("value"))


def _double(value: Column | None) -> Column:
    return (F.lit(None) if value is None else value).cast("double")
