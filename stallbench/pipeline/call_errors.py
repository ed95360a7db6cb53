"""Counts the errors of calls by phase, process, kind and operation, and by the faults that may have caused them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from stallbench.engines.driver import CONNECT_TIMEOUT_S
from stallbench.engines.reconnection import LONGEST_PAUSE_S
from stallbench.pipeline.frames import constant
from stallbench.pipeline.time_axis import TimeAxis
from stallbench.records.events import ERROR_PATTERN, Event
from stallbench.records.nanoseconds import NEVER_NS, NS_PER_S
from stallbench.run.record import RunRecord

_FAULTS = "array<struct<name:string,start_ns:long,until_ns:long>>"
_LONGEST_POLL = 1.5
"""The pause of a worker that found no job is up to this many times the mean."""


def compute_grace_s(record: RunRecord) -> float:
    """Return for how many seconds after the verified end of a fault a client may still get its errors.

    An attempt to connect that began during the fault ends after `CONNECT_TIMEOUT_S`, and the next one follows after `LONGEST_PAUSE_S`. A client
    that does not use its connection notices only at its next call that the connection is lost: a worker after its job or its pause, a producer
    when its next job is due.
    """
    producers, workers = record.scenario.producers, record.scenario.workers
    clients = producers.count * (producers.users if producers.by_locust else 1)
    unused_s = [
        workers.work_s,
        *(fault.longest_job_s or 0 for fault in record.faults),
        _LONGEST_POLL * max(workers.poll_s, workers.max_poll_s or 0),
        clients / producers.rate if producers.rate else 0,
    ]
    return CONNECT_TIMEOUT_S + LONGEST_PAUSE_S + max(unused_s)


def make_errors(events: DataFrame, axis: TimeAxis, record: RunRecord) -> list[dict[str, Any]]:
    """Return a row for each phase, process, event (``error``, or ``retried`` by the queue itself), kind, operation and faults, with its count.

    ``phase``: null outside the phases. ``latest_phase``: the phase that had begun last; null before the first phase, when no fault had been active
    yet. ``kind``: the code that the detail begins with, an SQLSTATE, an error number or the driver's class. ``operation``: ``claim``,
    ``complete``, ``enqueue``, ``recover`` or ``connect``; empty if the detail does not name one. ``faults``: the names of those that were active
    during the call, or had been at most `compute_grace_s` before it began.
    """
    detail = F.coalesce("detail", F.lit(""))
    counted = (
        events.filter(F.col("event").isin(Event.ERROR, Event.RETRIED))
        .groupBy(
            axis.phase(F.col("t_ns")).alias("phase"),
            axis.latest_phase(F.col("t_ns")).alias("latest_phase"),
            "process",
            "event",
            F.regexp_extract(detail, ERROR_PATTERN, 1).alias("kind"),
            F.regexp_extract(detail, ERROR_PATTERN, 2).alias("operation"),
            _list_faults(record).alias("faults"),
        )
        .agg(F.count("*").alias("count"))
    )
    return [row.asDict() for row in counted.collect()]


def _list_faults(record: RunRecord) -> Column:
    """Return the names of the faults that may have caused an error. A fault without a recorded end lasts until the end of the records."""
    grace_ns = round(compute_grace_s(record) * NS_PER_S)
    intervals = [
        {
            "name": fault.name,
            "start_ns": fault.start_ns,
            "until_ns": end_ns + grace_ns if (end_ns := fault.verified_gone_ns or fault.end_ns) else NEVER_NS,
        }
        for fault in record.faults
        if fault.start_ns is not None
    ]
    if not intervals:
        return F.array().cast("array<string>")
    ended_ns = F.col("t_ns")
    began_ns = ended_ns - F.coalesce("duration_ns", F.lit(0))
    may_explain = F.filter(
        constant(intervals, _FAULTS), lambda fault: (ended_ns >= fault["start_ns"]) & (began_ns <= fault["until_ns"])
    )
    return F.transform(may_explain, lambda fault: fault["name"])
