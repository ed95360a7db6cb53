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

import numpy as np
import pandas as pd

from stallbench.measures import WHOLE_RUN
from stallbench.pipeline.jobs_by_time import JobsByTime
from stallbench.pipeline.phases import COLUMNS
from stallbench.pipeline.time_axis import Interval, TimeAxis
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.run.record import RunRecord

OF_BASELINE = 0.9
"""The share of the baseline's rate that counts as the baseline's rate."""
_SECONDS_OF_RATE = 3
_HELD_BEFORE_S = 5
"""A job that a fault loses may have been enqueued, or claimed, so long before it."""
TO = ("to_first_completion", "to_rate", "to_empty_backlog")
_RECOVERY = [
    *("fault", "phase", "end_s", "next_change", "next_change_s", "lost", "re_completed", "re_executed", "errors"),
    *(f"since_end_{to}_s" for to in TO),
    *(f"{to}_s" for to in TO),
]


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


def list_moments(faults: Sequence[EndedFault]) -> list[int]:
    """Return every moment at which something may begin or cease to count for a fault, in order: between two of them everything counts for the same faults."""
    held_ns = _HELD_BEFORE_S * NS_PER_S
    return sorted(
        {moment for fault in faults for moment in (fault.start_ns - held_ns, fault.start_ns, fault.end_ns, fault.until_ns)}
    )


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
    by_time: JobsByTime,
    windows: pd.DataFrame,
) -> pd.DataFrame:
    """Return a row for each of ``faults``.

    ``to_first_completion_s``: from the fault's end to the next first completion of a job. ``to_rate_s``: to the first of three seconds that
    together reach `OF_BASELINE` of the first measured phase's completions, or of the jobs that are open in them if these are fewer, and that
    begin with a second in which a job is completed.
    ``to_empty_backlog_s``: to the end of the first second after which no more jobs are open than at most in that phase. These two are
    counted in whole seconds, are null if that was not reached, and if the fault is in that phase itself. A time that was reached after
    ``next_change_s``, when another fault began or ended (``next_change``), is null, because the other fault may have delayed or caused it;
    ``since_end_*_s`` has it all the same. ``lost``, ``re_completed`` (jobs that were completed a second time), ``re_executed`` (executions
    of jobs that had been executed before), ``errors``: until the next fault began.

    ``by_time``: counted between `list_moments`.
    """
    baseline = _find_baseline(record, axis)
    seconds = _make_seconds(windows, by_time.changes)
    since_ns = seconds.index.to_numpy(dtype="int64") * NS_PER_S + axis.start_ns
    middle_ns = since_ns + NS_PER_S // 2
    usual = seconds[(middle_ns >= baseline.start_ns) & (middle_ns < baseline.end_ns)] if baseline else seconds.iloc[:0]
    spans = by_time.spans
    rows = []
    for fault in faults:
        end_s = (fault.end_ns - axis.start_ns) / NS_PER_S
        is_judged = baseline is not None and fault.start_ns >= baseline.end_ns
        of_fault = seconds[(since_ns >= fault.start_ns - NS_PER_S) & (since_ns < fault.until_ns)]
        completed = spans[(spans["what"] == "completed") & (spans["from_ns"] >= fault.end_ns)]
        until = spans[spans["from_ns"] < fault.until_ns]
        held_ns = {"lost": _HELD_BEFORE_S * NS_PER_S, "re_completed": 0, "re_executed": 0}
        since_end = {
            "to_first_completion": (int(completed["first_ns"].min()) - fault.end_ns) / NS_PER_S if len(completed) else None,
            **(_find_recovery(seconds, usual, end_s) if is_judged else {}),
        }
        next_s = None if fault.next_change_ns is None else (fault.next_change_ns - axis.start_ns) / NS_PER_S
        rows.append(
            {
                "fault": fault.name,
                "phase": fault.phase,
                "end_s": end_s,
                "next_change": fault.next_change,
                "next_change_s": next_s,
                **{f"since_end_{to}_s": since_end.get(to) for to in TO},
                **{f"{to}_s": _if_before_next_change(since_end.get(to), to, end_s, next_s) for to in TO},
                "errors": int(of_fault["errors"].sum()),
                **{
                    what: int(
                        until.loc[(until["what"] == what) & (until["from_ns"] >= fault.start_ns - before_ns), "times"].sum()
                    )
                    for what, before_ns in held_ns.items()
                },
            }
        )
    return pd.DataFrame(rows, columns=_RECOVERY)


def make_recovery_metrics(recoveries: pd.DataFrame) -> pd.DataFrame:
    """Return the metrics of ``recovery_s`` as rows of ``phases``: of the faults of each phase, and of all, the slowest.

    If one of them never reached it, there is no value. A recovery that lasted until after another fault's begin or end counts in full: so an
    expectation on it is never met because faults overlap.
    """
    rows = []
    for phase, faults in (*recoveries.groupby("phase"), (WHOLE_RUN, recoveries)):
        for to in TO:
            reached_s = faults[f"since_end_{to}_s"]
            if len(faults) and reached_s.notna().all():
                rows.append((phase, "recovery_s", to, float(reached_s.max()), len(faults)))
    return pd.DataFrame(rows, columns=COLUMNS)


def _find_baseline(record: RunRecord, axis: TimeAxis) -> Interval | None:
    measured = {phase.name for phase in record.measured_phases}
    return next((phase for phase in axis.phases if phase.name in measured), None)


def _make_seconds(windows: pd.DataFrame, changes: pd.DataFrame) -> pd.DataFrame:
    """Return of each second ``completed, errors, open`` (at its end), and of it and the next two ``rate`` and ``possible_rate``: jobs completed
    a second, and how many could be.
    """
    seconds = windows.set_index("t_s")[["completed", "errors"]].join(changes[["open", "due"]], how="outer").fillna(0).sort_index()
    so_far = seconds["open"].cumsum()
    ahead = seconds[::-1].rolling(_SECONDS_OF_RATE, min_periods=1)
    due, counted, rate = (ahead["due"].sum()[::-1], ahead["due"].count()[::-1], ahead["completed"].mean()[::-1])
    return pd.DataFrame(
        {
            "completed": seconds["completed"],
            "errors": seconds["errors"],
            "open": so_far,
            "rate": rate,
            "possible_rate": (so_far - seconds["open"] + due) / counted,
        }
    )


def _find_recovery(seconds: pd.DataFrame, usual: pd.DataFrame, end_s: float) -> dict[str, float | None]:
    """Return how long after ``end_s`` the rate and the backlog of the seconds of ``usual`` were reached; none if they were not."""
    after = seconds[seconds.index >= np.floor(end_s)]
    if usual.empty:
        return {}
    # A second without a completion is none of recovery, even if the burst of the next two raises the mean of the three.
    # The baseline's rate cannot be reached again if a backlog was worked off in it.
    wanted = OF_BASELINE * np.minimum(usual["completed"].mean(), after["possible_rate"])
    at_rate = after.index[(after["completed"] > 0) & (after["rate"] >= wanted)]
    empty = after.index[after["open"] <= usual["open"].max()]
    # The fault may end in the middle of the second that is looked at.
    return {
        "to_rate": max(0.0, float(at_rate[0] - end_s)) if len(at_rate) else None,
        "to_empty_backlog": max(0.0, float(empty[0] + 1 - end_s)) if len(empty) else None,
    }


def _if_before_next_change(since_end_s: float | None, to: str, end_s: float, next_change_s: float | None) -> float | None:
    """Leave out what was reached later than another fault began or ended."""
    lasts_s = _SECONDS_OF_RATE if to == "to_rate" else 0
    is_before = since_end_s is None or next_change_s is None or end_s + since_end_s + lasts_s <= next_change_s
    return since_end_s if is_before else None
