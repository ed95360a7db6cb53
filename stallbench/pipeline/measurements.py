"""Everything that is measured, in one form: a *point* is one value of one measure at one moment.

Points of events are ``t_ns, measure, value, weight``: the weight is 1, the value is null where only the event counts. A weight of 0 only keeps
a place, so that a second or a phase in which nothing happened is not missing. Points of samples are ``t_ns, measure, value, increase``: the
increase is by how much a counter has grown since the sample before.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from stallbench.engines.error_kinds import DEADLOCK_CODES
from stallbench.pipeline.duplicates import re_executions
from stallbench.pipeline.time_axis import NS_PER_S, TimeAxis
from stallbench.records.events import Event

NS_PER_MS = 1_000_000

COUNTED = {
    "enqueued": "enqueue_ms",
    "claimed": "claim_ms",
    "completed": "complete_ms",
    "failed": "failed",
    "empty": "empty",
    "lost_race": "lost_race",
    "errors": "errors",
    "refused": "refused",
    "retried": "retried",
    "duplicates": "duplicates",
    "re_executions": "re_executions",
    "deadlocks_in_claim": "deadlocks_in_claim",
    "deadlocks_in_complete": "deadlocks_in_complete",
    "deadlocks_in_enqueue": "deadlocks_in_enqueue",
}
"""By name of the measure that counts events: the measure of which every such event is a point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The samples that a measure is made of.

    All samples of one collector at one moment have the same time. Where several subjects or servers share a measure, it is their sum or
    the greatest of them.
    """

    subject: str
    """What the sample's subject is before its colon, if it has one (``table`` of ``table:que_jobs``); empty for any."""
    metric: str
    is_sum: bool = False
    is_counter: bool = False
    """Whether it only grows, from its server's start."""


SAMPLED = {
    "depth": Source(subject="queue", metric="depth"),
    "oldest_job_s": Source(subject="queue", metric="oldest_job_s"),
    "dead_tuples": Source(subject="table", metric="dead_tuples", is_sum=True),
    "history_list_length": Source(subject="server", metric="history_list_length"),
    "replica_history_list_length": Source(subject="server", metric="replica_history_list_length"),
    "updates": Source(subject="table", metric="updates", is_sum=True, is_counter=True),
    "hot_updates": Source(subject="table", metric="hot_updates", is_sum=True, is_counter=True),
    "live_tuples": Source(subject="table", metric="live_tuples", is_sum=True),
    "table_bytes": Source(subject="table", metric="table_bytes", is_sum=True),
    "index_bytes": Source(subject="index", metric="index_bytes", is_sum=True),
    "oldest_transaction_s": Source(subject="server", metric="oldest_transaction_s"),
    "horizon_age_s": Source(subject="server", metric="horizon_age_s"),
    "horizon_age_xids": Source(subject="server", metric="horizon_age_xids"),
    "blocked_backends": Source(subject="server", metric="blocked_backends", is_sum=True),
    "deadlocks": Source(subject="server", metric="deadlocks", is_sum=True, is_counter=True),
    "advisory_locks": Source(subject="server", metric="advisory_locks"),
    "row_lock_wait_ms": Source(subject="server", metric="row_lock_wait_ms", is_sum=True, is_counter=True),
    "conflicts": Source(subject="server", metric="conflicts", is_sum=True, is_counter=True),
    "replication_lag_bytes": Source(subject="", metric="lag_bytes"),
    "wal_bytes": Source(subject="server", metric="wal_bytes", is_sum=True, is_counter=True),
    "cpu_percent": Source(subject="host", metric="cpu_percent"),
    "notification_queue_percent": Source(subject="server", metric="notification_queue_percent"),
    "notification_queue_bytes": Source(subject="server", metric="notification_queue_bytes"),
    "notify_lock_waits": Source(subject="server", metric="notify_lock_waits"),
    "stuck_clients": Source(subject="server", metric="stuck_clients"),
    "autovacuum_workers_busy": Source(subject="server", metric="autovacuum_workers_busy"),
    "autovacuum_workers_free": Source(subject="server", metric="autovacuum_workers_free"),
    "vacuum_overdue_s": Source(subject="table", metric="vacuum_overdue_s"),
}
"""By name of the measure."""


def points_of_events(events: DataFrame) -> DataFrame:
    """Return the points of single events."""
    ms = F.col("duration_ns") / NS_PER_MS
    began_ns = F.col("t_ns") - F.col("duration_ns")
    lag_ms = F.greatest(began_ns - F.col("intended_ns"), F.lit(0)) / NS_PER_MS
    measures: dict[Event, dict[str, Column | None]] = {
        Event.ENQUEUED: {"enqueue_ms": ms, "lag_ms": lag_ms},
        Event.CLAIMED: {"claim_ms": ms, "claim_call_ms": ms},
        Event.EMPTY: {"claim_call_ms": ms, "empty": None},
        Event.LOST_RACE: {"claim_call_ms": ms, "lost_race": None},
        Event.COMPLETED: {"complete_ms": ms},
        Event.FAILED: {"failed": None},
        Event.ERROR: {"errors": None},
        Event.RETRIED: {"retried": None},
        Event.REFUSED: {"refused": None},
    }
    found = F.lit(None)
    for event, values in measures.items():
        here = F.array(*(F.struct(F.lit(name).alias("measure"), _double(value).alias("value")) for name, value in values.items()))
        found = F.when(F.col("event") == event, here).otherwise(found)
    return _as_points(events.filter(F.col("event").isin(list(measures))).select("t_ns", F.inline(found)))


def points_of_deadlocks(events: DataFrame) -> DataFrame:
    """Return a point for each call that the server rolled back to break a deadlock, whether the queue tried again or not."""
    move = F.regexp_extract(
        F.coalesce("detail", F.lit("")), rf"^(?:{'|'.join(sorted(DEADLOCK_CODES))}) in (claim|complete|enqueue)\b", 1
    )
    victims = events.filter(F.col("event").isin(Event.ERROR, Event.RETRIED)).select("t_ns", move.alias("move"))
    measure = F.concat(F.lit("deadlocks_in_"), F.col("move"))
    return _as_points(victims.filter("move <> ''").select("t_ns", measure.alias("measure"), _double(None).alias("value")))


def points_of_re_executions(executions: DataFrame) -> DataFrame:
    """Return points for each execution of a job but its first, from the executions of jobs that have several."""
    again = re_executions(executions)
    after_ms = (F.col("claimed_ns") - F.col("before_ns")) / NS_PER_MS
    both = F.array(
        F.struct(F.lit("re_executions").alias("measure"), _double(None).alias("value")),
        F.struct(F.lit("re_executed_after_ms").alias("measure"), _double(after_ms).alias("value")),
    )
    return _as_points(again.select(F.col("claimed_ns").alias("t_ns"), F.inline(both)))


def points_of_jobs(jobs: DataFrame) -> DataFrame:
    """Return the latency of each job at its first completion."""
    completed = jobs.filter("first_completed_ns IS NOT NULL")
    latency = completed.select(
        F.col("first_completed_ns").alias("t_ns"), F.lit("latency_ms").alias("measure"), F.col("latency_ms").alias("value")
    )
    return _as_points(latency)


def points_of_duplicates(second_completions: DataFrame) -> DataFrame:
    """Return a point for each second completion of a job, given as ``t_ns``."""
    return _as_points(second_completions.select("t_ns", F.lit("duplicates").alias("measure"), _double(None).alias("value")))


def points_of_samples(samples: DataFrame) -> DataFrame:
    """Return the points of what was sampled.

    A counter that has become less was started anew, and has grown from 0; its first sample tells no growth.
    """
    subject = F.substring_index("subject", ":", 1)
    measure = F.lit(None).cast("string")
    for name, source in SAMPLED.items():
        fits = F.col("metric") == source.metric
        measure = F.when(fits & (subject == source.subject) if source.subject else fits, name).otherwise(measure)
    singles = samples.select("t_ns", "source", "subject", measure.alias("measure"), F.col("number").alias("value")).filter(
        "measure IS NOT NULL AND value IS NOT NULL"
    )
    before = F.lag("value").over(Window.partitionBy("measure", "source", "subject").orderBy("t_ns"))
    grown = F.when(F.col("value") < before, F.col("value")).otherwise(F.col("value") - before)
    is_sum = F.col("measure").isin([name for name, source in SAMPLED.items() if source.is_sum])
    together = (
        singles.withColumn("increase", grown)
        .groupBy("measure", "t_ns")
        .agg(F.sum("value").alias("sum"), F.max("value").alias("max"), F.sum("increase").alias("increase"))
    )
    return together.select("t_ns", "measure", F.when(is_sum, F.col("sum")).otherwise(F.col("max")).alias("value"), "increase")


def keep_places(spark: SparkSession, axis: TimeAxis, first_ns: int | None) -> DataFrame:
    """Return points of weight 0: one for each second from the first record or second 0 to the last record, and for each stretch one of each
    measure that counts events.
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
        .select("t_ns", F.explode(F.lit(list(COUNTED.values()))).alias("measure"))
    )
    return _as_points(seconds.unionByName(starts).withColumn("value", _double(None)), weight=0)


def _as_points(points: DataFrame, *, weight: int = 1) -> DataFrame:
    return points.select("t_ns", "measure", "value", F.lit(weight).alias("weight"))


def _double(value: Column | None) -> Column:
    return (F.lit(None) if value is None else value).cast("double")
