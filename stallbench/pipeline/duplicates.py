"""Jobs that were executed or completed more than once, and whether the queue's promise allows it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from stallbench.engines.error_codes import codes_of
from stallbench.engines.error_kinds import ErrorKind
from stallbench.injection.faults import find_faults
from stallbench.pipeline.frames import constant
from stallbench.pipeline.time_axis import PATIENCE_S
from stallbench.records.events import ERROR_PATTERN, Event
from stallbench.records.nanoseconds import NEVER_NS, NS_PER_S
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
    """Return a row for each execution: ``job_id, process, attempt, asked_ns, claimed_ns, end, end_asked_ns`` and ``lost_connection``.

    The claim's call lasted from ``asked_ns`` to ``claimed_ns``. ``end`` is the event by which its process ended the execution: ``completed``,
    ``failed``, ``expired`` or ``error`` (its completion ended with an error); without one, ``died`` if its process died, else ``unfinished``.
    ``end_asked_ns``: when the call of that event began. ``lost_connection``: whether it ended with an error by which the client learned that its
    connection was gone.
    """
    of_one_process = Window.partitionBy("job_id", "process").orderBy("t_ns")
    asked_ns = F.col("t_ns") - F.coalesce("duration_ns", F.lit(0))
    claims_and_ends = events.filter(F.col("event").isin(Event.CLAIMED, *_ENDS)).select(
        "job_id",
        "process",
        "event",
        "attempt",
        F.col("t_ns").alias("claimed_ns"),
        asked_ns.alias("asked_ns"),
        F.lead("event").over(of_one_process).alias("next"),
        F.lead(asked_ns).over(of_one_process).alias("next_asked_ns"),
        F.regexp_extract(F.coalesce(F.lead("detail").over(of_one_process), F.lit("")), ERROR_PATTERN, 1).alias("next_code"),
    )
    has_end = F.col("next").isin(list(_ENDS))
    without_end = F.when(F.col("process").isin(sorted(record.dead_processes)), _DIED).otherwise(_UNFINISHED)
    return claims_and_ends.filter(F.col("event") == Event.CLAIMED).select(
        "job_id",
        "process",
        "attempt",
        "asked_ns",
        "claimed_ns",
        F.when(has_end, F.col("next")).otherwise(without_end).alias("end"),
        F.when(has_end, F.col("next_asked_ns")).alias("end_asked_ns"),
        F.coalesce(
            (F.col("next") == Event.ERROR) & F.col("next_code").isin(sorted(codes_of(ErrorKind.CONNECTION_LOST))), F.lit(False)
        ).alias("lost_connection"),
    )


def re_executions(executions: DataFrame) -> DataFrame:
    """Return those of ``executions`` that are not their job's first, with ``before_ns``: when the previous one was claimed."""
    of_one_job = Window.partitionBy("job_id").orderBy("claimed_ns", "process")
    return executions.withColumn("before_ns", F.lag("claimed_ns").over(of_one_job)).filter("before_ns IS NOT NULL")


def make_duplicates(
    jobs: DataFrame, executions: DataFrame, record: RunRecord, last_recorded_ns: Mapping[str, int] = MappingProxyType({})
) -> DataFrame:
    """Return a row for each duplicate, with whether it is excused, how the earlier executions ended, and the attempts that the queue counted.

    A duplicate of a queue that promises *at least once* is excused if each execution but the last, in the order of claims, did not succeed: it
    failed, expired, ended with an error, or its process died during it; and if the next one was claimed only when the queue could know that
    (`_find_free`). For a queue that promises *at most once*, none is excused. ``last_recorded_ns``: time of each process's last record, before which
    it did not die. ``attempts_ascend``: `_counts_up` of all executions but the first; null if the queue counts none.
    """
    free_ns = _find_free(record, last_recorded_ns)
    of_one_job = Window.partitionBy("job_id").orderBy("order")
    ended = (
        executions.withColumn("did_fail", F.col("end").isin([*_FAILURES, _DIED]))
        .withColumn("order", _order_of_claims())
        .withColumn("next", F.lead("order").over(of_one_job))
        .withColumn("previous", F.lag(F.struct("attempt", "end")).over(of_one_job))
        .withColumn("next_ns", F.col("next.claimed_ns"))
        .withColumn("is_early", F.col("did_fail") & (F.col("next_ns") < free_ns) & ~_may_be_taken_back(record))
    )
    described = ended.select(
        "job_id",
        "process",
        "attempt",
        "order",
        F.col("next").isNotNull().alias("is_earlier"),
        (F.col("did_fail") & ~F.coalesce("is_early", F.lit(False))).alias("had_to_be_repeated"),
        _counts_up(record).alias("counts_up"),
        F.struct("order", _describe(record).alias("description")).alias("story"),
    )
    judged = described.groupBy("job_id").agg(
        F.sort_array(F.collect_set("process")).alias("processes"),
        F.bool_and(~F.col("is_earlier") | F.col("had_to_be_repeated")).alias("all_failed"),
        F.sort_array(F.collect_list(F.when(F.col("is_earlier"), F.col("story")))).alias("stories"),
        F.sort_array(F.collect_list(F.when(F.col("attempt").isNotNull(), F.struct("order", "attempt")))).alias("counted"),
        F.bool_and("counts_up").alias("attempts_ascend"),
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
        F.concat_ws(", ", F.col("counted.attempt").cast("array<string>")).alias("attempts"),
        "attempts_ascend",
    )


def _find_free(record: RunRecord, last_recorded_ns: Mapping[str, int]) -> Column:
    """Return from when on the queue may give the job of an execution that did not succeed to another worker.

    A failure, and a completion that ends with an error, release it when they are called. A death does when the process has made its last record. A
    claim that outlives its connection expires at its declared age; up to `PATIENCE_S` earlier, since some queues count whole seconds. If a claim ends
    with its connection, a lost connection releases the job before its client learns it, so that nothing but a failure has a time.
    Of a library it is known when its claims have expired at the latest, and not how early; and what a worker is given out of a batch was claimed
    before its record. Then there is no time.
    """
    queue = record.queue
    if queue.library is not None or queue.claims_in_batches:
        return F.lit(0)
    ends_by_call = F.col("end").isin(Event.FAILED, Event.ERROR)
    if not queue.claims_survive_connection:
        return F.when(ends_by_call & ~F.col("lost_connection"), F.col("end_asked_ns")).otherwise(F.lit(0))
    known = {name: t_ns for name, t_ns in last_recorded_ns.items() if name in record.dead_processes}
    died_ns = F.coalesce(constant(known, "map<string,long>")[F.col("process")], F.lit(0))
    expired_ns = 0 if queue.expiry_s is None else F.col("asked_ns") + int((queue.expiry_s - PATIENCE_S) * NS_PER_S)
    ended_ns = F.when(ends_by_call, F.col("end_asked_ns")).when(F.col("end") == _DIED, died_ns)
    return F.least(F.coalesce(ended_ns, F.lit(NEVER_NS)), F.lit(expired_ns))


def _may_be_taken_back(record: RunRecord) -> Column:
    """Whether a fault that ends claims (`Fault.may_end_claims`) was active between the claim of an execution and the next one's."""
    kinds = find_faults()
    active = [
        {"from_ns": fault.start_ns, "to_ns": fault.verified_gone_ns or fault.end_ns or NEVER_NS}
        for fault in record.faults
        if fault.start_ns is not None and fault.kind in kinds and kinds[fault.kind].may_end_claims
    ]
    if not active:
        return F.lit(False)
    return F.exists(
        constant(active, "array<struct<from_ns:long,to_ns:long>>"),
        lambda fault: (fault["from_ns"] <= F.col("next_ns")) & (fault["to_ns"] >= F.col("asked_ns")),
    )


def _counts_up(record: RunRecord) -> Column:
    """Whether an execution has a higher attempt than the one before; null for a first one, and if one of the two has no attempt.

    A claim that ends with its connection is not counted if its transaction is rolled back: then the number must not become smaller, and must grow
    only after a failure. The same is required of a library, whose own rules decide what it counts. What a worker is given out of a batch is recorded
    later than it was claimed, so that nothing is known of its place.
    """
    queue = record.queue
    if queue.claims_in_batches:
        return F.lit(None).cast("boolean")
    before, counted = F.col("previous.attempt"), F.col("attempt")
    after_failure = F.col("previous.end") == Event.FAILED
    if queue.library is not None:
        return F.when(after_failure, counted > before)
    must_grow = F.lit(True) if queue.claims_survive_connection else after_failure
    return F.when(must_grow & ~_may_be_taken_back(record), counted > before).otherwise(counted >= before)


def _describe(record: RunRecord) -> Column:
    """Return how an execution ended, and if it was before the queue could know it, when the next one was claimed."""
    after_s = F.round((F.col("next_ns") - F.col("asked_ns")) / NS_PER_S, 3)
    lasts = (
        f" s after it was made; it lasts {record.queue.expiry_s:g} s"
        if record.queue.expiry_s is not None
        else " s after it was made"
    )
    too_early = F.when(F.col("end") == Event.EXPIRED, F.concat(F.lit(", "), after_s.cast("string"), F.lit(lasts))).otherwise(
        F.lit(" only after another worker had been given it")
    )
    ended = F.concat_ws(" ", "process", _describe_end(F.col("end")))
    return F.when(F.col("is_early"), F.concat(ended, too_early)).otherwise(ended)


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
