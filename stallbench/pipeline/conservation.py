"""Is every job accounted for? Jobs by their state, by identity and never by rates, and by how they came into the queue."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stallbench.pipeline.frames import as_phase_rows, make_rows
from stallbench.pipeline.read import EVENTS, Records
from stallbench.pipeline.tables import TABLES
from stallbench.records.events import Event
from stallbench.run.record import RunRecord

EXAMPLES = 20
_FATE = ("state", "enqueue_recorded", "left_over", "held_after_completion")


def may_have_missed_enqueues(records: Records, record: RunRecord) -> bool:
    """Whether a producer may have enqueued a job without having recorded it: it died, a call of it failed with an error, or a line of its log is torn."""
    producers = {process.name for process in record.processes_of("producer")}
    logs = {f"{EVENTS.kind}/{name}.csv" for name in producers}
    return bool(producers & record.dead_processes) or any(
        file.torn_lines or file.counts[Event.ERROR] for file in records.files if file.name in logs
    )


def make_conservation(jobs: DataFrame, *, may_miss_enqueues: bool, refused: int = 0) -> DataFrame:
    """Return a row for each state and each origin that jobs have, with the lowest `EXAMPLES` of their ids.

    A job is of one state (see `stallbench.pipeline.job_states.make_jobs`) and of one origin: ``enqueued``, by a producer's record; without one,
    ``left_over`` if it was in the queue before the run, ``enqueue_unrecorded`` if a producer may have enqueued it without being able to
    record it, otherwise ``unexpected``.
    Beside both, ``held_after_completion``: the queue had confirmed its completion and still held it at the end. Those that were ``refused``
    have a row too; they have no id, and so no example, no state and no origin.
    """
    # Jobs are counted once, by everything that decides; the few rows that this gives are then counted for each state.
    fates = jobs.groupBy(*_FATE).agg(F.count("job_id").alias("jobs"), F.min_by("job_id", "job_id", EXAMPLES).alias("examples"))
    without_record = "enqueue_unrecorded" if may_miss_enqueues else "unexpected"
    origin = F.when(F.col("enqueue_recorded"), "enqueued").when(F.col("left_over"), "left_over").otherwise(without_record)
    held = F.when(F.col("held_after_completion"), F.lit("held_after_completion"))
    accounted = (
        fates.select("jobs", "examples", F.explode(F.array_compact(F.array(F.col("state"), origin, held))).alias("state"))
        .groupBy("state")
        .agg(
            F.sum("jobs").alias("jobs"),
            F.slice(F.array_sort(F.flatten(F.collect_list("examples"))), 1, EXAMPLES).alias("examples"),
        )
    )
    if not refused:
        return accounted
    row = {"state": "refused", "jobs": refused, "examples": []}
    return accounted.unionByName(make_rows(jobs.sparkSession, [row], TABLES["conservation"]))


def make_lost_metric(conservation: DataFrame) -> DataFrame:
    """Return how many jobs are lost, as a row of ``phases``, of the whole run; none if it is not known of some what became of them."""
    figures = conservation.agg(
        F.coalesce(F.sum(F.when(F.col("state") == "lost", F.col("jobs"))), F.lit(0)).alias("count"),
        F.count_if(F.col("state") == "unknown").alias("unknown"),
        F.count("*").alias("states"),
    )
    return as_phase_rows(figures.filter("unknown = 0 AND states > 0"), "lost", ("count",))
