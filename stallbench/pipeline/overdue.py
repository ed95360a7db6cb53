"""Jobs that waited although it was their turn, and what became of the jobs that workers had when they died.

Whether it was a job's turn follows only from other jobs. Job K was preferred to job J if the enqueue of K had not begun when J was due, and K
had been claimed for `PATIENCE_S` when J's claim began. Times are compared in slots, each of which has one value, the earliest claim among the jobs
that were enqueued in it. The slots also show in which of them no job was passed over; Spark looks only at the jobs of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from stallbench.pipeline.frames import constant, make_rows
from stallbench.pipeline.jobs_by_time import JobsByTime, is_due_first, slot_of
from stallbench.pipeline.read import is_failed_enqueue
from stallbench.pipeline.tables import EXAMPLES
from stallbench.pipeline.time_axis import PATIENCE_S, TimeAxis
from stallbench.records.events import Event
from stallbench.records.injections import InjectionRecord
from stallbench.records.nanoseconds import NEVER_NS, NS_PER_S
from stallbench.run.record import RunRecord

PASSED_OVER, LEFT_BEHIND, HELD_FOR_THE_DEAD = "passed_over", "left_behind", "held_for_the_dead"
OFFERED_AGAIN, AVAILABLE_AGAIN, NOT_YET_DUE = "offered_again", "available_again", "not_yet_due"
OUT_OF_ATTEMPTS = "out_of_attempts"
NEVER_CLAIMED, LEFT_WHILE_IDLE, WAITED_WHILE_BUSY = "never_claimed", "left_while_idle", "waited_while_busy"
IDLE_S = 3.0
"""So long before the end of the load a job was ready and no other one that had waited so long was claimed, if its workers have starved it."""
_POLLS = 3
"""Or so many pauses of a worker that found no job, if these are longer."""
_IDLE_SHARE = 0.5
"""The workers of a library, whose empty claims are not recorded, are idle if their jobs took less than this share of the time."""
_SLOT_NS = NS_PER_S // 10
_PATIENCE_NS = int(PATIENCE_S * NS_PER_S)
_ENDS = (Event.COMPLETED, Event.FAILED, Event.EXPIRED, Event.ERROR)
_DEATHS = "process string, died_ns long"


def make_overdue(
    by_time: JobsByTime,
    events: DataFrame,
    jobs: DataFrame,
    record: RunRecord,
    axis: TimeAxis,
    preconditions: DataFrame | None = None,
) -> list[dict[str, Any]]:
    """Return ``kind, jobs, examples, longest_s``: a row for each kind that there is, with the `EXAMPLES` lowest ids.

    ``passed_over``: it had not been claimed yet, and younger ones were. ``longest_s``: from when it was due to its claim, or to the end of the
    records. ``never_claimed``: it was ready for `find_idle_s` before the load ended, and was not claimed although workers were idle then
    (`_were_idle`); ``waited_while_busy``: the same, but they were not idle. A job that had to wait for something (``preconditions``) is neither. The
    other kinds are of jobs that a process had claimed when it died. ``offered_again``: it was claimed again; ``longest_s`` counts from the death to
    that claim. ``available_again``: it was available at the end. ``left_behind``: so it was, but the queue offered younger ones until the end.
    ``left_while_idle``: so it was, and workers were idle as for ``never_claimed``. ``held_for_the_dead``: it was due again, and the final snapshot
    still has it as claimed. ``not_yet_due``: the same, but it was due only after the end of the records. ``out_of_attempts``: the queue still held
    it, and it had used all its attempts. ``longest_s`` of these counts from when the job was due again, or, if it was not, from the death.
    """
    deaths, ready_by_ns = _find_deaths(jobs.sparkSession, record), _find_ready_by(record)
    younger_had_ns = _first_claims_of_the_younger(by_time)
    parts = []
    passed_ns = younger_had_ns(by_time.turn.index)
    passed_ns = passed_ns[(passed_ns + _PATIENCE_NS <= by_time.turn).fillna(value=False)]
    if len(passed_ns):
        parts.append(_judge(_due_first(jobs), passed_ns, axis, None))
    if deaths is not None and (again := _due_again(events, jobs, deaths, record)) is not None:
        slots = again.select(slot_of(F.col("due_ns")).alias("slot")).distinct().toPandas()["slot"]
        parts.append(_judge(again, younger_had_ns(pd.Index(slots)), axis, ready_by_ns))
    if deaths is not None and record.queue.may_re_execute:
        parts.append(_offered_again(events, deaths))
    if ready_by_ns is not None and _have_waited(by_time, axis, ready_by_ns):
        parts.append(_never_claimed(jobs, preconditions, axis, ready_by_ns))
    if not parts:
        return []
    found = (
        reduce(DataFrame.unionByName, parts)
        .filter("kind IS NOT NULL")
        .groupBy("kind")
        .agg(
            F.count("*").alias("jobs"),
            F.min_by("job_id", "job_id", EXAMPLES).alias("examples"),
            F.max("waited_s").alias("longest_s"),
        )
    )
    rows = {row["kind"]: row.asDict() for row in found.collect()}
    if (
        ready_by_ns is not None
        and rows.keys() & {NEVER_CLAIMED, LEFT_WHILE_IDLE}
        and not _were_idle(events, jobs, record, ready_by_ns)
    ):
        _rename(rows, NEVER_CLAIMED, WAITED_WHILE_BUSY)
        _rename(rows, LEFT_WHILE_IDLE, AVAILABLE_AGAIN)
    return list(rows.values())


def find_idle_s(record: RunRecord) -> float:
    """Return for how long a job must have been ready at the end of the load to show that idle workers do not claim it."""
    workers, library = record.scenario.workers, record.queue.library
    polls_s = [workers.poll_s, workers.max_poll_s or 0.0]
    if library is not None:
        polls_s = [float(value) for name in ("poll_interval",) if isinstance(value := library.settings.get(name), int | float)]
    return max(IDLE_S, _POLLS * max(polls_s, default=0.0), workers.work_s)


def _find_ready_by(record: RunRecord) -> int | None:
    """Return until when a job must have been ready to be judged at the end of the load; none if that end was not recorded, or if a fault or longrunner was
    active after that, which may be why it was not claimed.
    """
    phases = record.started_phases
    if not phases or phases[-1].end_ns is None:
        return None
    ready_by_ns = phases[-1].end_ns - int(find_idle_s(record) * NS_PER_S)
    active = _list_in_order([*record.faults, *record.longrunners])
    return None if any(one["begin_ns"] < phases[-1].end_ns and one["end_ns"] > ready_by_ns for one in active) else ready_by_ns


def _have_waited(by_time: JobsByTime, axis: TimeAxis, ready_by_ns: int) -> bool:
    """Whether a job that was enqueued by then may never have been claimed, as far as the slots show it: most runs have none, and need no query."""
    early = by_time.turn[by_time.turn.index <= ready_by_ns // _SLOT_NS]
    return bool((early >= axis.last_ns).any())


def _never_claimed(jobs: DataFrame, preconditions: DataFrame | None, axis: TimeAxis, ready_by_ns: int) -> DataFrame:
    """Return ``job_id, kind, waited_s`` of the jobs that had been ready by then and were never claimed."""
    waiting = jobs.filter(is_due_first() & F.col("first_claimed_ns").isNull() & (F.col("enqueued_ns") <= ready_by_ns))
    if preconditions is not None:
        waiting = waiting.join(
            preconditions.filter("kind IN ('fifo', 'due', 'after', 'alone')").select("job_id"), "job_id", "left_anti"
        )
    return waiting.select(
        "job_id",
        F.lit(NEVER_CLAIMED).alias("kind"),
        ((F.lit(axis.last_ns) - F.col("enqueued_ns")) / NS_PER_S).alias("waited_s"),
    )


def _were_idle(events: DataFrame, jobs: DataFrame, record: RunRecord, ready_by_ns: int) -> bool:
    """Whether workers were idle from then to the end of the load: none claimed a job that had waited so long, so that they did not work a backlog off,
    and one of them asked for a job and was given none. Of a library that is not recorded: instead, its jobs took less than `_IDLE_SHARE` of the time.
    """
    idle_s = find_idle_s(record)
    end_ns = ready_by_ns + int(idle_s * NS_PER_S)
    is_late = (F.col("t_ns") > ready_by_ns) & (F.col("t_ns") <= end_ns)
    late = events.filter(is_late & F.col("event").isin(Event.EMPTY, Event.WORKED)).groupBy("event").count().collect()
    counted = {row["event"]: row["count"] for row in late}
    workers = record.scenario.workers
    if record.queue.library is None:
        is_idle = counted.get(Event.EMPTY, 0) > 0
    else:
        is_idle = counted.get(Event.WORKED, 0) * workers.work_s < _IDLE_SHARE * workers.count * idle_s
    if not is_idle:
        return False
    waited_ns = F.col("first_claimed_ns") - F.col("enqueued_ns")
    of_the_old = (F.col("first_claimed_ns") > ready_by_ns) & (waited_ns >= int(idle_s * NS_PER_S))
    return jobs.filter(of_the_old).isEmpty()


def _rename(rows: dict[str, dict[str, Any]], kind: str, other: str) -> None:
    """Count the jobs of one kind as jobs of another."""
    row = rows.pop(kind, None)
    if row is None:
        return
    known = rows.get(other, {"jobs": 0, "examples": [], "longest_s": 0.0})
    rows[other] = {
        "kind": other,
        "jobs": known["jobs"] + row["jobs"],
        "examples": sorted([*known["examples"], *row["examples"]])[:EXAMPLES],
        "longest_s": max(known["longest_s"], row["longest_s"]),
    }


def _first_claims_of_the_younger(by_time: JobsByTime) -> Callable[[pd.Index[int]], pd.Series[int]]:
    """Return when the first job that came in a later slot was claimed, for any slots, by slot; missing if none was."""
    came = by_time.came.index.to_numpy()
    first_ns = np.minimum.accumulate(by_time.came.to_numpy()[::-1])[::-1]

    def find(slots: pd.Index[int]) -> pd.Series[int]:
        place = np.searchsorted(came, slots.to_numpy(dtype="int64"), side="right")
        found = pd.array(np.append(first_ns, 0)[place], dtype="Int64")
        found[place == len(came)] = pd.NA
        return pd.Series(found, index=slots)

    return find


def _judge(due: DataFrame, younger_had_ns: pd.Series[int], axis: TimeAxis, ready_by_ns: int | None) -> DataFrame:
    """Return ``job_id, kind, waited_s`` of the jobs that were due in the slots of ``younger_had_ns``."""
    table = pa.table({"slot": pa.array(younger_had_ns.index, pa.int64()), "younger_had_ns": pa.array(younger_had_ns, pa.int64())})
    return (
        due.withColumn("slot", slot_of(F.col("due_ns")))
        .join(F.broadcast(due.sparkSession.createDataFrame(table)), "slot")
        .select("job_id", _kind(axis.last_ns, ready_by_ns).alias("kind"), (_waited_ns(axis.last_ns) / NS_PER_S).alias("waited_s"))
    )


def _due_first(jobs: DataFrame) -> DataFrame:
    """Return the jobs that wait for their first claim from their enqueue on."""
    return jobs.filter(is_due_first()).select(
        "job_id",
        F.col("enqueued_ns").alias("due_ns"),
        F.coalesce("first_claim_began_ns", F.lit(NEVER_NS)).alias("claim_began_ns"),
        F.lit(False).alias("is_claimed"),
        F.lit(True).alias("has_attempts"),
        F.lit(None).cast("long").alias("died_ns"),
    )


def _due_again(events: DataFrame, jobs: DataFrame, deaths: DataFrame, record: RunRecord) -> DataFrame | None:
    """Return the jobs that the queue still held at the end and that a process had when it died, with the time of its death.

    The last event of such a job is its claim by that process. A job that the final snapshot has as claimed, and whose recorded attempts are over
    or none, was claimed by a process that died before it recorded the claim: it counts from the last death.

    The job is due again when the process has ended, or, if the claim outlives its connection, when the claim has expired; never, if it does not
    expire. While a fault is active, no job is due again. None if the queue does not offer jobs again, or does not declare when a claim ends.
    """
    queue = record.queue
    if not queue.may_re_execute or not queue.rescues_jobs or queue.claims_survive_connection is None:
        return None
    held = jobs.filter("state IN ('queued', 'claimed')").select("job_id", "state")
    of_workers = F.col("event").isin(Event.CLAIMED, *_ENDS) & ~is_failed_enqueue()
    claims_and_ends = events.filter(of_workers).select("job_id", "event", "process", "t_ns")
    last = (
        held.join(claims_and_ends, "job_id", "left")
        .groupBy("job_id", "state")
        .agg(
            F.max_by(F.struct("event", "process", "t_ns"), "t_ns").alias("last"),
            F.count_if(F.col("event") == Event.CLAIMED).alias("attempts"),
        )
    )
    recorded = (
        last.filter(F.col("last.event") == Event.CLAIMED)
        .select("job_id", "state", "attempts", F.col("last.process").alias("process"), F.col("last.t_ns").alias("claimed_ns"))
        .join(F.broadcast(deaths), "process")
        .filter("died_ns >= claimed_ns")
        .groupBy("job_id", "state", "attempts", "claimed_ns")
        .agg(F.min("died_ns").alias("died_ns"))
    )
    last_death_ns = deaths.agg(F.max("died_ns").alias("died_ns"))
    unrecorded = (
        last.filter(F.col("state") == "claimed")
        .filter(F.col("last.event").isNull() | F.col("last.event").isin(Event.FAILED, Event.EXPIRED))
        .select("job_id", "state", (F.col("attempts") + 1).alias("attempts"))
        .crossJoin(F.broadcast(last_death_ns))
        .withColumn("claimed_ns", F.col("died_ns"))
    )
    return recorded.unionByName(unrecorded).select(
        "job_id",
        _due_ns(record).alias("due_ns"),
        F.lit(NEVER_NS).alias("claim_began_ns"),
        (F.col("state") == "claimed").alias("is_claimed"),
        (F.lit(True) if queue.attempt_limit is None else F.col("attempts") < queue.attempt_limit).alias("has_attempts"),
        "died_ns",
    )


def _due_ns(record: RunRecord) -> Column:
    """When a job is due again that was claimed at ``claimed_ns`` by a process that died at ``died_ns``, which may have renewed the claim until then."""
    queue = record.queue
    due_ns = F.col("died_ns")
    if queue.claims_survive_connection:
        from_ns = F.col("died_ns" if queue.renews_claims else "claimed_ns")
        expiry_ns = NEVER_NS if queue.rescue_s is None else from_ns + F.lit(int(queue.rescue_s * NS_PER_S))
        due_ns = F.greatest(due_ns, F.lit(expiry_ns))
    return _after_faults(due_ns, record) + _PATIENCE_NS


def _offered_again(events: DataFrame, deaths: DataFrame) -> DataFrame:
    """Return ``job_id, kind, waited_s`` of the jobs that a process had when it died and that were claimed again after that claim.

    A replacement may have the name of the process that died. So the process had the job if it has more claims of it than ends.
    """
    claims = F.count_if(F.col("event") == Event.CLAIMED)
    open_claims = claims - F.count_if(F.col("event") != Event.CLAIMED)
    had = (
        events.filter(F.col("event").isin(Event.CLAIMED, *_ENDS))
        .join(F.broadcast(deaths.select("process").distinct()), "process", "left_semi")
        .groupBy("job_id", "process")
        .agg(
            open_claims.alias("open_claims"),
            F.max_by(F.struct("event", "t_ns"), "t_ns").alias("last"),
            F.min(F.when(F.col("event") == Event.CLAIMED, F.col("t_ns"))).alias("first_claimed_ns"),
        )
        .filter("open_claims > 0")
        .withColumn("is_last", (F.col("open_claims") == 1) & (F.col("last.event") == Event.CLAIMED))
        .select(
            "job_id", "process", F.when(F.col("is_last"), F.col("last.t_ns")).otherwise(F.col("first_claimed_ns")).alias("had_ns")
        )
        .join(F.broadcast(deaths), "process")
        .filter("died_ns >= had_ns")
        .groupBy("job_id")
        .agg(F.min("had_ns").alias("had_ns"), F.min("died_ns").alias("died_ns"))
    )
    again = events.filter(F.col("event") == Event.CLAIMED).select("job_id", "t_ns").join(had, "job_id").filter("t_ns > had_ns")
    waited_ns = F.greatest(F.min("t_ns") - F.col("died_ns"), F.lit(0))
    return (
        again.groupBy("job_id", "died_ns")
        .agg((waited_ns / NS_PER_S).alias("waited_s"))
        .select("job_id", F.lit(OFFERED_AGAIN).alias("kind"), "waited_s")
    )


def find_end_of_faults(t_ns: int, record: RunRecord) -> int:
    """Return when no fault was active any more at ``t_ns`` or later, of faults that follow one another without a gap."""
    for fault in _list_in_order(record.faults):
        if fault["begin_ns"] <= t_ns < fault["end_ns"]:
            t_ns = fault["end_ns"]
    return t_ns


def _list_in_order(injections: Sequence[InjectionRecord]) -> list[dict[str, int]]:
    begun = [(one.start_ns, one.verified_gone_ns or one.end_ns) for one in injections if one.start_ns is not None]
    return [{"begin_ns": begin_ns, "end_ns": end_ns or NEVER_NS} for begin_ns, end_ns in sorted(begun, key=itemgetter(0))]


def _after_faults(due_ns: Column, record: RunRecord) -> Column:
    """Return the same as `find_end_of_faults` in Spark.

    The faults are one array that is gone through once: an expression for each fault would contain the previous one three times.
    """
    in_order = _list_in_order(record.faults)
    if not in_order:
        return due_ns
    return F.aggregate(
        constant(in_order, "array<struct<begin_ns:long,end_ns:long>>"),
        due_ns,
        lambda due, fault: F.when((due >= fault.begin_ns) & (due < fault.end_ns), fault.end_ns).otherwise(due),
    )


def _find_deaths(spark: SparkSession, record: RunRecord) -> DataFrame | None:
    """Return ``process, died_ns`` of the workers that died; none if none did."""
    rows = [
        {"process": process.name, "died_ns": process.end_ns}
        for process in record.processes
        if process.role == "worker" and process.exit_code not in (None, 0) and process.end_ns is not None
    ]
    return make_rows(spark, rows, _DEATHS) if rows else None


def _kind(last_ns: int, ready_by_ns: int | None) -> Column:
    is_again = F.col("died_ns").isNotNull()
    held = is_again & F.col("is_claimed")
    end_ns = F.least("claim_began_ns", F.lit(last_ns))
    passed_over = F.col("younger_had_ns") + _PATIENCE_NS <= end_ns
    return (
        F.when(~F.col("has_attempts"), OUT_OF_ATTEMPTS)
        .when(held, F.when(F.col("due_ns") < last_ns, HELD_FOR_THE_DEAD).otherwise(NOT_YET_DUE))
        .when(passed_over, F.when(is_again, LEFT_BEHIND).otherwise(PASSED_OVER))
        .when(is_again & (F.col("due_ns") <= F.lit(ready_by_ns).cast("long")), LEFT_WHILE_IDLE)
        .when(is_again, AVAILABLE_AGAIN)
    )


def _waited_ns(last_ns: int) -> Column:
    """From when a job was due to its claim, or to the end of the records; from the death of its worker if it was not due by then."""
    from_ns = F.when(F.col("due_ns") < last_ns, F.col("due_ns")).otherwise(F.coalesce("died_ns", "due_ns"))
    return F.least("claim_began_ns", F.lit(last_ns)) - from_ns
