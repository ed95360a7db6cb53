"""Is every job accounted for? Decides the state of each job, which may be lost, and counts jobs by their state and by their origin.

Jobs are identified by id; rates are not used.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.pipeline.phases import as_phase_rows
from stallbench.pipeline.read import Records, is_event
from stallbench.records.events import ENQUEUE, ERROR_PATTERN, Event
from stallbench.records.layouts import EVENTS
from stallbench.run.record import RunRecord

EXAMPLES = 20
"""Of job ids, in each row of a table of findings."""
_FATE = ("state", "enqueue_recorded", "enqueue_failed", "left_over", "held_after_completion")


def decide_state(*, snapshot_taken: bool, rescues_jobs: bool, records_errors: bool) -> Column:
    """Return the state of each job in the rows of `stallbench.pipeline.job_states`: is it completed, still in the queue, or lost?

    It is the first of these that applies. ``completed``: there is a `completed` record. ``queued``, ``claimed``: the final
    snapshot has it in this state. ``unknown``: there is no final snapshot. ``completed_unrecorded``: its work was done and its completion
    requested, but the answer was not recorded, because the worker died or the call ended with an error. A library's workers do not record
    errors of their own calls, so for a library it is enough that the work was done and did not fail. ``lost``: it is not in the queue, and its
    work was not done. If a queue never rescues the jobs of dead workers, the state ``claimed`` is skipped: no worker is left when the snapshot
    is taken.
    """
    unanswered = F.col("last_worker_died") | (F.col("last_error_ns") > F.col("worked_ns"))
    if not records_errors:
        unanswered |= F.col("worked_ns").isNotNull() & (F.col("failures") == 0)
    return (
        F.when(F.col("completions") > 0, "completed")
        .when(F.col("is_claimed") & rescues_jobs, "claimed")
        .when(F.col("is_queued"), "queued")
        .when(F.lit(not snapshot_taken), "unknown")
        .when(unanswered, "completed_unrecorded")
        .otherwise("lost")
    )


def may_have_missed_enqueues(records: Records, record: RunRecord) -> bool:
    """Whether a producer may have enqueued any job without recording its id: it died, its log has a torn line, or an enqueue ended in an error.

    The error of an enqueue whose jobs had ids before it, as those of a library, names them (`enqueue_failed` of ``jobs``). It excuses no other.
    """
    producers = {process.name for process in record.processes_of("producer")}
    logs = {f"{EVENTS.kind}/{name}.csv" for name in producers}
    files = [file for file in records.files if file.name in logs]
    if producers & record.dead_processes or any(file.torn_lines for file in files):
        return True
    if not any(file.counts[Event.ERROR] for file in files):
        return False
    operation = F.regexp_extract(F.coalesce("detail", F.lit("")), ERROR_PATTERN, 2)
    without_id = is_event(Event.ERROR) & F.col("job_id").isNull() & (operation == ENQUEUE)
    return not records.events.filter(without_id & F.col("process").isin(sorted(producers))).isEmpty()


def count_fates(jobs: DataFrame) -> pd.DataFrame:
    """Return how many jobs have each combination of what decides their rows in ``conservation``, with the lowest `EXAMPLES` of their ids."""
    fates = jobs.groupBy(*_FATE).agg(F.count("job_id").alias("jobs"), F.min_by("job_id", "job_id", EXAMPLES).alias("examples"))
    return pd.DataFrame([row.asDict() for row in fates.collect()], columns=[*_FATE, "jobs", "examples"])


def make_conservation(fates: pd.DataFrame, *, may_miss_enqueues: bool, refused: int = 0) -> pd.DataFrame:
    """Return a row for each state and each origin that jobs have, with the lowest `EXAMPLES` of their ids, from `count_fates`.

    A job has one state (see `decide_state`) and one origin. The origin is ``enqueued`` if a producer recorded it. Otherwise
    it is ``left_over`` if the job was in the queue before the run, ``enqueue_unrecorded`` if the error of an enqueue names it or
    ``may_miss_enqueues`` says that any job may have been enqueued without a record, else ``unexpected``.
    Two more rows are neither state nor origin. ``held_after_completion``: the queue confirmed the completion and still held the job at the
    end. ``refused``: a full queue refused the job, or its producer had no connection; it has no id, and so no example.
    """
    jobs: Counter[str] = Counter()
    examples: defaultdict[str, list[int]] = defaultdict(list)
    for fate in fates.to_dict("records"):
        if fate["enqueue_recorded"]:
            origin = "enqueued"
        elif fate["left_over"]:
            origin = "left_over"
        else:
            origin = "enqueue_unrecorded" if fate["enqueue_failed"] or may_miss_enqueues else "unexpected"
        for row in (fate["state"], origin, *(["held_after_completion"] if fate["held_after_completion"] else [])):
            jobs[row] += fate["jobs"]
            examples[row] += fate["examples"]
    if refused:
        jobs["refused"] = refused
    rows = [(state, count, sorted(examples[state])[:EXAMPLES]) for state, count in jobs.items()]
    return pd.DataFrame(rows, columns=["state", "jobs", "examples"])


def make_lost_metric(conservation: pd.DataFrame) -> pd.DataFrame:
    """Return the number of lost jobs, as a row of ``phases`` for the whole run; none if the state of some jobs is unknown."""
    jobs = dict(zip(conservation["state"], conservation["jobs"], strict=True))
    lost = jobs.get("lost", 0)
    return as_phase_rows("lost", {"count": lost} if jobs and "unknown" not in jobs else {}, lost)
