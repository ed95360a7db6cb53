"""Jobs that are in the records, or in the queue, and that no producer recorded as enqueued: how many of them a failed call or a death explains.

A call that failed, or that a producer was making when it died, may have stored its own batch and no more: in the time of the call, and with ids
between those of the calls before and after it. So each such call is a *gap* of the records with room for so many jobs. Every job without a record is
put into a gap that its id allows, as many as there is room for. The others were enqueued by nobody.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stallbench.pipeline.conservation import Unrecorded, is_unrecorded
from stallbench.pipeline.jobs_by_time import slot_of, span_of
from stallbench.pipeline.overdue import find_end_of_faults
from stallbench.pipeline.read import Records, is_event
from stallbench.pipeline.tables import EXAMPLES
from stallbench.pipeline.time_axis import PATIENCE_S
from stallbench.processes.record import ProcessRecord
from stallbench.records.events import ENQUEUE, ERROR_PATTERN, Event
from stallbench.records.layouts import EVENTS
from stallbench.records.nanoseconds import NEVER_NS, NS_PER_S
from stallbench.run.record import RunRecord

_MOST_GAPS = 500
"""With more, neighbours are joined, so that the query which counts the jobs by gap stays small."""
_ANY_NUMBER = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A call that may have stored jobs without a record."""

    from_ns: int
    to_ns: int
    """Until then the server may have carried it out."""
    room: float
    """How many jobs at most."""


def explain_unrecorded(jobs: DataFrame, records: Records, record: RunRecord) -> Unrecorded:
    """Put the jobs without a record into the gaps of the run."""
    gaps = find_gaps(records, record)
    windows = _find_windows(gaps, jobs) if gaps else []
    edges = sorted({int(edge) for low, high, _ in windows for edge in (low, high) if math.isfinite(edge)})
    place = span_of("job_id", edges) if edges else F.lit(None)
    counted = (
        jobs.filter(is_unrecorded())
        .groupBy(F.coalesce(place.cast("long"), F.lit(-1)).alias("place"))
        .agg(F.count("*").alias("jobs"), F.min_by("job_id", "job_id", EXAMPLES).alias("examples"))
        .orderBy("place")
        .collect()
    )
    starts = [-math.inf, *edges]
    return fill_gaps(windows, [(starts[row["place"] + 1], row["jobs"], row["examples"]) for row in counted])


def fill_gaps(windows: Sequence[tuple[float, float, float]], found: Sequence[tuple[float, int, Sequence[int]]]) -> Unrecorded:
    """Put jobs into windows of ids, ``(lowest, end, room)``.

    ``found``: ``(lowest, jobs, examples)`` of each stretch of ids that has jobs, in order; the edges of windows are edges of stretches. A job goes into
    the window that ends first, so that as many as possible find room.
    """
    waiting = sorted(windows, reverse=True)
    opened: list[tuple[float, int]] = []
    room: dict[int, float] = {}
    explained, unexpected = 0, 0
    of_explained: list[int] = []
    of_unexpected: list[int] = []
    for start, jobs, examples in found:
        while waiting and waiting[-1][0] <= start:
            _, end, size = waiting.pop()
            room[len(room)] = size
            heapq.heappush(opened, (end, len(room) - 1))
        left = jobs
        while left and opened:
            end, number = opened[0]
            taken = int(min(left, room[number])) if end > start else 0
            left -= taken
            room[number] -= taken
            if end <= start or room[number] < 1:
                heapq.heappop(opened)
        explained, unexpected = explained + jobs - left, unexpected + left
        if jobs > left:
            of_explained += examples[: jobs - left]
        if left:
            of_unexpected += examples[-left:] if left < len(examples) else examples
    return Unrecorded(
        explained=explained,
        explained_examples=tuple(of_explained[:EXAMPLES]),
        unexpected=unexpected,
        unexpected_examples=tuple(of_unexpected[:EXAMPLES]),
    )


def find_gaps(records: Records, record: RunRecord) -> list[Gap]:
    """Return the calls that may have stored jobs without a record: those that failed without naming the job, and those in which a producer died.

    A torn line in a producer's log may have been any call.
    """
    producers = {process.name for process in record.processes_of("producer")}
    logs = {f"{EVENTS.kind}/{name}.csv" for name in producers}
    files = [file for file in records.files if file.name in logs]
    if any(file.torn_lines for file in files):
        return [Gap(from_ns=0, to_ns=NEVER_NS, room=_ANY_NUMBER)]
    gaps = [
        Gap(
            from_ns=records.last_recorded_ns.get(process.name, process.start_ns),
            to_ns=process.end_ns or NEVER_NS,
            room=_find_batch(process, record),
        )
        for process in record.processes_of("producer")
        if process.name in record.dead_processes
    ]
    if any(file.counts[Event.ERROR] for file in files):
        gaps += _find_failed_calls(records, producers)
    return [
        Gap(from_ns=gap.from_ns, to_ns=find_end_of_faults(gap.to_ns, record) + int(PATIENCE_S * NS_PER_S), room=gap.room)
        for gap in gaps
    ]


def _find_failed_calls(records: Records, producers: set[str]) -> list[Gap]:
    """Return the failed calls of each tenth of a second; there is an error for each job of a call."""
    operation = F.regexp_extract(F.coalesce("detail", F.lit("")), ERROR_PATTERN, 2)
    began_ns = F.col("t_ns") - F.coalesce("duration_ns", F.lit(0))
    failed = is_event(Event.ERROR) & F.col("job_id").isNull() & (operation == ENQUEUE) & F.col("process").isin(sorted(producers))
    counted = (
        records.events.filter(failed)
        .groupBy(slot_of(began_ns).alias("slot"))
        .agg(F.min(began_ns).alias("from_ns"), F.max("t_ns").alias("to_ns"), F.count("*").alias("room"))
    )
    return [Gap(from_ns=row["from_ns"], to_ns=row["to_ns"], room=row["room"]) for row in counted.collect()]


def _find_batch(process: ProcessRecord, record: RunRecord) -> float:
    """Return how many jobs a producer may have been enqueuing when it died. What fills the queue before the first phase does so in large calls."""
    producers, begun = record.scenario.producers, record.started_phases
    of_scenario = {f"producer-{number}" for number in range(1, producers.count + 1)}
    is_of_scenario = any(process.name == name or process.name.startswith(f"{name}-") for name in of_scenario)
    fills = not begun or begun[0].start_ns is None or (process.end_ns or NEVER_NS) < begun[0].start_ns
    if not is_of_scenario or process.external or fills:
        return _ANY_NUMBER
    return producers.users if producers.by_locust else producers.max_batch


def _find_windows(gaps: Sequence[Gap], jobs: DataFrame) -> list[tuple[float, float, float]]:
    """Return ``(lowest, end, room)`` of the ids that jobs of each gap may have. Without bounds, if ids do not ascend in the order of the calls."""
    happened = F.inline(
        F.array(
            F.struct(F.lit(True).alias("is_begin"), slot_of(F.col("enqueue_began_ns")).alias("slot"), "job_id"),
            F.struct(F.lit(False).alias("is_begin"), slot_of(F.col("enqueued_ns")).alias("slot"), "job_id"),
        )
    )
    counted = (
        jobs.filter("enqueue_recorded AND job_id > 0")
        .select(happened)
        .groupBy("is_begin", "slot")
        .agg(F.min("job_id").alias("lowest"), F.max("job_id").alias("highest"))
        .toPandas()
    )
    return place_gaps(gaps, counted)


def place_gaps(gaps: Sequence[Gap], counted: pd.DataFrame) -> list[tuple[float, float, float]]:
    """Return the window of ids of each gap, ``(lowest, end, room)``.

    ``counted``: ``is_begin, slot, lowest, highest``: the ids of the recorded calls that began or ended in each slot of time.
    """
    begins = counted[counted["is_begin"]].sort_values("slot")
    ends = counted[~counted["is_begin"]].sort_values("slot")
    begin_slots, end_slots = (part["slot"].to_numpy("int64") for part in (begins, ends))
    later = np.append(np.minimum.accumulate(begins["lowest"].to_numpy("int64")[::-1])[::-1].astype(float), math.inf)
    before = np.append(-math.inf, np.maximum.accumulate(ends["highest"].to_numpy("int64")).astype(float))
    ascends = bool((before[1:] < later[np.searchsorted(begin_slots, end_slots, side="right")]).all())
    windows = []
    for gap in _join(gaps):
        if not ascends:
            windows.append((-math.inf, math.inf, gap.room))
            continue
        highest_before = before[np.searchsorted(end_slots, _slot(gap.from_ns), side="left")]
        lowest_after = later[np.searchsorted(begin_slots, _slot(gap.to_ns), side="right")]
        windows.append((float(highest_before) + 1, float(lowest_after), gap.room))
    return windows


def _join(gaps: Sequence[Gap]) -> list[Gap]:
    """Return at most `_MOST_GAPS` gaps: neighbours are joined if there are more."""
    in_order = sorted(gaps, key=lambda gap: gap.from_ns)
    at_once = -(-len(in_order) // _MOST_GAPS)
    parts = [in_order[begin : begin + at_once] for begin in range(0, len(in_order), at_once)] if in_order else []
    return [
        Gap(from_ns=part[0].from_ns, to_ns=max(gap.to_ns for gap in part), room=sum(gap.room for gap in part)) for part in parts
    ]


def _slot(t_ns: int) -> int:
    return t_ns // (NS_PER_S // 10)
