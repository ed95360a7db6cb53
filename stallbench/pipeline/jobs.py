"""What became of each job: by identity, never by rates."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from stallbench.pipeline.records import RunFacts
from stallbench.records.events import Event

_EXAMPLES = 20
_BAD_ENDS = (Event.FAILED, Event.EXPIRED, Event.RELEASED, Event.ERROR)


def make_jobs(events: DataFrame, census: DataFrame | None, facts: RunFacts) -> DataFrame:
    """Return a row for each job that an event or the census names.

    ``executions`` counts how often its work was done or failed. ``excuses`` counts what entitles an at-least-once queue to
    another execution: a failure, an expiry, an error, or a process that died with it. ``state``: completed; else what the census
    says; else unknown without a census; else completed_unrecorded if its work was done by a process that died, or whose
    completion raised; else lost.
    """
    died = F.col("process").isin(facts.died) if facts.died else F.lit(False)
    moves = events.where(F.col("job_id").isNotNull() & (F.col("event") != Event.LOST_RACE))
    jobs = moves.groupBy("job_id").agg(
        F.min("intended_ns").alias("intended_ns"),
        F.min(_time_of(Event.ENQUEUED)).alias("enqueued_ns"),
        F.min(_time_of(Event.CLAIMED)).alias("first_claimed_ns"),
        F.min(_time_of(Event.COMPLETED)).alias("first_completed_ns"),
        _count(_is(Event.CLAIMED)).alias("claims"),
        _count(_is(Event.WORKED) | _is(Event.FAILED)).alias("executions"),
        _count(_is(Event.COMPLETED)).alias("completions"),
        _count(_is(Event.FAILED)).alias("failures"),
        F.max_by(F.when(_is(Event.CLAIMED), F.col("process")), _time_of(Event.CLAIMED)).alias("last_process"),
        (_count(F.col("event").isin(*_BAD_ENDS)) + _count(_is(Event.CLAIMED) & died) - _count(_is(Event.COMPLETED) & died)).alias(
            "excuses"
        ),
        _count(_is(Event.WORKED) & died).alias("_worked_by_dead"),
        _count(_is(Event.WORKED)).alias("_worked"),
        _count(_is(Event.ERROR)).alias("_errors"),
    )
    if census is not None:
        jobs = jobs.join(census, "job_id", "full")
    else:
        jobs = jobs.withColumn("census_state", F.lit("unknown"))
    may_be_done = (F.col("_worked_by_dead") > 0) | ((F.col("_worked") > 0) & (F.col("_errors") > 0))
    state = (
        F.when(F.col("completions") > 0, "completed")
        .when(F.col("census_state").isNotNull(), F.col("census_state"))
        .when(may_be_done, "completed_unrecorded")
        .otherwise("lost")
    )
    counts = ["claims", "executions", "completions", "failures", "excuses"]
    return jobs.select(
        "job_id",
        "intended_ns",
        "enqueued_ns",
        "first_claimed_ns",
        "first_completed_ns",
        *[F.coalesce(F.col(name), F.lit(0)).alias(name) for name in counts],
        "last_process",
        ((F.col("first_completed_ns") - F.col("intended_ns")) / 1e6).alias("latency_ms"),
        state.alias("state"),
        F.col("enqueued_ns").isNotNull().alias("enqueue_recorded"),
    )


def make_conservation(jobs: DataFrame, events: DataFrame, facts: RunFacts) -> DataFrame:
    """Return how many jobs are in each state, with the first ids of those that somebody will want to look up."""
    unrecorded = "enqueue_unrecorded" if _may_be_unrecorded(events, facts) else "unexpected"
    entries = jobs.select(
        "job_id",
        F.explode(
            F.array(F.col("state"), F.when(F.col("enqueue_recorded"), F.lit("enqueued")).otherwise(F.lit(unrecorded)))
        ).alias("state"),
    )
    counts = entries.groupBy("state").agg(F.count("*").alias("jobs"))
    first = Window.partitionBy("state").orderBy("job_id")
    examples = (
        entries.where(~F.col("state").isin("completed", "enqueued", "queued"))
        .withColumn("n", F.row_number().over(first))
        .where(F.col("n") <= _EXAMPLES)
        .groupBy("state")
        .agg(F.sort_array(F.collect_list("job_id")).alias("examples"))
    )
    nothing = F.array().cast("array<bigint>")
    return counts.join(examples, "state", "left").withColumn("examples", F.coalesce("examples", nothing))


def make_duplicates(jobs: DataFrame, events: DataFrame, facts: RunFacts) -> DataFrame:
    """Return the jobs that were executed or completed more than once; ``excused`` if every further execution had a reason."""
    again = jobs.where((F.col("executions") > 1) | (F.col("completions") > 1))
    further = F.greatest("executions", "completions") - 1
    excused = (further <= F.col("excuses")) & F.lit(facts.promise == "at_least_once")
    processes = (
        events.where(_is(Event.CLAIMED))
        .join(again.select("job_id"), "job_id", "left_semi")
        .groupBy("job_id")
        .agg(F.concat_ws(" ", F.sort_array(F.collect_list("process"))).alias("processes"))
    )
    reason = (
        F.when(excused, "an earlier execution failed, expired, raised or died")
        .when(F.col("excuses") > 0, "executed more often than attempts ended badly")
        .otherwise("nothing had happened to the earlier execution")
    )
    return again.join(processes, "job_id", "left").select(
        "job_id", "executions", "completions", "processes", excused.alias("excused"), reason.alias("reason")
    )


def _may_be_unrecorded(events: DataFrame, facts: RunFacts) -> bool:
    """Whether a job can be in the queue without a record of its enqueueing: its producer died, or its enqueue raised."""
    if facts.producer_died() or facts.content["status"] != "completed":
        return True
    raised = events.where(_is(Event.ERROR) & F.col("intended_ns").isNotNull())
    return not raised.isEmpty()


def _is(event: Event) -> Column:
    return F.col("event") == event.value


def _time_of(event: Event) -> Column:
    return F.when(_is(event), F.col("t_ns"))


def _count(condition: Column) -> Column:
    return F.sum(F.when(condition, 1).otherwise(0)).cast(LongType())
