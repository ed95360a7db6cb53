"""What a whole line of each kind of record file holds, for Arrow; `stallbench.pipeline.read` states the same for Spark."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from stallbench.pipeline.layouts import (
    EVENT_IDS,
    EVENTS,
    FINAL_SNAPSHOT,
    LEFT_OVER,
    OVERDUE,
    PRECONDITIONS,
    SAMPLES,
    STATED_JOBS,
    SUBJECTS,
    Layout,
)
from stallbench.pipeline.whole_files import Content, NotWholeError
from stallbench.records.events import Event
from stallbench.records.final_snapshot import CLAIMED, END, QUEUED

_STATES = (QUEUED, CLAIMED)


def _keep_events(process_ids: Mapping[str, int], table: pa.Table) -> pa.Table:
    """Keep the columns of an event, with numbers for the names: Spark compares numbers several times as fast."""
    kept = table.select(EVENTS.kept)
    kept = kept.append_column("process_id", _number_words(table["process"], process_ids, pa.int64()))
    return kept.append_column("event_id", _number_words(table["event"], EVENT_IDS, pa.int32()))


def _number_words(words: pa.ChunkedArray, numbers: Mapping[str, int], kind: pa.DataType) -> pa.ChunkedArray:
    try:
        chunks = [
            pa.DictionaryArray.from_arrays(
                chunk.indices, pa.array([numbers[word] for word in chunk.dictionary.to_pylist()], kind)
            )
            for chunk in words.chunks
        ]
    except KeyError:
        raise NotWholeError from None
    return pa.chunked_array(chunks, pa.dictionary(pa.int32(), kind))


def _count_events(table: pa.Table) -> dict[str, int]:
    waiting = pc.and_(pc.equal(table["event"], str(Event.ENQUEUED)), pc.is_valid(table["detail"]))
    return dict.fromkeys(map(str, Event), 0) | _count_words(table, "event") | {PRECONDITIONS: _count_true(waiting)}


def _keep_samples(table: pa.Table) -> pa.Table:
    return table.select(SAMPLES.kept)


def _count_samples(table: pa.Table) -> dict[str, int]:
    counts = {name: _count_true(pc.starts_with(table["subject"].cast(pa.string()), start)) for start, name in SUBJECTS.items()}
    overdue = table.filter(pc.equal(table["metric"], "vacuum_overdue_s"))["value"].drop_null()
    try:
        return counts | {OVERDUE: _count_true(pc.greater(overdue.cast(pa.float64()), 0))}
    except pa.ArrowInvalid:
        raise NotWholeError from None


def _keep_snapshot(table: pa.Table) -> pa.Table:
    """Keep the jobs; the last line is no job, but states their number."""
    jobs = table.slice(0, table.num_rows - 1) if _ends(table) else table
    if not _count_words(jobs, "word").keys() <= set(_STATES):
        raise NotWholeError
    try:
        return pa.table({"job_id": jobs["key"].cast(pa.int64()), "held": jobs["word"]})
    except pa.ArrowInvalid:
        raise NotWholeError from None


def _count_stated_jobs(table: pa.Table) -> dict[str, int]:
    if not _ends(table):
        return {}
    try:
        return {STATED_JOBS: int(table["word"][-1].as_py())}
    except ValueError:
        raise NotWholeError from None


def _ends(snapshot: pa.Table) -> bool:
    return bool(snapshot["key"][-1].as_py() == END)


def _count_words(table: pa.Table, column: str) -> dict[str, int]:
    counted: dict[str, int] = {}
    for found in pc.value_counts(table[column].unify_dictionaries()).to_pylist():
        counted[found["values"]] = found["counts"]
    return counted


def _count_true(condition: pa.ChunkedArray) -> int:
    return int(pc.sum(condition).as_py() or 0)


def _of_snapshot(layout: Layout) -> Content:
    return Content(layout=layout, words=frozenset({"word"}), given=layout.columns, keep=_keep_snapshot, count=_count_stated_jobs)


def list_contents(process_ids: Mapping[str, int]) -> list[Content]:
    """Return what the lines of each kind of record file hold; ``process_ids``: the number of each process that has an event log."""
    return [
        Content(
            layout=EVENTS,
            words=frozenset({"process", "event"}),
            given=("t_ns", "mono_ns", "process", "event"),
            keep=partial(_keep_events, process_ids),
            count=_count_events,
        ),
        Content(
            layout=SAMPLES,
            words=frozenset({"source", "subject", "metric"}),
            given=("t_ns", "source", "subject", "metric"),
            keep=_keep_samples,
            count=_count_samples,
        ),
        _of_snapshot(FINAL_SNAPSHOT),
        _of_snapshot(LEFT_OVER),
    ]
