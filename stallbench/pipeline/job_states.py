"""The fate of each job, by its identity: what was done with it, and where it is at the end.

An *execution* begins with a claim, because a worker may start to work then. A lost race names a job but is no claim: its worker never had
the job.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.records.events import Event
from stallbench.run.record import RunRecord

_IN_FINAL_SNAPSHOT = "in_final_snapshot"
_LEFT_OVER = "left_over"


def make_jobs(
    events: DataFrame, final_snapshot: DataFrame | None, facts: RunRecord, left_over: DataFrame | None = None
) -> DataFrame:
    """Return a row for each job that an event or the final snapshot names, or that was ``left_over`` in the queue from before.

    The state of a job is the first of these that holds. ``completed``: there is a `completed` record. ``queued``, ``claimed``: the final snapshot
    found it so. ``unknown``: there was no final snapshot. ``completed_unrecorded``: its work was done and
    its completion requested, but the answer was not recorded: the worker died, or the call ended with an error. ``lost``: it is not in the
    queue and its work was not done. If a queue never rescues the jobs of dead workers, a job that the final snapshot found claimed is in no
    state of the queue: no worker is left when the snapshot is taken.
    """
    records = events.filter(F.col("job_id").isNotNull() & (F.col("event") != Event.LOST_RACE)).select(
        "job_id",
        "t_ns",
        (F.col("t_ns") - F.coalesce("duration_ns", F.lit(0))).alias("began_ns"),
        "event",
        "process",
        "intended_ns",
        F.lit(None).cast("string").alias("held"),
    )
    if final_snapshot is not None:
        records = records.unionByName(final_snapshot.withColumn("event", F.lit(_IN_FINAL_SNAPSHOT)), allowMissingColumns=True)
    if left_over is not None:
        before = left_over.select("job_id").withColumn("event", F.lit(_LEFT_OVER))
        records = records.unionByName(before, allowMissingColumns=True)
    of_jobs = records.groupBy("job_id").agg(
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
        F.max_by(F.col("process").isin(sorted(facts.dead_processes)), _when(Event.WORKED, "t_ns")).alias("last_worker_died"),
        F.max(_when(Event.ERROR, "t_ns")).alias("last_error_ns"),
        F.max_by("process", "t_ns").alias("last_process"),
        F.bool_or(F.col("held") == "queued").alias("is_queued"),
        F.bool_or(F.col("held") == "claimed").alias("is_claimed"),
        (F.lit(False) if left_over is None else F.bool_or(F.col("event") == _LEFT_OVER)).alias("left_over"),
    )
    ended = F.col("completions") + F.col("failures")
    return of_jobs.select(
        "*",
        F.greatest("claims", ended).alias("executions"),
        ((F.col("first_completed_ns") - F.col("intended_ns")) / 1e6).alias("latency_ms"),
        _state(snapshot_taken=final_snapshot is not None, rescues_jobs=facts.queue.rescues_jobs).alias("state"),
        F.col("enqueued_ns").isNotNull().alias("enqueue_recorded"),
        ((F.col("completions") > 0) & F.coalesce(F.col("is_queued") | F.col("is_claimed"), F.lit(False))).alias(
            "held_after_completion"
        ),
    )


def _when(event: Event, column: str) -> Column:
    return F.when(F.col("event") == event, F.col(column))


def _state(*, snapshot_taken: bool, rescues_jobs: bool) -> Column:
    unanswered = F.col("last_worker_died") | (F.col("last_error_ns") > F.col("worked_ns"))
    return (
        F.when(F.col("completions") > 0, "completed")
        .when(F.col("is_claimed") & rescues_jobs, "claimed")
        .when(F.col("is_queued"), "queued")
        .when(F.lit(not snapshot_taken), "unknown")
        .when(unanswered, "completed_unrecorded")
        .otherwise("lost")
    )
