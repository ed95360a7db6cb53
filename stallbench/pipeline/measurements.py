"""Brings everything that is measured into one form: a *measurement* is one value of one measure at one moment.

Measurements of events are ``t_ns, measure, value_ns, weight``: all their values are times. The weight is 1; the value is null if only
the event counts. One measurement of a larger weight counts as so many. One of weight 0 counts nothing; it keeps the row of a second or a phase
in which nothing happened. Measurements of samples are ``t_ns, measure, value, increase``: the increase is the growth of a counter since the
previous sample. ``measure`` is a number, see `measure_number`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from stallbench.engines.error_codes import codes_of
from stallbench.engines.error_kinds import ErrorKind
from stallbench.measure_definition import FromEvents, FromSamples
from stallbench.measures import MEASURES
from stallbench.pipeline.duplicates import re_executions
from stallbench.pipeline.early_claims import find_overlaps
from stallbench.pipeline.positions import add_previous, choose_partitions
from stallbench.pipeline.read import Records, is_event
from stallbench.records.events import ERROR_PATTERN, Event

_LARGEST_KEY = (1 << 62) - 1
"""Keys beyond it count as it, and as it below zero: then the difference of any two keys, and the sum of all gaps, have 63 bits."""


def measure_number(name: str) -> int:
    """Return the number of a measure: its place in `MEASURES`. Spark groups by a number much faster than by a name."""
    return list(MEASURES).index(name)


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
        if isinstance(measure.source, FromEvents) and measure.source.counts_all
        else measure.name
        for measure in MEASURES.values()
        if measure.is_counted
    }


def sampled_measures() -> dict[str, FromSamples]:
    """Return the sources of all measures that collectors sample, by the measure's name."""
    return {measure.name: measure.source for measure in MEASURES.values() if isinstance(measure.source, FromSamples)}


def measure_events(
    records: Records, *, jobs: DataFrame, executions: DataFrame | None, again: DataFrame | None, preconditions: DataFrame | None
) -> DataFrame:
    """Return the measurements of all events, and of what the tables of jobs and of duplicates show by time.

    ``executions`` and ``again`` (second completions) are none if there is no duplicate, ``preconditions`` if no job had to wait.
    """
    parts = [_measure_each_event(records), _measure_jobs(jobs)]
    if records.count_events(Event.ERROR, Event.RETRIED):
        parts.append(_measure_errors_of_operations(records.events))
    if again is not None:
        parts.append(_of_measure("re_completed", again, F.col("t_ns"), None))
    if executions is not None:
        parts += _measure_re_executions(executions)
    if preconditions is not None:
        parts.append(_measure_start_delays(preconditions, jobs))
        parts.append(_measure_default_queue(preconditions, jobs))
        overlaps = find_overlaps(preconditions, records.events)
        parts.append(_of_measure("overlaps", overlaps, F.col("claimed_ns"), None))
        parts += _measure_keys(_find_keys(preconditions, jobs), choose_partitions(records.count_events(Event.ENQUEUED)))
    if fired := records.count_events(Event.FIRED):
        parts += _measure_keys(_find_periods(records.events), choose_partitions(fired))
    return reduce(DataFrame.unionByName, parts)


def _measure_each_event(records: Records) -> DataFrame:
    began_ns = F.col("t_ns") - F.col("duration_ns")
    values = {
        "duration": F.col("duration_ns"),
        "lag": F.greatest(began_ns - F.col("intended_ns"), F.lit(0)),
        "since_due": F.col("t_ns") - F.col("intended_ns"),
        None: F.lit(None).cast("long"),
    }
    counted = counted_measures()
    of_event: dict[Event, list[Column]] = {}
    for measure in MEASURES.values():
        source = measure.source
        if isinstance(source, FromEvents) and source.counts_all and counted.get(measure.name) in (None, measure.name):
            for event in source.events:
                if records.count_events(event):
                    t_ns = F.col("intended_ns" if source.value == "since_due" else "t_ns")
                    value = F.struct(
                        t_ns.alias("t_ns"), _number(measure.name).alias("measure"), values[source.value].alias("value_ns")
                    )
                    of_event.setdefault(event, []).append(value)
    found = F.lit(None)
    for event, measured in of_event.items():
        found = F.when(is_event(event), F.array(*measured)).otherwise(found)
    if not of_event:
        return _of_measure("completed", records.events.filter(F.lit(False)), F.col("t_ns"), None)
    return records.events.select(F.inline(found)).filter("t_ns IS NOT NULL").withColumn("weight", F.lit(1))


def _measure_errors_of_operations(events: DataFrame) -> DataFrame:
    """Measure each error of an operation that has a measure of its own, and each deadlock, whether the queue tried again or not."""
    sources = {name: measure.source for name, measure in MEASURES.items() if isinstance(measure.source, FromEvents)}
    by_deadlock = {source.deadlock_in: name for name, source in sources.items() if source.deadlock_in}
    by_error = {source.error_in: name for name, source in sources.items() if source.error_in}
    code, operation = (F.regexp_extract("detail", ERROR_PATTERN, group) for group in (1, 2))
    found = F.when(code.isin(sorted(codes_of(ErrorKind.DEADLOCK))), F.try_element_at(_numbers_by(by_deadlock), operation)).when(
        F.col("event") == Event.ERROR, F.try_element_at(_numbers_by(by_error), operation)
    )
    raised = events.filter(F.col("event").isin(Event.ERROR, Event.RETRIED))
    named = raised.select("t_ns", found.alias("measure")).filter("measure IS NOT NULL")
    return named.select("t_ns", "measure", F.lit(None).cast("long").alias("value_ns"), F.lit(1).alias("weight"))


def _numbers_by(names: Mapping[str, str]) -> Column:
    """Return a map from the keys of ``names`` to the numbers of the measures that these name."""
    return F.create_map(*(part for key, name in names.items() for part in (F.lit(key), _number(name))))


def _measure_re_executions(executions: DataFrame) -> list[DataFrame]:
    """Measure each execution of a job but its first, from the executions of jobs that have several."""
    repeated = re_executions(executions)
    claimed_ns = F.col("claimed_ns")
    return [
        _of_measure("re_executions", repeated, claimed_ns, None),
        _of_measure("re_executed_after_ms", repeated, claimed_ns, claimed_ns - F.col("before_ns")),
    ]


def _measure_jobs(jobs: DataFrame) -> DataFrame:
    """Measure the latency of each job at its first completion, and its pickup time at its first claim."""
    completed_ns, claimed_ns, intended_ns = F.col("first_completed_ns"), F.col("first_claimed_ns"), F.col("intended_ns")
    picked_up_ns = F.when(intended_ns.isNotNull(), claimed_ns)
    measured = [
        F.struct(t_ns.alias("t_ns"), _number(name).alias("measure"), (t_ns - intended_ns).alias("value_ns"))
        for name, t_ns in (("latency_ms", completed_ns), ("pickup_ms", picked_up_ns))
    ]
    return jobs.select(F.inline(F.array(*measured))).filter("t_ns IS NOT NULL").withColumn("weight", F.lit(1))


def _measure_start_delays(preconditions: DataFrame, jobs: DataFrame) -> DataFrame:
    """Measure the start delay of each scheduled job at its first claim: how long after its due time it was claimed."""
    claimed_ns = F.col("first_claimed_ns")
    started = preconditions.filter("kind = 'due'").join(jobs.filter(claimed_ns.isNotNull()), "job_id")
    return _of_measure("start_delay_ms", started, claimed_ns, claimed_ns - F.col("subject").cast("long"))


def _measure_default_queue(preconditions: DataFrame, jobs: DataFrame) -> DataFrame:
    """Measure the latency of each job of the default queue: of those for which no other queue was recorded."""
    completed_ns = F.col("first_completed_ns")
    others = preconditions.filter("kind = 'queue'").select("job_id")
    completed = jobs.filter(completed_ns.isNotNull()).join(others, "job_id", "left_anti")
    return _of_measure("default_queue_latency_ms", completed, completed_ns, completed_ns - F.col("intended_ns"))


def _find_keys(preconditions: DataFrame, jobs: DataFrame) -> DataFrame:
    """Return ``subject, job_id, enqueued_ns``: the key of each job that has one, and when it was enqueued."""
    return preconditions.filter("kind = 'key'").join(jobs.select("job_id", "enqueued_ns"), "job_id")


def _find_periods(events: DataFrame) -> DataFrame:
    """Return the same of each periodic job of a library: its period, the library's own id, and when it was first executed."""
    fired = events.filter(is_event(Event.FIRED))
    of_one = fired.groupBy(F.col("job_id").cast("string").alias("subject"), F.col("detail").alias("job_id"))
    return of_one.agg(F.min("t_ns").alias("enqueued_ns"))


def _measure_keys(keyed: DataFrame, partitions: int) -> list[DataFrame]:
    """Measure each job whose key an earlier job had, and the numbers that no job has between the keys of two jobs, if keys are numbers.

    ``keyed``: as `_find_keys` and `_find_periods` return it. ``partitions``: over how many the keys are sorted. The numbers between two keys are one
    measurement with their number as its weight: keys may be far apart.
    """
    enqueued_ns = F.col("enqueued_ns")
    repeated = keyed.withColumn(
        "nth", F.row_number().over(Window.partitionBy("subject").orderBy("enqueued_ns", "job_id"))
    ).filter("nth > 1")
    number = F.col("subject").try_cast("long")
    within = F.greatest(F.least(number, F.lit(_LARGEST_KEY)), F.lit(-_LARGEST_KEY)).alias("number")
    numbers = keyed.filter(number.isNotNull()).groupBy(within).agg(F.min("enqueued_ns").alias("enqueued_ns"))
    gaps = add_previous(numbers, "number", partitions, "before").filter("number > before + 1")
    between = F.col("number") - F.col("before") - 1
    return [
        _of_measure("repeated_keys", repeated, enqueued_ns, None),
        _of_measure("skipped_keys", gaps, enqueued_ns, None, weight=between),
    ]


def _of_measure(name: str, rows: DataFrame, t_ns: Column, value_ns: Column | None, weight: Column | None = None) -> DataFrame:
    value = F.lit(None) if value_ns is None else value_ns
    weight = F.lit(1) if weight is None else weight
    return rows.select(
        t_ns.alias("t_ns"), _number(name).alias("measure"), value.cast("long").alias("value_ns"), weight.alias("weight")
    )


def _number(name: str) -> Column:
    return F.lit(measure_number(name)).cast("short")
