"""Figures of the last seconds of a run, for the screen; the report uses the full records.

Only the end of each file is read, so that the cost does not depend on the length of the run. At very high rates this end may cover
less than the window: rates are then computed over the time that it covers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stallbench.engines.collectors.holders import WORTH_RECORDING_S
from stallbench.measure_definition import FromSamples
from stallbench.measures import MEASURES
from stallbench.records.events import Event, EventRecord
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.records.reading import read_events, read_samples
from stallbench.run.folder import RunFolder

_TAIL_BYTES = 128 * 1024
_WINDOW_S = 2.0
_FRESH_S = 10.0
_SHOWN = {"backlog", "tables", "transactions", "horizon", "locks"} | {
    f"innodb_{name}" for name in ("transactions", "horizon", "locks", "purge")
}
"""The collectors whose latest samples are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFigures:
    """The figures of the last two seconds; None if a figure is unknown."""

    enqueued_rate: float | None
    """Jobs per second."""
    completed_rate: float | None
    claim_ms_p95: float | None
    times_claims: bool
    """Whether the queue's claims are timed; those of a library are not."""
    depth: int | None
    dead_tuples: int | None
    """PostgreSQL only."""
    history_list_length: int | None
    """InnoDB only."""
    deadlocks: int | None
    """Number since the start of the server."""
    oldest_transaction_s: float | None
    oldest_job_s: float | None
    """How long the oldest job that is ready has waited."""
    holder: str | None
    """The oldest holder of the horizon: its application, server, pid and state."""


def read_live_figures(folder: RunFolder, *, times_claims: bool) -> LiveFigures:
    """Read the ends of the event logs and of the samples that are shown. ``times_claims``: whether the queue's claims are timed."""
    now_ns = time.time_ns()
    claims_ns: list[int] = []
    enqueued_rate = completed_rate = 0.0
    for path in folder.events.glob("*.csv"):
        recent, since_ns = _read_recent_events(path, now_ns - int(_WINDOW_S * NS_PER_S))
        span_s = max((now_ns - since_ns) / NS_PER_S, 0.1)
        enqueued_rate += sum(record.event is Event.ENQUEUED for record in recent) / span_s
        completed_rate += sum(record.event is Event.COMPLETED for record in recent) / span_s
        claims_ns += [record.duration_ns for record in recent if record.event is Event.CLAIMED and record.duration_ns is not None]
    claims_ns.sort()
    latest = _read_latest_samples(folder.samples, now_ns)
    return LiveFigures(
        enqueued_rate=enqueued_rate,
        completed_rate=completed_rate,
        claim_ms_p95=claims_ns[int(len(claims_ns) * 0.95)] / 1e6 if claims_ns else None,
        times_claims=times_claims,
        depth=_count(latest, "depth"),
        dead_tuples=_count(latest, "dead_tuples"),
        history_list_length=_count(latest, "history_list_length"),
        deadlocks=_count(latest, "deadlocks"),
        oldest_transaction_s=_combine(latest, "oldest_transaction_s"),
        oldest_job_s=_combine(latest, "oldest_job_s"),
        holder=_name_holder(latest),
    )


def _read_recent_events(path: Path, since_ns: int) -> tuple[list[EventRecord], int]:
    """Return the records of a log since ``since_ns``, and the time from which they are complete, which is later if the part that is read begins
    later.
    """
    tail = list(read_events(path, tail_bytes=_TAIL_BYTES))
    recent = [record for record in tail if record.t_ns >= since_ns]
    return recent, max(since_ns, recent[0].t_ns if recent and len(recent) == len(tail) else 0)


def _read_latest_samples(samples: Path, now_ns: int) -> dict[tuple[str, str, str], str]:
    latest: dict[tuple[str, str, str], str] = {}
    for path in samples.glob("*.csv"):
        if path.stem not in _SHOWN:
            continue
        tail = list(read_samples(path, tail_bytes=_TAIL_BYTES))
        if tail and now_ns - tail[-1].t_ns < _FRESH_S * NS_PER_S:
            latest.update({(one.source, one.subject, one.metric): one.value for one in tail if one.t_ns == tail[-1].t_ns})
    return latest


def _count(latest: Mapping[tuple[str, str, str], str], name: str) -> int | None:
    """Return `_combine` of a measure that counts something."""
    value = _combine(latest, name)
    return None if value is None else int(value)


def _combine(latest: Mapping[tuple[str, str, str], str], name: str) -> float | None:
    """Return the latest value of a measure, combined over subjects and servers as its source says; none if it was not sampled."""
    source = MEASURES[name].source
    assert isinstance(source, FromSamples)
    values = [
        float(value)
        for (_, subject, metric), value in latest.items()
        if metric == (source.metric or name) and source.subject in ("", subject.partition(":")[0])
    ]
    combine = sum if source.combine == "sum" else max
    return combine(values) if values else None


def _name_holder(latest: dict[tuple[str, str, str], str]) -> str | None:
    oldest = [(source, subject) for (source, subject, metric), value in latest.items() if metric == "rank" and value == "0"]
    if not oldest:
        return None
    source, subject = oldest[0]
    if float(latest.get((source, subject, "age_s"), WORTH_RECORDING_S)) < WORTH_RECORDING_S:
        return None
    application = latest.get((source, subject, "application")) or subject.removeprefix("holder:")
    state = latest.get((source, subject, "state"))
    pid = latest.get((source, subject, "pid"))
    about = ", ".join(part for part in (f"pid {pid}" if pid else "", state or "") if part)
    return f"{application.removeprefix('stallbench:longrunner:')} on {source}" + (f" ({about})" if about else "")
