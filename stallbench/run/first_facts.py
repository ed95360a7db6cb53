"""What a run's sealed records show before its tables are made: jobs, backlog at the end, latency by phase. It needs no Spark.

The figures are those of the tables, by the same definitions (`stallbench.pipeline.job_states`, `stallbench.pipeline.statistics`): the latency of a job
is counted in the phase of its first completion, and a percentile is the smallest value that has its share of the values at or below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stallbench.records.events import Event
from stallbench.records.layouts import EVENT_IDS, EVENTS, FINAL_SNAPSHOT, STATED_JOBS
from stallbench.records.sealing import SealedRecords, read_sealed, seal
from stallbench.run.record import RunRecord, read_record

_MOST_EVENTS = 5_000_000
"""Enqueued and completed jobs together, of a run whose latencies are computed: they take up to 100 bytes of memory each."""
_COLUMNS = ("event_id", "job_id", "t_ns", "intended_ns")
_NS_PER_MS = 1_000_000
_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseLatency:
    """The latency of the jobs that were completed in a phase."""

    phase: str
    jobs: int
    p50_ms: float | None
    """None if no job was completed."""
    p95_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFacts:
    """What is known of a run without its tables."""

    enqueued: int
    completed: int
    """Jobs, each counted once; in a large run, completions."""
    held: int | None
    """Jobs that the queue still held at the end; none without a whole final snapshot."""
    latencies: tuple[PhaseLatency, ...]
    """Of each measured phase that was started; empty if they are not known yet."""
    why_no_latencies: str = ""


def read_first_facts(folder: Path) -> FirstFacts:
    """Read the sealed records of a run, which are sealed first if they are not.

    Raises `OSError` if they cannot be sealed or read, `stallbench.errors.BadInputError` if ``run.json`` cannot be read.
    """
    sealed = seal(folder)
    record = read_record(folder / "run.json")
    enqueued, completed = (_count(sealed, event) for event in (Event.ENQUEUED, Event.COMPLETED))
    held = [file.counts[STATED_JOBS] for file in sealed.files if file.kind == FINAL_SNAPSHOT.kind and STATED_JOBS in file.counts]
    latencies: tuple[PhaseLatency, ...] = ()
    why_none = f"the latency of {completed:,} jobs is known when the tables are made"
    if enqueued + completed <= _MOST_EVENTS:
        jobs = _read_jobs(folder, sealed)
        completed = len(jobs.completed_ids)
        why_none = "several jobs had the same id: which is which is known when the tables are made" if jobs.has_reused_ids else ""
        if not why_none:
            latencies = _measure_latencies(record, sealed, jobs)
    return FirstFacts(
        enqueued=enqueued, completed=completed, held=held[0] if held else None, latencies=latencies, why_no_latencies=why_none
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Jobs:
    enqueued_ids: _Numbers
    """Sorted."""
    intended_ns: _Numbers
    """Of each of these; `_NONE` if it is not known."""
    has_reused_ids: bool
    completed_ids: _Numbers
    """Each once."""
    completed_ns: _Numbers
    """Its first completion."""


_NONE = np.iinfo(np.int64).min


def _count(sealed: SealedRecords, event: Event) -> int:
    return sum(file.counts.get(event, 0) for file in sealed.files if file.kind == EVENTS.kind)


def _read_jobs(folder: Path, sealed: SealedRecords) -> _Jobs:
    enqueued: list[pa.Table] = []
    completed: list[pa.Table] = []
    for file in sealed.files:
        if file.kind != EVENTS.kind or not (file.counts.get(Event.ENQUEUED) or file.counts.get(Event.COMPLETED)):
            continue
        for events in read_sealed(folder, file, _COLUMNS):
            for event, found in ((Event.ENQUEUED, enqueued), (Event.COMPLETED, completed)):
                found.append(events.filter(pc.equal(events["event_id"], EVENT_IDS[event])).drop_columns(["event_id"]))
    ids, intended_ns = _numbers_of(enqueued, "intended_ns")
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    completed_ids, completed_ns = _numbers_of(completed, "t_ns")
    by_time = np.lexsort((completed_ns, completed_ids))
    unique_ids, first = np.unique(completed_ids[by_time], return_index=True)
    return _Jobs(
        enqueued_ids=ids,
        intended_ns=intended_ns[order],
        has_reused_ids=len(ids) < _count(sealed, Event.ENQUEUED) or bool((ids[1:] == ids[:-1]).any()),
        completed_ids=unique_ids,
        completed_ns=completed_ns[by_time][first],
    )


def _numbers_of(tables: list[pa.Table], column: str) -> tuple[_Numbers, _Numbers]:
    """Return the ids of the jobs and what ``column`` has for each; events without an id are left out."""
    if not tables:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    table = pa.concat_tables(tables)
    table = table.filter(pc.is_valid(table["job_id"]))
    numbers: list[Any] = [table["job_id"].to_numpy(), pc.fill_null(table[column], int(_NONE)).to_numpy()]
    return numbers[0], numbers[1]


def _measure_latencies(record: RunRecord, sealed: SealedRecords, jobs: _Jobs) -> tuple[PhaseLatency, ...]:
    at = np.searchsorted(jobs.enqueued_ids, jobs.completed_ids)
    is_known = at < len(jobs.enqueued_ids)
    is_known[is_known] = jobs.enqueued_ids[at[is_known]] == jobs.completed_ids[is_known]
    is_known[is_known] = jobs.intended_ns[at[is_known]] != _NONE
    completed_ns = jobs.completed_ns[is_known]
    latency_ns = completed_ns - jobs.intended_ns[at[is_known]]
    last_ns = max((file.last_ns for file in sealed.files if file.last_ns is not None), default=0)
    return tuple(
        _measure_one(phase.name, latency_ns[(completed_ns >= start_ns) & (completed_ns < end_ns)])
        for phase, start_ns, end_ns in record.place_phases(last_ns)
        if phase.measured
    )


def _measure_one(phase: str, latency_ns: _Numbers) -> PhaseLatency:
    if not len(latency_ns):
        return PhaseLatency(phase=phase, jobs=0, p50_ms=None, p95_ms=None)
    places = [(len(latency_ns) * percent + 99) // 100 - 1 for percent in (50, 95)]
    ordered = np.partition(latency_ns, places)
    p50_ms, p95_ms = (float(ordered[place]) / _NS_PER_MS for place in places)
    return PhaseLatency(phase=phase, jobs=len(latency_ns), p50_ms=p50_ms, p95_ms=p95_ms)
