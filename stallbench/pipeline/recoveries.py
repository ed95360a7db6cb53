"""How the queue recovered after each fault, measured in the same way for all faults.

A job is *open* from its due time until its first completion. So the backlog includes the jobs that producers could not enqueue during an
outage. Lost jobs would be open forever, and so would those whose completion was requested but not recorded (the worker died, or the call ended
with an error): both are left out. Lost jobs are counted separately.

While another fault is active, or once another one has begun or ended, the recovery cannot be attributed to one of them. So a fault has a
recovery of its own only if the queue recovered before another fault began or ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from stallbench.measures import WHOLE_RUN
from stallbench.pipeline.frames import as_phase_rows, constant, make_rows, one_row
from stallbench.pipeline.time_axis import Interval, TimeAxis
from stallbench.records.nanoseconds import NEVER_NS, NS_PER_S
from stallbench.run.record import RunRecord

OF_BASELINE = 0.9
"""The share of the baseline's rate that counts as the baseline's rate."""
_SECONDS_OF_RATE = 3
_HELD_BEFORE_S = 5
"""A job that a fault loses may have been enqueued, or claimed, so long before it."""
_FAULTS = (
    "fault string, phase string, start_ns long, end_ns long, until_ns long, end_s double, has_baseline boolean, "
    "next_change string, next_change_s double"
)
TO = ("to_first_completion", "to_rate", "to_empty_backlog")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedFault:
    """A fault that is over."""

    name: str
    phase: str
    start_ns: int
    end_ns: int
    until_ns: int
    """When the next one began, or the run's records ended: until then, errors and lost jobs are attributed to this one."""
    next_change: str | None = None
    """The next begin or end of another fault after this one's end, like ``down-2 began``; none if there was none."""
    next_change_ns: int | None = None


def list_ended_faults(record: RunRecord, axis: TimeAxis) -> list[EndedFault]:
    """Return the faults that were injected and are over."""
    begun = [(fault.start_ns, fault) for fault in record.faults if fault.start_ns is not None]
    starts_ns = [start_ns for start_ns, _ in begun]
    ended = []
    for start_ns, fault in begun:
        if fault.end_ns is not None:
            end_ns = fault.verified_gone_ns or fault.end_ns
            until_ns = min((other for other in starts_ns if other > end_ns), default=axis.last_ns + 1)
            next_ns, change = min(
                ((t_ns, change) for t_ns, change in _list_changes(record, fault.name) if t_ns > end_ns), default=(None, None)
            )
            ended.append(
                EndedFault(
                    name=fault.name,
                    phase=fault.phase or "",
                    start_ns=start_ns,
                    end_ns=end_ns,
                    until_ns=until_ns,
                    next_change=change,
                    next_change_ns=next_ns,
                )
            )
    return ended


def _list_changes(record: RunRecord, name: str) -> list[tuple[int, str]]:
    """Return when each fault other than ``name`` began and ended, with the words for it."""
    return [
        (t_ns, f"{fault.name} {change}")
        for fault in record.faults
        if fault.name != name
        for t_ns, change in ((fault.start_ns, "began"), (fault.verified_gone_ns or fault.end_ns, "ended"))
        if t_ns is not None
    ]


def make_recoveries(
    faults: Sequence[EndedFault],
    record: RunRecord,
    axis: TimeAxis,
    *,
    jobs: DataFrame,
    windows: DataFrame,
    second_completions: DataFrame | None,
    re_executions: DataFrame | None,
) -> DataFrame:
    """Return a row for each of ``faults``.

    ``to_first_completion_s``: from the fault's end to the next first completion of a job. ``to_rate_s``: to the first of three seconds that
    together reach `OF_BASELINE` of the first measured phase's completions, or of the jobs that are open in them if these are fewer, and that
    begin with a second in which a job is completed.
    ``to_empty_backlog_s``: to the end of the first second after which no more jobs are open than at most in that phase. These two are
    counted in whole seconds, are null if that was not reached, and if the fault is in that phase itself. A time that was reached after
    ``next_change_s``, when another fault began or ended (``next_change``), is null, because the other fault may have delayed or caused it;
    ``since_end_*_s`` has it all the same. ``lost``, ``re_completed`` (jobs that were completed a second time), ``re_executed`` (executions
    of jobs that had been executed before), ``errors``: until the next fault began.

    ``second_completions`` and ``re_executions`` are none if the run has none. Each source is read once, and gives a few rows for each fault:
    the plan does not grow with the number of faults.
    """
    spark = jobs.sparkSession
    baseline = _find_baseline(record, axis)
    seconds = _make_seconds(windows, jobs, axis)
    of_baseline = seconds.filter(baseline.holds(_middle_ns(axis)) if baseline else F.lit(False)).agg(
        F.avg("completed").alias("usual_rate"), F.max("open").alias("usual_open")
    )
    known = F.broadcast(make_rows(spark, [_describe(fault, axis, baseline) for fault in faults], _FAULTS))
    recovered = (
        seconds.crossJoin(F.broadcast(of_baseline))
        .join(known, (F.col("t_s") >= F.floor("end_s")) | _is_of_fault(axis))
        .groupBy("fault")
        .agg(*_of_seconds(axis))
    )
    counted = _of_jobs(jobs, known, faults)
    for name, times, t_ns in (
        ("re_completed", second_completions, "t_ns"),
        ("re_executed", re_executions, "claimed_ns"),
    ):
        if times is not None:
            during = (F.col(t_ns) >= F.col("start_ns")) & (F.col(t_ns) < F.col("until_ns"))
            found = times.select(t_ns).join(known, during).groupBy("fault").agg(F.count("*").alias(name))
            counted = counted.unionByName(found, allowMissingColumns=True)
        else:
            counted = counted.withColumn(name, F.lit(0).cast("long"))
    together = recovered.unionByName(counted, allowMissingColumns=True)
    columns: dict[str, bool | float | int | str] = {"lost": 0, "re_completed": 0, "re_executed": 0, "errors": 0}
    figures = known.select("fault", "phase", "end_s", "next_change", "next_change_s").join(
        together.groupBy("fault").agg(*(F.max(name).alias(name) for name in (*(f"since_end_{to}_s" for to in TO), *columns))),
        "fault",
        "left",
    )
    seen_s = dict.fromkeys(TO, 0) | {"to_rate": _SECONDS_OF_RATE}
    own = {f"{to}_s": _if_before_next_change(F.col(f"since_end_{to}_s"), seen_s[to]) for to in TO}
    return figures.fillna(columns).withColumns(own)


def make_recovery_metrics(recoveries: DataFrame) -> DataFrame:
    """Return the metrics of ``recovery_s`` as rows of ``phases``: of the faults of each phase, and of all, the slowest.

    If one of them never reached it, there is no value. A recovery that lasted until after another fault's begin or end counts in full: so an
    expectation on it is never met because faults overlap.
    """
    slowest = [F.when(F.count(f"since_end_{name}_s") == F.count("*"), F.max(f"since_end_{name}_s")).alias(name) for name in TO]
    of_each = recoveries.withColumn("interval", F.explode(F.array("phase", F.lit(WHOLE_RUN))))
    figures = of_each.groupBy("interval").agg(*slowest, F.count("*").alias("count"))
    return as_phase_rows(figures, "recovery_s", TO, F.col("interval")).filter("value IS NOT NULL")


def _find_baseline(record: RunRecord, axis: TimeAxis) -> Interval | None:
    measured = {phase.name for phase in record.measured_phases}
    return next((phase for phase in axis.phases if phase.name in measured), None)


def _make_seconds(windows: DataFrame, jobs: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return of each second ``t_s, completed, errors, open`` (at its end), and of it and the next two ``rate`` and ``possible_rate``: jobs completed
    a second, and how many could be.
    """
    changes = (
        jobs.filter("state NOT IN ('lost', 'completed_unrecorded')")
        .select(
            F.explode(
                F.array(
                    F.struct(axis.second(F.coalesce("intended_ns", "first_claimed_ns")).alias("t_s"), F.lit(1).alias("change")),
                    F.struct(axis.second(F.col("first_completed_ns")).alias("t_s"), F.lit(-1).alias("change")),
                )
            ).alias("both")
        )
        .select("both.*")
        .filter("t_s IS NOT NULL")
        .groupBy("t_s")
        .agg(F.sum("change").alias("change"), F.sum(F.greatest("change", F.lit(0))).alias("due"))
    )
    # One partition, of a row a second.
    so_far = Window.partitionBy().orderBy("t_s").rowsBetween(Window.unboundedPreceding, 0)
    ahead = Window.partitionBy().orderBy("t_s").rowsBetween(0, _SECONDS_OF_RATE - 1)
    open_before = F.sum("change").over(so_far) - F.col("change")
    return (
        windows.select("t_s", "completed", "errors")
        .join(changes, "t_s", "full")
        .fillna(0)
        .select(
            "t_s",
            "completed",
            "errors",
            F.sum("change").over(so_far).alias("open"),
            F.avg("completed").over(ahead).alias("rate"),
            ((open_before + F.sum("due").over(ahead)) / F.count("*").over(ahead)).alias("possible_rate"),
        )
    )


def _middle_ns(axis: TimeAxis) -> Column:
    return F.col("t_s").cast("long") * NS_PER_S + axis.start_ns + NS_PER_S // 2


def _describe(fault: EndedFault, axis: TimeAxis, baseline: Interval | None) -> dict[str, object]:
    return {
        "fault": fault.name,
        "phase": fault.phase,
        "start_ns": fault.start_ns,
        "end_ns": fault.end_ns,
        "until_ns": fault.until_ns,
        "end_s": (fault.end_ns - axis.start_ns) / NS_PER_S,
        "has_baseline": baseline is not None and fault.start_ns >= baseline.end_ns,
        "next_change": fault.next_change,
        "next_change_s": None if fault.next_change_ns is None else (fault.next_change_ns - axis.start_ns) / NS_PER_S,
    }


def _of_jobs(jobs: DataFrame, faults: DataFrame, ended: Sequence[EndedFault]) -> DataFrame:
    """Return ``fault, since_end_to_first_completion_s, lost``.

    The jobs are first reduced to a few rows: every moment at which a job may begin or cease to count for a fault divides the time, and between
    two of them all jobs count for the same faults.
    """
    held_ns = _HELD_BEFORE_S * NS_PER_S
    moments = sorted({moment for fault in ended for moment in (fault.start_ns - held_ns, fault.end_ns, fault.until_ns)})
    between = [{"from_ns": from_ns, "to_ns": to_ns} for from_ns, to_ns in pairwise([*moments, NEVER_NS])]
    spans = one_row(jobs.sparkSession).select(F.inline(constant(between, "array<struct<from_ns:long,to_ns:long>>")))
    lost_ns = F.when(F.col("state") == "lost", F.coalesce("first_claimed_ns", "enqueued_ns"))
    reduced = (
        jobs.select(
            F.coalesce("first_completed_ns", lost_ns).alias("t_ns"), F.col("first_completed_ns").isNotNull().alias("is_completed")
        )
        .join(F.broadcast(spans), (F.col("t_ns") >= F.col("from_ns")) & (F.col("t_ns") < F.col("to_ns")))
        .groupBy("from_ns", "is_completed")
        .agg(F.min("t_ns").alias("first_ns"), F.count("*").alias("jobs"))
    )
    is_completed = F.col("is_completed") & (F.col("from_ns") >= F.col("end_ns"))
    may_be_lost = (F.col("from_ns") >= F.col("start_ns") - held_ns) & (F.col("from_ns") < F.col("until_ns"))
    is_lost = ~F.col("is_completed") & may_be_lost
    first_after_ns = F.min(F.when(is_completed, F.col("first_ns") - F.col("end_ns")))
    return (
        reduced.join(faults, is_completed | is_lost)
        .groupBy("fault")
        .agg(
            (first_after_ns / NS_PER_S).alias("since_end_to_first_completion_s"),
            F.coalesce(F.sum(F.when(is_lost, F.col("jobs"))), F.lit(0)).alias("lost"),
        )
    )


def _is_of_fault(axis: TimeAxis) -> Column:
    since_ns = F.col("t_s").cast("long") * NS_PER_S + axis.start_ns
    return (since_ns >= F.col("start_ns") - NS_PER_S) & (since_ns < F.col("until_ns"))


def _of_seconds(axis: TimeAxis) -> list[Column]:
    is_after = F.col("has_baseline") & (F.col("t_s") >= F.floor("end_s"))
    # A second without a completion is none of recovery, even if the burst of the next two raises the mean of the three.
    # The baseline's rate cannot be reached again if a backlog was worked off in it.
    is_at_rate = (F.col("completed") > 0) & (F.col("rate") >= OF_BASELINE * F.least("usual_rate", "possible_rate"))
    at_rate_s = F.min(F.when(is_after & is_at_rate, F.col("t_s") - F.col("end_s")))
    empty_s = F.min(F.when(is_after & (F.col("open") <= F.col("usual_open")), F.col("t_s") + 1 - F.col("end_s")))
    return [
        _not_before_0(at_rate_s).alias("since_end_to_rate_s"),
        _not_before_0(empty_s).alias("since_end_to_empty_backlog_s"),
        F.sum(F.when(_is_of_fault(axis), F.col("errors")).otherwise(0)).alias("errors"),
    ]


def _if_before_next_change(since_end_s: Column, seen_s: int) -> Column:
    """Leave out what was reached later than another fault began or ended. ``seen_s``: for how long it must last to be seen."""
    seen_at_s = F.col("end_s") + since_end_s + seen_s
    return F.when(F.col("next_change_s").isNull() | (seen_at_s <= F.col("next_change_s")), since_end_s)


def _not_before_0(seconds: Column) -> Column:
    """The fault may end in the middle of the second that is looked at. A null stays one, which `greatest` would pass over."""
    return F.when(seconds < 0, 0.0).otherwise(seconds)
