"""Counts the jobs by time, in one query: all that stalls, recoveries and overdue jobs need of them. Its rows grow with a run's length, not with its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.pipeline.time_axis import TimeAxis
from stallbench.records.nanoseconds import NEVER_NS, NS_PER_S

_SLOT_NS = NS_PER_S // 10
_OF_SECONDS = ("begin_to_wait", "cease_to_wait", "due", "closed")
_OF_SLOTS = ("came", "turn")
_OF_SPANS = ("completed", "lost", "re_completed", "re_executed")
_KINDS = (*_OF_SECONDS, *_OF_SLOTS, *_OF_SPANS)


@dataclass(frozen=True, slots=True)
class JobsByTime:
    """What happened to the jobs, and when."""

    changes: pd.DataFrame
    """A row for each second in which something changes, by ``t_s``.

    ``waiting``: by how much the number of jobs that wait throughout the second is more than in the second before. A job waits from the second after
    it was due until the second of its first claim; a lost one does not. ``open``: by how much the number of open jobs changes in the second. A job
    is open from its due time until its first completion; lost jobs, and those whose completion was not recorded, are left out. ``due``: how many
    jobs become open.
    """
    came: pd.Series[int]
    """Of the claimed jobs whose enqueue began in a slot (`slot_of`): when the first one was claimed, in ns, by slot in their order."""
    turn: pd.Series[int]
    """Of the jobs that were enqueued in a slot: when the last of their first claims began, or the records ended, in ns, by slot in their order."""
    spans: pd.DataFrame
    """``what, from_ns, first_ns, times``: how often each thing happened from each of the given moments to the next, and when first.

    ``what``: ``completed`` and ``lost`` are jobs at their first completion and at their last trace, ``re_completed`` and ``re_executed`` later ones.
    """

    @classmethod
    def from_counts(cls, counted: pd.DataFrame, moments: Sequence[int]) -> JobsByTime:
        """Make them from ``what, number, times, first_ns, last_ns``: how often each of `_KINDS` happened in each second, slot or span, when first and last."""
        of_kind = {
            what: counted[counted["what"] == kind].astype("int64").set_index("number").sort_index()
            for kind, what in enumerate(_KINDS)
        }
        spans = [
            of_kind[what].assign(what=what, from_ns=[moments[number] for number in of_kind[what].index]) for what in _OF_SPANS
        ]
        return cls(
            changes=_make_changes({what: of_kind[what]["times"] for what in _OF_SECONDS}),
            came=of_kind["came"]["first_ns"],
            turn=of_kind["turn"]["last_ns"],
            spans=pd.concat(spans, ignore_index=True)[["what", "from_ns", "first_ns", "times"]],
        )


def count_jobs(
    jobs: DataFrame,
    axis: TimeAxis,
    *,
    moments: Sequence[int] = (),
    again: DataFrame | None = None,
    repeated: DataFrame | None = None,
) -> JobsByTime:
    """Count the jobs by second, by slot and by the spans between ``moments``, which are in order; what is before the first one is left out.

    ``again``: the second completions, ``t_ns``. ``repeated``: the executions of jobs that had been executed before, ``claimed_ns``. Either is none
    if the run has none.
    """
    happened = jobs.select(
        F.inline(F.array(*_list_seconds(axis), *_list_slots(axis), *(_list_spans(moments) if moments else ())))
    )
    if moments:
        for what, found, t_ns in (("re_completed", again, "t_ns"), ("re_executed", repeated, "claimed_ns")):
            if found is not None:
                happened = happened.unionByName(
                    found.select(F.inline(F.array(_happened(what, span_of(t_ns, moments), F.col(t_ns)))))
                )
    counted = (
        happened.filter("number IS NOT NULL")
        .groupBy("what", "number")
        .agg(F.count("*").alias("times"), F.min("t_ns").alias("first_ns"), F.max("t_ns").alias("last_ns"))
    )
    return JobsByTime.from_counts(counted.toPandas(), moments)


def slot_of(t_ns: Column) -> Column:
    """The slot of a moment, a tenth of a second: overdue jobs are compared in slots, so that no partition ever holds all jobs."""
    return F.floor(t_ns / _SLOT_NS)


def is_due_first() -> Column:
    """Whether a row of ``jobs`` waits for its first claim from its enqueue on; other checks judge a job that is neither claimed nor queued."""
    return F.col("enqueue_recorded") & (F.col("first_claimed_ns").isNotNull() | (F.col("state") == "queued"))


def _list_seconds(axis: TimeAxis) -> list[Column]:
    intended_s, claimed_ns = axis.second(F.col("intended_ns")), F.col("first_claimed_ns")
    # A job is claimed before its time only if clocks disagree.
    claimed_s = axis.second(F.when(claimed_ns.isNotNull(), F.greatest(claimed_ns, F.col("intended_ns"))))
    waits = (F.col("state") != "lost") & F.col("intended_ns").isNotNull() & (claimed_ns.isNull() | (claimed_s > intended_s))
    opens = ~F.col("state").isin("lost", "completed_unrecorded")
    return [
        _happened("begin_to_wait", F.when(waits, intended_s + 1)),
        _happened("cease_to_wait", F.when(waits, claimed_s)),
        _happened("due", F.when(opens, axis.second(F.coalesce("intended_ns", "first_claimed_ns")))),
        _happened("closed", F.when(opens, axis.second(F.col("first_completed_ns")))),
    ]


def _list_slots(axis: TimeAxis) -> list[Column]:
    claimed_ns = F.col("first_claimed_ns")
    came = F.col("enqueue_recorded") & claimed_ns.isNotNull()
    until_ns = F.least(F.coalesce("first_claim_began_ns", F.lit(NEVER_NS)), F.lit(axis.last_ns))
    return [
        _happened("came", F.when(came, slot_of(F.col("enqueue_began_ns"))), claimed_ns),
        _happened("turn", F.when(is_due_first(), slot_of(F.col("enqueued_ns"))), until_ns),
    ]


def _list_spans(moments: Sequence[int]) -> list[Column]:
    is_completed = F.col("first_completed_ns").isNotNull()
    is_lost = (F.col("state") == "lost") & ~is_completed
    lost_ns = F.coalesce("first_claimed_ns", "enqueued_ns")
    return [
        _happened("completed", F.when(is_completed, span_of("first_completed_ns", moments)), F.col("first_completed_ns")),
        _happened("lost", F.when(is_lost, span_of("coalesce(first_claimed_ns, enqueued_ns)", moments)), lost_ns),
    ]


def span_of(t_ns: str, moments: Sequence[int]) -> Column:
    """The place of the last of ``moments`` that is not after ``t_ns``; null if all are, or if it is null. Each job is compared with few moments."""

    def search(first: int, end: int) -> str:
        if first == end:
            return str(first - 1) if first else "NULL"
        middle = (first + end) // 2
        return f"IF({t_ns} < {moments[middle]}, {search(first, middle)}, {search(middle + 1, end)})"

    return F.expr(f"IF({t_ns} IS NULL, NULL, {search(0, len(moments))})")


def _happened(what: str, number: Column, t_ns: Column | None = None) -> Column:
    return F.struct(
        F.lit(_KINDS.index(what)).cast("byte").alias("what"),
        number.cast("long").alias("number"),
        (F.lit(0) if t_ns is None else t_ns).cast("long").alias("t_ns"),
    )


def _make_changes(times: Mapping[str, pd.Series[int]]) -> pd.DataFrame:
    found = pd.DataFrame(times, columns=list(_OF_SECONDS)).fillna(0).astype("int64").sort_index()
    return pd.DataFrame(
        {
            "waiting": found["begin_to_wait"] - found["cease_to_wait"],
            "open": found["due"] - found["closed"],
            "due": found["due"],
        }
    ).rename_axis("t_s")
