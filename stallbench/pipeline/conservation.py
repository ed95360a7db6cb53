"""Is every job accounted for? Decides the state of each job, which may be lost, and counts jobs by their state and by their origin.

Jobs are identified by id; rates are not used.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.pipeline.phases import as_phase_rows
from stallbench.pipeline.tables import EXAMPLES

_FATE = ("state", "enqueue_recorded", "enqueue_failed", "left_over", "held_after_completion")


def decide_state(*, snapshot_taken: bool, rescues_jobs: bool, records_errors: bool) -> Column:
    """Return the state of each job in the rows of `stallbench.pipeline.job_states`: is it completed, still in the queue, or lost?

    It is the first of these that applies. ``completed``: there is a `completed` record. ``queued``, ``claimed``: the final snapshot has it in this
    state. ``unknown``: there is no final snapshot. ``completed_unrecorded``: its work was done and its completion may have been sent, but the answer
    was not recorded, because the worker died or the call ended with an error. A library's workers do not record errors of their own calls, so for a
    library it is enough that the work was done and did not fail. A worker that died at a point before it sent the completion (``last_unsent``)
    excuses nothing. ``lost``: it is not in the queue, and no completion can have removed it. If a queue never rescues the jobs of dead workers, the
    state ``claimed`` is skipped: no worker is left when the snapshot is taken.
    """
    unanswered = F.col("last_worker_died") | (F.col("last_error_ns") > F.col("worked_ns"))
    if not records_errors:
        unanswered |= F.col("worked_ns").isNotNull() & (F.col("failures") == 0) & ~F.coalesce("last_unsent", F.lit(False))
    return (
        F.when(F.col("completions") > 0, "completed")
        .when(F.col("is_claimed") & rescues_jobs, "claimed")
        .when(F.col("is_queued"), "queued")
        .when(F.lit(not snapshot_taken), "unknown")
        .when(unanswered, "completed_unrecorded")
        .otherwise("lost")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrecorded:
    """The jobs that nobody recorded as enqueued: how many a gap of the records explains and how many none does (`explain_unrecorded` of
    `stallbench.pipeline.unrecorded_enqueues`), each with the lowest `EXAMPLES` of their ids.
    """

    explained: int = 0
    explained_examples: tuple[int, ...] = ()
    unexpected: int = 0
    unexpected_examples: tuple[int, ...] = ()


def is_unrecorded() -> Column:
    """Whether a row of ``jobs`` was neither recorded as enqueued, nor named by a failed enqueue, nor in the queue before the run."""
    return ~F.col("enqueue_recorded") & ~F.col("enqueue_failed") & ~F.col("left_over")


def count_unrecorded(fates: pd.DataFrame) -> int:
    """Return how many jobs of `count_fates` are `is_unrecorded`."""
    named = fates["enqueue_recorded"].astype(bool) | fates["enqueue_failed"].astype(bool) | fates["left_over"].astype(bool)
    return int(fates.loc[~named, "jobs"].sum())


def count_fates(jobs: DataFrame) -> pd.DataFrame:
    """Return how many jobs have each combination of what decides their rows in ``conservation``, with the lowest `EXAMPLES` of their ids."""
    fates = jobs.groupBy(*_FATE).agg(F.count("job_id").alias("jobs"), F.min_by("job_id", "job_id", EXAMPLES).alias("examples"))
    return pd.DataFrame([row.asDict() for row in fates.collect()], columns=[*_FATE, "jobs", "examples"])


def make_conservation(fates: pd.DataFrame, *, unrecorded: Unrecorded, refused: int = 0) -> pd.DataFrame:
    """Return a row for each state and each origin that jobs have, with the lowest `EXAMPLES` of their ids, from `count_fates`.

    A job has one state (see `decide_state`) and one origin. The origin is ``enqueued`` if a producer recorded it. Otherwise
    it is ``left_over`` if the job was in the queue before the run, ``enqueue_unrecorded`` if the error of an enqueue names it or a call may have
    stored it without a record, else ``unexpected``: ``unrecorded`` has the numbers of these two.
    Two more rows are neither state nor origin. ``held_after_completion``: the queue confirmed the completion and still held the job at the
    end. ``refused``: a full queue refused the job, or its producer had no connection; it has no id, and so no example.
    """
    jobs: Counter[str] = Counter()
    examples: defaultdict[str, list[int]] = defaultdict(list)
    for fate in fates.to_dict("records"):
        origin = "enqueued" if fate["enqueue_recorded"] else "left_over" if fate["left_over"] else None
        if fate["enqueue_failed"] and origin is None:
            origin = "enqueue_unrecorded"
        for row in (fate["state"], origin, *(["held_after_completion"] if fate["held_after_completion"] else [])):
            if row is not None:
                jobs[row] += fate["jobs"]
                examples[row] += fate["examples"]
    for row, count, ids in (
        ("enqueue_unrecorded", unrecorded.explained, unrecorded.explained_examples),
        ("unexpected", unrecorded.unexpected, unrecorded.unexpected_examples),
    ):
        if count:
            jobs[row] += count
            examples[row] += ids
    if refused:
        jobs["refused"] = refused
    rows = [(state, count, sorted(examples[state])[:EXAMPLES]) for state, count in jobs.items()]
    return pd.DataFrame(rows, columns=["state", "jobs", "examples"])


def make_lost_metric(conservation: pd.DataFrame) -> pd.DataFrame:
    """Return the number of lost jobs, as a row of ``phases`` for the whole run; none if the state of some jobs is unknown."""
    jobs = dict(zip(conservation["state"], conservation["jobs"], strict=True))
    lost = jobs.get("lost", 0)
    return as_phase_rows("lost", {"count": lost} if jobs and "unknown" not in jobs else {}, lost)
