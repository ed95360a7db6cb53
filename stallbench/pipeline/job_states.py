"""The state of each job, by its id: which operations were recorded, and where the job is at the end.

An *execution* begins with a claim, because from then on the worker may execute the job. A lost race names a job but is not a claim: its worker
never had the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.injection.faults.crash_point import CrashAtPoint
from stallbench.pipeline.conservation import decide_state
from stallbench.pipeline.frames import constant
from stallbench.pipeline.read import Records, is_event, is_failed_enqueue
from stallbench.queues.crash_points import CrashPoint
from stallbench.records.events import Event
from stallbench.records.final_snapshot import CLAIMED, QUEUED
from stallbench.records.injections import JOBS, KILLED
from stallbench.run.record import RunRecord

_LEFT_OVER = "left_over"


def make_jobs(records: Records, record: RunRecord) -> DataFrame:
    """Return a row for each job that an event or the final snapshot names, or that was in the queue before the run.

    There is none for a job that only the error of its enqueue names: it is not in the queue, and no worker had it. The column ``state`` is what
    `stallbench.pipeline.conservation.decide_state` decides.
    """
    of_jobs = (
        _gather(records, record)
        .groupBy("job_id")
        .agg(
            F.min(_when(Event.ENQUEUED, "intended_ns")).alias("intended_ns"),
            F.min(_when(Event.ENQUEUED, "began_ns")).alias("enqueue_began_ns"),
            F.min(_when(Event.ENQUEUED, "t_ns")).alias("enqueued_ns"),
            F.min(_when(Event.CLAIMED, "began_ns")).alias("first_claim_began_ns"),
            F.min(_when(Event.CLAIMED, "t_ns")).alias("first_claimed_ns"),
            F.min(_when(Event.COMPLETED, "t_ns")).alias("first_completed_ns"),
            F.count(_when(Event.CLAIMED, "t_ns")).alias("claims"),
            F.count(_when(Event.COMPLETED, "t_ns")).alias("completions"),
            F.count(_when(Event.FAILED, "t_ns")).alias("failures"),
            F.max(_when(Event.WORKED, "t_ns")).alias("worked_ns"),
            F.max_by(F.col("process_died") & ~F.col("unsent"), _when(Event.WORKED, "t_ns")).alias("last_worker_died"),
            F.max_by("unsent", _when(Event.WORKED, "t_ns")).alias("last_unsent"),
            F.max(F.when(is_event(Event.ERROR) & ~is_failed_enqueue(), F.col("t_ns"))).alias("last_error_ns"),
            F.coalesce(F.bool_or(is_failed_enqueue()), F.lit(False)).alias("enqueue_failed"),
            # Spark aggregates numbers by hashing; to aggregate a text, it sorts all rows.
            F.max_by("process_id", "t_ns").alias("last_process_id"),
            F.bool_or(F.col("held") == QUEUED).alias("is_queued"),
            F.bool_or(F.col("held") == CLAIMED).alias("is_claimed"),
            F.coalesce(F.bool_or(F.col("held") == _LEFT_OVER), F.lit(False)).alias("left_over"),
        )
    )
    recorded_ns = ("enqueued_ns", "first_claimed_ns", "worked_ns", "first_completed_ns", "last_error_ns")
    is_known = F.coalesce(*recorded_ns).isNotNull() | (F.col("failures") > 0) | F.coalesce("is_queued", "is_claimed").isNotNull()
    ended = F.col("completions") + F.col("failures")
    state = decide_state(
        snapshot_taken=records.final_snapshot is not None,
        rescues_jobs=record.queue.rescues_jobs,
        records_errors=record.queue.library is None,
    )
    return of_jobs.filter(is_known | ~F.col("enqueue_failed")).select(
        "*",
        F.greatest("claims", ended).alias("executions"),
        ((F.col("first_completed_ns") - F.col("intended_ns")) / 1e6).alias("latency_ms"),
        state.alias("state"),
        F.col("enqueued_ns").isNotNull().alias("enqueue_recorded"),
        ((F.col("completions") > 0) & F.coalesce(F.col("is_queued") | F.col("is_claimed"), F.lit(False))).alias(
            "held_after_completion"
        ),
        _find_name(F.col("last_process_id"), records.process_ids).alias("last_process"),
    )


def _gather(records: Records, record: RunRecord) -> DataFrame:
    """Return what is known about the jobs: ``job_id``, the columns of an event, and ``held``, the state in a snapshot."""
    died = [process_id for name, process_id in records.process_ids.items() if name in record.dead_processes]
    of_jobs = F.col("job_id").isNotNull() & ~is_event(Event.LOST_RACE) & ~is_event(Event.FIRED)
    events = records.events.filter(of_jobs).select(
        "job_id",
        "t_ns",
        (F.col("t_ns") - F.coalesce("duration_ns", F.lit(0))).alias("began_ns"),
        "event_id",
        "process_id",
        (F.col("process_id").isin(died) if died else F.lit(False)).alias("process_died"),
        _is_unsent(record).alias("unsent"),
        "intended_ns",
        F.lit(None).cast("string").alias("held"),
    )
    parts = [events]
    if records.final_snapshot is not None and records.snapshot_jobs:
        parts.append(records.final_snapshot)
    if records.left_over is not None:
        parts.append(records.left_over.withColumn("held", F.lit(_LEFT_OVER)))
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)


def _is_unsent(record: RunRecord) -> Column:
    """Whether an event is the work of a job whose worker was killed before it sent the completion, as a fault at that point has recorded."""
    killed = [
        {"process": process, "job_id": job_id}
        for fault in record.faults
        if fault.kind == CrashAtPoint.kind and fault.options.get("at") == CrashPoint.BEFORE_COMPLETION
        for process, job_id in zip(fault.evidence.get(KILLED, ()), fault.evidence.get(JOBS, ()), strict=False)
        if job_id is not None
    ]
    if not killed:
        return F.lit(False)
    is_one = F.exists(
        constant(killed, "array<struct<process:string,job_id:long>>"),
        lambda one: (one["process"] == F.col("process")) & (one["job_id"] == F.col("job_id")),
    )
    return is_event(Event.WORKED) & is_one


def _find_name(process_id: Column, ids: Mapping[str, Column]) -> Column:
    """Return the name of a process by its id."""
    if not ids:
        return F.lit(None).cast("string")
    return F.create_map(*(part for name, known in ids.items() for part in (known.cast("long"), F.lit(name))))[process_id]


def _when(event: Event, column: str) -> Column:
    return F.when(is_event(event), F.col(column))
