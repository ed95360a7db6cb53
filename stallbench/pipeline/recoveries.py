"""How the queue recovered after each fault, measured the same way for all of them.

A job is *open* from when its schedule wanted it to its first completion: what producers could not enqueue during an outage is part of the
backlog, too. Lost jobs would be open for ever. They are left out, and counted separately.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from stallbench.measures import WHOLE_RUN
from stallbench.pipeline.frames import as_phase_rows, make_rows
from stallbench.pipeline.tables import TABLES
from stallbench.pipeline.time_axis import NS_PER_S, Interval, TimeAxis
from stallbench.run.record import RunRecord

OF_BASELINE = 0.9
"""The share of the baseline's rate that counts as the baseline's rate."""
_SECONDS_OF_RATE = 3
_HELD_BEFORE_S = 5
"""A job that a fault loses may have been enqueued, or claimed, so long before it."""
TO = ("to_first_completion", "to_rate", "to_empty_backlog")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """A fault that is over."""

    name: str
    phase: str
    start_ns: int
    end_ns: int
    until_ns: int
    """When the next one began, or the run's records ended: until then, errors and lost jobs are attributed to this one."""


def make_recoveries(
    spark: SparkSession,
    facts: RunRecord,
    axis: TimeAxis,
    *,
    jobs: DataFrame,
    windows: DataFrame,
    second_completions: DataFrame,
    re_executions: DataFrame,
) -> DataFrame:
    """Return a row for each fault that was injected and is over.

    ``to_first_completion_s``: from the fault's end to the next first completion of a job. ``to_rate_s``: to the first of three seconds
    that together reach `OF_BASELINE` of the first measured phase's completions; ``to_empty_backlog_s``: to the end of the first second
    after which no more jobs are open than at most in that phase. These two are counted in whole seconds, are null if that was not
    reached, and if the fault is in that phase itself. ``lost``, ``re_completed`` (jobs that were completed a second time),
    ``re_executed`` (executions of jobs that had been executed before), ``errors``: until the next fault began.
    """
    ended = _list_ended(facts, axis)
    if not ended:
        return make_rows(spark, [], TABLES["recoveries"])
    baseline = _find_baseline(facts, axis)
    of_jobs = jobs.agg(*(_of_jobs(fault).alias(f"jobs_{index}") for index, fault in enumerate(ended)))
    again = second_completions.agg(
        *(
            F.count_if(_between("t_ns", fault.start_ns, fault.until_ns)).alias(f"again_{index}")
            for index, fault in enumerate(ended)
        )
    )
    repeats = re_executions.agg(
        *(
            F.count_if(_between("claimed_ns", fault.start_ns, fault.until_ns)).alias(f"repeats_{index}")
            for index, fault in enumerate(ended)
        )
    )
    seconds = _make_seconds(windows, jobs, axis)
    if baseline:
        of_baseline = seconds.filter(baseline.holds(_middle_ns(axis))).agg(
            F.avg("completed").alias("usual_rate"), F.max("open").alias("usual_open")
        )
    else:
        of_baseline = spark.range(1).select(
            F.lit(None).cast("double").alias("usual_rate"), F.lit(None).cast("long").alias("usual_open")
        )
    of_seconds = seconds.crossJoin(F.broadcast(of_baseline)).agg(
        *(_of_seconds(fault, axis, baseline).alias(f"seconds_{index}") for index, fault in enumerate(ended))
    )
    rows = [
        F.struct(
            F.lit(fault.name).alias("fault"),
            F.lit(fault.phase).alias("phase"),
            F.lit((fault.end_ns - axis.start_ns) / NS_PER_S).alias("end_s"),
            F.col(f"jobs_{index}.to_first_completion_s"),
            F.col(f"seconds_{index}.to_rate_s"),
            F.col(f"seconds_{index}.to_empty_backlog_s"),
            F.col(f"jobs_{index}.lost"),
            F.col(f"again_{index}").alias("re_completed"),
            F.col(f"repeats_{index}").alias("re_executed"),
            F.col(f"seconds_{index}.errors"),
        )
        for index, fault in enumerate(ended)
    ]
    return of_jobs.crossJoin(again).crossJoin(repeats).crossJoin(of_seconds).select(F.inline(F.array(*rows)))


def make_recovery_metrics(recoveries: DataFrame) -> DataFrame:
    """Return the metrics of ``recovery_s`` as rows of ``phases``: of the faults of each phase, and of all, the slowest.

    If one of them never reached it, there is no value.
    """
    slowest = [F.when(F.count(f"{name}_s") == F.count("*"), F.max(f"{name}_s")).alias(name) for name in TO]
    of_each = recoveries.withColumn("interval", F.explode(F.array("phase", F.lit(WHOLE_RUN))))
    figures = of_each.groupBy("interval").agg(*slowest, F.count("*").alias("count"))
    return as_phase_rows(figures, "recovery_s", TO, F.col("interval")).filter("value IS NOT NULL")


def _list_ended(facts: RunRecord, axis: TimeAxis) -> list[_Ended]:
    begun = [(fault.start_ns, fault) for fault in facts.faults if fault.start_ns is not None]
    starts_ns = [start_ns for start_ns, _ in begun]
    ended = []
    for start_ns, fault in begun:
        if fault.end_ns is not None:
            end_ns = fault.verified_gone_ns or fault.end_ns
            until_ns = min((other for other in starts_ns if other > end_ns), default=axis.last_ns + 1)
            ended.append(_Ended(name=fault.name, phase=fault.phase or "", start_ns=start_ns, end_ns=end_ns, until_ns=until_ns))
    return ended


def _find_baseline(facts: RunRecord, axis: TimeAxis) -> Interval | None:
    measured = {phase.name for phase in facts.phases if phase.measured}
    return next((phase for phase in axis.phases if phase.name in measured), None)


def _make_seconds(windows: DataFrame, jobs: DataFrame, axis: TimeAxis) -> DataFrame:
    """Return ``t_s, completed, errors, open`` of each second."""
    changes = (
        jobs.filter("state <> 'lost'")
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
        .agg(F.sum("change").alias("change"))
    )
    # One partition, of a row a second.
    so_far = Window.partitionBy().orderBy("t_s").rowsBetween(Window.unboundedPreceding, 0)
    ahead = Window.partitionBy().orderBy("t_s").rowsBetween(0, _SECONDS_OF_RATE - 1)
    return (
        windows.select("t_s", "completed", "errors")
        .join(changes, "t_s", "full")
        .select(
            "t_s",
            F.coalesce("completed", F.lit(0)).alias("completed"),
            F.coalesce("errors", F.lit(0)).alias("errors"),
            F.sum(F.coalesce("change", F.lit(0))).over(so_far).alias("open"),
            F.avg(F.coalesce("completed", F.lit(0))).over(ahead).alias("rate"),
        )
    )


def _middle_ns(axis: TimeAxis) -> Column:
    return F.col("t_s").cast("long") * NS_PER_S + axis.start_ns + NS_PER_S // 2


def _of_jobs(fault: _Ended) -> Column:
    last_move_ns = F.coalesce("first_claimed_ns", "enqueued_ns")
    is_lost = (
        (F.col("state") == "lost")
        & (last_move_ns >= fault.start_ns - _HELD_BEFORE_S * NS_PER_S)
        & (last_move_ns < fault.until_ns)
    )
    first_ns = F.min(F.when(F.col("first_completed_ns") >= fault.end_ns, F.col("first_completed_ns")))
    return F.struct(((first_ns - fault.end_ns) / NS_PER_S).alias("to_first_completion_s"), F.count_if(is_lost).alias("lost"))


def _of_seconds(fault: _Ended, axis: TimeAxis, baseline: Interval | None) -> Column:
    end_s = (fault.end_ns - axis.start_ns) / NS_PER_S
    is_after = F.col("t_s") >= int(end_s // 1)
    if baseline is None or fault.start_ns < baseline.end_ns:
        is_after = F.lit(False)
    at_rate_s = F.min(F.when(is_after & (F.col("rate") >= OF_BASELINE * F.col("usual_rate")), F.col("t_s")))
    empty_s = F.min(F.when(is_after & (F.col("open") <= F.col("usual_open")), F.col("t_s") + 1))
    since_ns = F.col("t_s").cast("long") * NS_PER_S + axis.start_ns
    is_of_fault = (since_ns >= fault.start_ns - NS_PER_S) & (since_ns < fault.until_ns)
    return F.struct(
        _not_before_0(at_rate_s - end_s).alias("to_rate_s"),
        _not_before_0(empty_s - end_s).alias("to_empty_backlog_s"),
        F.sum(F.when(is_of_fault, F.col("errors")).otherwise(0)).alias("errors"),
    )


def _not_before_0(seconds: Column) -> Column:
    """The fault may end in the middle of the second that is looked at. A null stays one, which `greatest` would pass over."""
    return F.when(seconds < 0, 0.0).otherwise(seconds)


def _between(column: str, from_ns: int, to_ns: int) -> Column:
    return (F.col(column) >= from_ns) & (F.col(column) < to_ns)
