"""Jobs that were executed or completed more than once, and whether the queue's promise allows it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from stallbench.engines.error_kinds import LOST_CONNECTION_CODES
from stallbench.records.events import ERROR_PATTERN, Event
from stallbench.run.record import RunRecord

_DIED = "died"
_UNFINISHED = "unfinished"
_FAILURES = (Event.FAILED, Event.EXPIRED, Event.ERROR)
_ENDS = (*_FAILURES, Event.COMPLETED)
_DESCRIPTIONS = {
    Event.COMPLETED: "had completed it",
    Event.FAILED: "failed at it",
    Event.EXPIRED: "had it until the claim expired",
    Event.ERROR: "could not complete it",
    _DIED: "died with it",
}
_BROADCAST_LIMIT = 1_000_000


def events_of_duplicates(events: DataFrame, jobs: DataFrame, count: int) -> DataFrame:
    """Return the events of the jobs that were executed or completed more than once; there are ``count`` such jobs."""
    if count == 0:
        return events.filter(F.lit(False))
    duplicated = jobs.filter(is_duplicate()).select("job_id")
    return events.join(F.broadcast(duplicated) if count <= _BROADCAST_LIMIT else duplicated, "job_id", "left_semi")


def is_duplicate() -> Column:
    """Whether a row of ``jobs`` is a duplicate."""
    return (F.col("executions") > 1) | (F.col("completions") > 1)


def find_executions(events: DataFrame, record: RunRecord) -> DataFrame:
    """Return a row for each execution: ``job_id, process, asked_ns, claimed_ns, end, end_ns`` and ``lost_connection``.

    The claim's call lasted from ``asked_ns`` to ``claimed_ns``. ``end`` is the event by which its process ended the execution: ``completed``,
    ``failed``, ``expired`` or ``error`` (its completion ended with an error); without one, ``died`` if its process died, else ``unfinished``.
    ``lost_connection``: whether it ended with an error by which the client learned that its connection was gone.
    """
    of_one_process = Window.partitionBy("job_id", "process").orderBy("t_ns")
    claims_and_ends = events.filter(F.col("event").isin(Event.CLAIMED, *_ENDS)).select(
        "job_id",
        "process",
        "event",
        F.col("t_ns").alias("claimed_ns"),
        (F.col("t_ns") - F.coalesce("duration_ns", F.lit(0))).alias("asked_ns"),
        F.lead("event").over(of_one_process).alias("next"),
        F.lead("t_ns").over(of_one_process).alias("next_ns"),
        F.regexp_extract(F.coalesce(F.lead("detail").over(of_one_process), F.lit("")), ERROR_PATTERN, 1).alias("next_code"),
    )
    has_end = F.col("next").isin(list(_ENDS))
    without_end = F.when(F.col("process").isin(sorted(record.dead_processes)), _DIED).otherwise(_UNFINISHED)
    return claims_and_ends.filter(F.col("event") == Event.CLAIMED).select(
        "job_id",
        "process",
        "asked_ns",
        "claimed_ns",
        F.when(has_end, F.col("next")).otherwise(without_end).alias("end"),
        F.when(has_end, F.col("next_ns")).alias("end_ns"),
        F.coalesce((F.col("next") == Event.ERROR) & F.col("next_code").isin(sorted(LOST_CONNECTION_CODES)), F.lit(False)).alias(
            "lost_connection"
        ),
    )


def re_executions(executions: DataFrame) -> DataFrame:
    """Return those of ``executions`` that are not their job's first, with ``before_ns``: when the previous one was claimed."""
    of_one_job = Window.partitionBy("job_id").orderBy("claimed_ns", "process")
    return executions.withColumn("before_ns", F.lag("claimed_ns").over(of_one_job)).filter("before_ns IS NOT NULL")


def make_duplicates(jobs: DataFrame, executions: DataFrame, record: RunRecord) -> DataFrame:
    """Return a row for each duplicate, with whether it is excused, and how the earlier executions ended.

    A duplicate of a queue that promises *at least once* is excused if each execution but the last, in the order of claims, did not succeed: it
    failed, expired, ended with an error, or its process died during it. For a queue that promises *at most once*, none is excused.
    """
    ended = executions.withColumn("did_fail", F.col("end").isin([*_FAILURES, _DIED])).withColumn("order", _order_of_claims())
    of_one_job = Window.partitionBy("job_id").orderBy("order")
    described = ended.select(
        "job_id",
        "process",
        F.lead("order").over(of_one_job).isNotNull().alias("is_earlier"),
        "did_fail",
        F.struct("order", F.concat_ws(" ", "process", _describe_end(F.col("end"))).alias("description")).alias("story"),
    )
    judged = described.groupBy("job_id").agg(
        F.sort_array(F.collect_set("process")).alias("processes"),
        F.bool_and(~F.col("is_earlier") | F.col("did_fail")).alias("all_failed"),
        F.sort_array(F.collect_list(F.when(F.col("is_earlier"), F.col("story")))).alias("stories"),
    )
    duplicated = jobs.filter(is_duplicate()).select("job_id", "executions", "completions")
    joined = duplicated.join(judged, "job_id", "left")
    recorded = F.size("processes") > 0
    excused = F.lit(record.queue.may_re_execute) & F.col("all_failed") & (F.col("completions") < 2)
    return joined.select(
        "job_id",
        "executions",
        "completions",
        F.concat_ws(", ", "processes").alias("processes"),
        F.coalesce(excused, F.lit(False)).alias("excused"),
        F.when(recorded, F.concat_ws("; ", F.col("stories.description")))
        .otherwise("its claims are not recorded")
        .alias("reason"),
    )


def _order_of_claims() -> Column:
    """Return by what the executions of a job are ordered, where ``did_fail`` says which did not succeed.

    The server carries out a claim at any moment of its call. A client that reads the answer late records a claim after that of the worker that got
    the job when the first one's connection was lost. So an execution that ended with the loss of its connection comes before one that succeeded if
    their calls allow it. Any other end leaves the claim in force until then, so the order in which the answers came is that of the claims.
    """
    of_one_job = Window.partitionBy("job_id")
    succeeded_ns = F.max(F.when(~F.col("did_fail"), F.col("claimed_ns"))).over(of_one_job)
    may_precede = F.col("lost_connection") & (F.col("asked_ns") < succeeded_ns)
    latest_ns = F.when(may_precede, F.least("claimed_ns", succeeded_ns)).otherwise(F.col("claimed_ns"))
    return F.struct(latest_ns.alias("latest_ns"), (~F.col("did_fail")).alias("succeeded"), "claimed_ns", "process")


def second_completions(events: DataFrame) -> DataFrame:
    """Return when each job that was completed more than once was completed for the second time: ``t_ns``."""
    of_one_job = Window.partitionBy("job_id").orderBy("t_ns")
    completed = events.filter(F.col("event") == Event.COMPLETED)
    return completed.withColumn("number", F.row_number().over(of_one_job)).filter("number = 2").select("t_ns")


def _describe_end(end: Column) -> Column:
    words = F.lit("had not finished it")
    for each, said in _DESCRIPTIONS.items():
        words = F.when(end == each, said).otherwise(words)
    return words
