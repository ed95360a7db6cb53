"""Counters and histograms of the moves of one process, counted as they are recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from stallbench.records.events import Event

_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_ERROR = re.compile(r"(?P<kind>\w+) in (?P<move>\w+)")
_MOST_KINDS = 50
"""Kinds of errors that have a series of their own; what comes after is ``other``."""

_COUNTED: Mapping[Event, tuple[str, str]] = {
    Event.ENQUEUED: ("jobs_enqueued", "Jobs that the queue has taken."),
    Event.CLAIMED: ("jobs_claimed", "Claims that got a job."),
    Event.COMPLETED: ("jobs_completed", "Completions that the queue has confirmed."),
    Event.FAILED: ("jobs_failed", "Executions that failed and of which the queue was told."),
    Event.EXPIRED: ("jobs_expired", "Reservations that ran out before the completion."),
    Event.EMPTY: ("claims_empty", "Claims that found nothing."),
    Event.LOST_RACE: ("claims_lost_race", "Claims that a re-check took back."),
}
_TIMED: Mapping[Event, tuple[str, str]] = {
    Event.ENQUEUED: ("enqueue_seconds", "Calls of enqueue."),
    Event.CLAIMED: ("claim_seconds", "Claims that got a job, from the call to the claimed row."),
    Event.COMPLETED: ("complete_seconds", "Calls of complete."),
}


def offered_rate() -> Gauge:
    """Return the figure of what a producer's schedule wants, to be set by whoever knows it, in jobs a second."""
    return Gauge("stallbench_offered_jobs_per_second", "Jobs that the schedule wants enqueued.", registry=None)


class EventFigures(Collector):
    """Counts what an event log records. One process alone uses it; the scrape reads from another thread."""

    def __init__(self) -> None:
        """Begin at zero, with every series there from the start but those of errors."""
        self._counters = {event: Counter(f"stallbench_{name}", help_, registry=None) for event, (name, help_) in _COUNTED.items()}
        self._histograms = {
            event: Histogram(f"stallbench_{name}", help_, buckets=_BUCKETS_S, registry=None)
            for event, (name, help_) in _TIMED.items()
        }
        self._errors = Counter("stallbench_errors", "Calls that raised.", ["kind", "move", "tried_again"], registry=None)
        self._kinds: set[str] = set()

    def observe(self, event: Event, duration_ns: int | None, detail: str) -> None:
        """Count one record."""
        counter = self._counters.get(event)
        if counter is not None:
            counter.inc()
        histogram = self._histograms.get(event)
        if histogram is not None and duration_ns is not None:
            histogram.observe(duration_ns / 1e9)
        if event in (Event.ERROR, Event.RETRIED):
            told = _ERROR.match(detail)
            kind, move = (told["kind"], told["move"]) if told else ("unknown", "unknown")
            if kind not in self._kinds and len(self._kinds) >= _MOST_KINDS:
                kind = "other"
            self._kinds.add(kind)
            self._errors.labels(kind, move, str(event is Event.RETRIED).lower()).inc()

    def collect(self) -> Iterable[Metric]:
        """Return all of them."""
        for metric in (*self._counters.values(), *self._histograms.values(), self._errors):
            yield from metric.collect()
