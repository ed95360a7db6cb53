"""Reads from a run's folder the seconds in which a longrunner held the horizon. The cost of dead tuples is fitted to these."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from stallbench.errors import BadInputError
from stallbench.pipeline.failures import NoTableError
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.run.record import RunRecord
from stallbench.scenario.sections import Workers
from stallbench.studies.saturation import find_time_to_saturation_s
from stallbench.verdicts.check import RunTables

Array = NDArray[np.float64]

FEWEST_SECONDS = 15
_FEWEST_KEPT = 0.2
"""Dead tuples that remain per completed job; with fewer, vacuum kept removing them."""
_BUSY_PERCENT = 90.0
"""Of all processors, in the baseline; above it, other work took them, because the load of a baseline does not saturate a machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """The load of one run, and the seconds in which the horizon was held: one element of each array per second."""

    run: str
    queue: str
    rate: float
    """Jobs enqueued per second."""
    workers: int
    work_s: float
    cpus: int
    kept_per_job: float
    """Dead tuples that each completed job leaves and that vacuum does not remove."""
    dead: Array
    """Dead tuples that vacuum cannot remove: those of the jobs completed since the horizon is held."""
    claim_s: Array
    """Median claim time."""
    calls_per_job: Array
    """Claims that got a job or lost a race for one, per claim that got one."""
    empty_per_job: Array
    """Claims that found no job, per claim that got one."""
    completed: Array
    """Jobs completed per second."""
    busy: Array
    """Workers that did not pause for lack of jobs, on average over the second."""
    held_s: float
    """How long the horizon was held."""
    depth_at_end: float | None
    """Jobs that waited at the end, if the depth was sampled."""
    time_to_saturation_s: float | None
    """Seconds from when the horizon was held until the queue was saturated; none if it was not, or if no depth was sampled."""
    baseline_claim_s: float | None
    """Median claim time in the first measured phase; none without one before the longrunner."""
    notes: tuple[str, ...] = ()


def read_measured_run(run: RunTables) -> MeasuredRun:
    """Read the longest interval of ``run`` in which one longrunner held the horizon.

    Raises `BadInputError` if the queue is a library, if there is none, if it is too short, or if vacuum removed the dead tuples meanwhile.
    """
    record = run.record
    if (library := record.queue.library) is not None:
        raise BadInputError(
            f"{record.id}: the worker of {library.title} {library.version} does not show how long a claim takes, which the forecast is fitted to; "
            "expected a run of one of the bench's queues, or your own queue in Python; stallbench limit measures the highest rate of a library"
        )
    try:
        windows, baseline_claim_ms = run["windows"], _read_baseline(run, "claim_ms", "p50")
    except NoTableError as error:
        raise BadInputError(str(error)) from error
    holder, from_ns, to_ns = _find_longest_hold(record)
    held = windows[(windows["t_ns"] >= from_ns) & (windows["t_ns"] + int(NS_PER_S) <= to_ns)].reset_index(drop=True)
    kept_per_job = _count_kept(held, f"{record.id}: {holder}")
    # On average, half of a second's completions come before its claims.
    done = held["completed"].astype(float)
    held = held.assign(dead=kept_per_job * (done.cumsum() - done / 2))
    usable = held[(held["claimed"] > 0) & (held["completed"] > 0)].dropna(subset=["claim_ms_p50"])
    if len(usable) < FEWEST_SECONDS:
        raise BadInputError(
            f"{record.id}: only {len(usable)} seconds in which jobs were claimed while {holder} held the horizon; a fit needs "
            f"{FEWEST_SECONDS} or more: run it with a longer phase"
        )
    scenario = record.scenario
    claimed = usable["claimed"].to_numpy(float)
    return MeasuredRun(
        run=record.id,
        queue=record.queue.kind,
        rate=float(scenario.producers.rate),
        workers=int(scenario.workers.count),
        work_s=float(scenario.workers.work_s),
        cpus=int(record.host.cpus),
        kept_per_job=kept_per_job,
        dead=usable["dead"].to_numpy(float),
        claim_s=usable["claim_ms_p50"].to_numpy(float) / 1e3,
        calls_per_job=(claimed + usable["lost_race"].to_numpy(float)) / claimed,
        empty_per_job=usable["empty"].to_numpy(float) / claimed,
        completed=usable["completed"].to_numpy(float),
        busy=_count_busy(usable, scenario.workers),
        held_s=(to_ns - from_ns) / NS_PER_S,
        depth_at_end=_read_last(held["depth"]),
        time_to_saturation_s=_find_saturation(held, float(scenario.producers.rate)),
        baseline_claim_s=baseline_claim_ms / 1e3 if baseline_claim_ms is not None else None,
        notes=_note(record, _read_baseline(run, "cpu_percent", "mean"), from_ns, to_ns),
    )


def _find_longest_hold(record: RunRecord) -> tuple[str, int, int]:
    """Return a longrunner's name, and from when (verified) to when it held the horizon."""
    holds = [
        (longrunner.name, longrunner.verified_ns, longrunner.end_ns)
        for longrunner in record.longrunners
        if longrunner.verified_ns and longrunner.end_ns and longrunner.active_to_end
    ]
    if not holds:
        raise BadInputError(
            f"{record.id}: no long transaction held the horizon in this run, so there are no lasting dead tuples whose cost could be fitted; "
            "expected a run with a longrunner, like that of: stallbench run longtx"
        )
    return max(holds, key=lambda hold: hold[2] - hold[1])


def _count_kept(held: pd.DataFrame, where: str) -> float:
    """Return how many dead tuples remain per completed job: the slope of the sampled dead tuples over the completions."""
    rows = held.assign(done=held["completed"].astype(float).cumsum())[["done", "dead_tuples"]].dropna()
    if len(rows) < FEWEST_SECONDS or rows["done"].nunique() < FEWEST_SECONDS:
        raise BadInputError(
            f"{where} held the horizon, but dead tuples were sampled in only {len(rows)} seconds of it; a fit needs {FEWEST_SECONDS} or "
            "more, of a queue in PostgreSQL, with collectors.enabled = true"
        )
    kept = float(stats.theilslopes(rows["dead_tuples"], rows["done"]).slope)
    if kept < _FEWEST_KEPT:
        raise BadInputError(
            f"{where} held the horizon, but dead tuples did not remain ({kept:.2f} per completed job), so their cost cannot be "
            "fitted; expected a longrunner that keeps vacuum from removing them, like idle_writer"
        )
    return kept


def _count_busy(rows: pd.DataFrame, workers: Workers) -> Array:
    """Return the busy workers: each claim that finds no job is followed by a pause of ``poll_s`` on average; otherwise a worker is busy."""
    count = float(workers.count)
    pausing = rows["empty"].to_numpy(float) * float(workers.poll_s)
    return np.clip(count - pausing, 0.0, count)


def _find_saturation(held: pd.DataFrame, rate: float) -> float | None:
    time_s = find_time_to_saturation_s(held, rate)
    return time_s if time_s is not None and math.isfinite(time_s) else None


def _read_last(values: pd.Series[float]) -> float | None:
    sampled = values.dropna()
    return float(sampled.iloc[-1]) if len(sampled) else None


def _read_baseline(run: RunTables, measure: str, statistic: str) -> float | None:
    first = next((phase.name for phase in run.record.measured_phases), None)
    if first is None or any(longrunner.phase == first for longrunner in run.record.longrunners):
        return None
    return run.metric(measure, statistic, first)


def _note(record: RunRecord, busy_percent: float | None, from_ns: int, to_ns: int) -> tuple[str, ...]:
    notes = []
    if busy_percent is not None and busy_percent > _BUSY_PERCENT:
        notes.append(
            f"the machine was {busy_percent:.0f} % busy already in the baseline; the forecast is for a machine with the same other work"
        )
    if record.status != "completed":
        notes.append(f"the run is {record.status}, not completed")
    over = [
        fault.name for fault in record.faults if fault.start_ns and fault.start_ns < to_ns and (fault.end_ns or to_ns) > from_ns
    ]
    if over:
        notes.append(f"while the horizon was held, {', '.join(over)} disturbed the run; the fit includes that")
    return tuple(notes)
