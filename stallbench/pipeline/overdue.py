"""Jobs that waited although it was their turn: passed over by later jobs, or left behind by a worker that died.

Whether it was a job's turn follows only from other jobs. Job K was preferred to job J if the enqueue of K had not begun when J was due, and K
had been claimed for `PATIENCE_S` when J's claim began. Times are compared in slots of `_SLOT_NS`, so that no partition ever holds all jobs:
each slot has one value, the earliest claim among the jobs that were enqueued in it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from stallbench.pipeline.conservation import EXAMPLES
from stallbench.pipeline.frames import make_rows
from stallbench.pipeline.time_axis import NS_PER_S, TimeAxis
from stallbench.records.events import Event
from stallbench.run.record import RunRecord

PATIENCE_S = 1.0
"""A job is passed over if a younger one was claimed this long before it. The queue also has this long to detect that a worker has died, or that
a time has passed that it counts in whole seconds."""
PASSED_OVER, LEFT_BEHIND, HELD_FOR_THE_DEAD = "passed_over", "left_behind", "held_for_the_dead"
_PATIENCE_NS = int(PATIENCE_S * NS_PER_S)
_SLOT_NS = NS_PER_S // 10
_ENDS = (Event.COMPLETED, Event.FAILED, Event.EXPIRED, Event.ERROR)
_DEATHS = "process string, died_ns long"
_NEVER_NS = 1 << 62


def make_overdue(spark: SparkSession, events: DataFrame, jobs: DataFrame, record: RunRecord, axis: TimeAxis) -> DataFrame:
    """Return ``kind, jobs, examples, longest_s``: a row for each kind of overdue job that there is, with the `EXAMPLES` lowest ids.

    ``passed_over``: it had not been claimed yet, and younger ones were. ``left_behind``: its worker died, the queue could offer it again, but
    offered younger ones until the end. ``held_for_the_dead``: its worker died, and the final snapshot still has it as claimed.
    ``longest_s``: from when it was due to its claim, or to the end of the records.
    """
    first = _due_first(jobs)
    again = _due_again(events, jobs, _find_deaths(spark, record), record)
    due = (first if again is None else first.unionByName(again)).withColumn("slot", _slot(F.col("due_ns")))
    younger_had_ns = _first_claims_of_the_younger(jobs, due)
    judged = due.join(F.broadcast(younger_had_ns), "slot").select(
        "job_id",
        _kind(axis.last_ns).alias("kind"),
        ((F.least("claim_began_ns", F.lit(axis.last_ns)) - F.col("due_ns")) / NS_PER_S).alias("waited_s"),
    )
    return (
        judged.filter("kind IS NOT NULL")
        .groupBy("kind")
        .agg(
            F.count("*").alias("jobs"),
            F.min_by("job_id", "job_id", EXAMPLES).alias("examples"),
            F.max("waited_s").alias("longest_s"),
        )
    )


def _due_first(jobs: DataFrame) -> DataFrame:
    """Return the jobs that wait for their first claim from their enqueue on; other checks judge a job that is neither claimed nor queued."""
    waiting = F.col("enqueue_recorded") & (F.col("first_claimed_ns").isNotNull() | (F.col("state") == "queued"))
    return jobs.filter(waiting).select(
        "job_id",
        F.col("enqueued_ns").alias("due_ns"),
        F.coalesce("first_claim_began_ns", F.lit(_NEVER_NS)).alias("claim_began_ns"),
        F.lit(False).alias("is_claimed"),
        F.lit(False).alias("is_again"),
    )


def _due_again(events: DataFrame, jobs: DataFrame, deaths: DataFrame | None, record: RunRecord) -> DataFrame | None:
    """Return the jobs that the queue still held at the end, and whose last event was the claim or the work of a process that died with it.

    Such a job is due again when the process has ended, or, if the claim outlives its connection, when the claim has expired. While a fault is
    active, no job is due again. A job that has used all its attempts is never due again. None if the queue does not declare when a claim ends.
    """
    queue = record.queue
    if deaths is None or not queue.may_re_execute or queue.claims_survive_connection is None:
        return None
    if queue.claims_survive_connection and queue.expiry_s is None:
        return None
    held = jobs.filter("state IN ('queued', 'claimed')").select("job_id", "state")
    claims_and_ends = events.filter(F.col("event").isin(Event.CLAIMED, *_ENDS)).join(held, "job_id")
    last = claims_and_ends.groupBy("job_id", "state").agg(
        F.max_by(F.struct("event", "process", "t_ns"), "t_ns").alias("last"),
        F.count_if(F.col("event") == Event.CLAIMED).alias("attempts"),
    )
    if queue.attempt_limit is not None:
        last = last.filter(F.col("attempts") < queue.attempt_limit)
    abandoned = last.filter(F.col("last.event") == Event.CLAIMED).select(
        "job_id", "state", F.col("last.process").alias("process"), F.col("last.t_ns").alias("claimed_ns")
    )
    died = abandoned.join(F.broadcast(deaths), "process").filter("died_ns >= claimed_ns")
    due_ns = F.min("died_ns")
    if queue.claims_survive_connection and queue.expiry_s is not None:
        due_ns = F.greatest(due_ns, F.min("claimed_ns") + F.lit(int(queue.expiry_s * NS_PER_S)))
    for fault in sorted(record.faults, key=lambda fault: fault.start_ns or 0):
        begin_ns, end_ns = fault.start_ns, fault.verified_gone_ns or fault.end_ns
        if begin_ns is not None:
            is_in_force = (due_ns >= begin_ns) & (due_ns < (end_ns or _NEVER_NS))
            due_ns = F.when(is_in_force, F.lit(end_ns or _NEVER_NS)).otherwise(due_ns)
    return (
        died.groupBy("job_id", "state")
        .agg((due_ns + _PATIENCE_NS).alias("due_ns"))
        .select(
            "job_id",
            "due_ns",
            F.lit(_NEVER_NS).alias("claim_began_ns"),
            (F.col("state") == "claimed").alias("is_claimed"),
            F.lit(True).alias("is_again"),
        )
    )


def _find_deaths(spark: SparkSession, record: RunRecord) -> DataFrame | None:
    rows = [
        {"process": process.name, "died_ns": process.end_ns}
        for process in record.processes
        if process.exit_code not in (None, 0) and process.end_ns is not None
    ]
    return make_rows(spark, rows, _DEATHS) if rows else None


def _first_claims_of_the_younger(jobs: DataFrame, due: DataFrame) -> DataFrame:
    """Return ``slot, younger_had_ns``: for each slot of ``due``, when the first job that came in a later slot was claimed."""
    claimed = jobs.filter("enqueue_recorded AND first_claimed_ns IS NOT NULL")
    came = claimed.groupBy(_slot(F.col("enqueue_began_ns")).alias("slot")).agg(F.min("first_claimed_ns").alias("claimed_ns"))
    slots = due.select("slot").distinct().join(came, "slot", "full")
    later = Window.partitionBy().orderBy(F.desc("slot")).rowsBetween(Window.unboundedPreceding, -1)
    return slots.select("slot", F.min("claimed_ns").over(later).alias("younger_had_ns"))


def _kind(last_ns: int) -> Column:
    held = F.col("is_again") & F.col("is_claimed") & (F.col("due_ns") < last_ns)
    end_ns = F.least("claim_began_ns", F.lit(last_ns))
    passed_over = F.col("younger_had_ns") + _PATIENCE_NS <= end_ns
    return F.when(held, HELD_FOR_THE_DEAD).when(passed_over, F.when(F.col("is_again"), LEFT_BEHIND).otherwise(PASSED_OVER))


def _slot(t_ns: Column) -> Column:
    return F.floor(t_ns / _SLOT_NS)
