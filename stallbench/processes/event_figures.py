"""Counters and histograms of the operations of one process, counted as they are recorded.

A measure of single events is exposed under its `Measure.prometheus_name`.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from stallbench.measure_definition import FromEvents, Measure
from stallbench.measures import MEASURES
from stallbench.records.events import Event, parse_error
from stallbench.records.nanoseconds import NS_PER_S

_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_MOST_KINDS = 50
"""Kinds of errors with a series of their own; any further kind is ``other``."""


def _list_measures(*values: str | None) -> dict[Event, Measure]:
    """Return the measures of single events that have a Prometheus name, by their first event. ``values``: as in `FromEvents`."""
    return {
        measure.source.events[0]: measure
        for measure in MEASURES.values()
        if isinstance(measure.source, FromEvents) and measure.prometheus_name and measure.source.value in values
    }


_COUNTED: dict[Event, Measure] = {event: measure for event, measure in _list_measures(None).items() if event is not Event.ERROR}
_TIMED = _list_measures("duration", "since_due")
_ERRORS = MEASURES["errors"]


def offered_rate() -> Gauge:
    """Return the gauge of the scheduled rate, in jobs per second; the producer sets it."""
    return Gauge("stallbench_offered_jobs_per_second", "Scheduled rate of jobs to enqueue.", registry=None)


def _help_of(measure: Measure) -> str:
    return f"{measure.meaning[0].upper()}{measure.meaning[1:]}."


class EventFigures(Collector):
    """Counts what an event log records. One process alone uses it; the scrape reads from another thread."""

    def __init__(self) -> None:
        """Start at zero. Every series exists from the start, except those of errors."""
        self._counters: dict[Event, Counter] = {
            event: Counter(f"stallbench_{each.prometheus_name}", _help_of(each), registry=None)
            for event, each in _COUNTED.items()
        }
        self._histograms = {
            event: Histogram(f"stallbench_{each.prometheus_name}", _help_of(each), buckets=_BUCKETS_S, registry=None)
            for event, each in _TIMED.items()
        }
        self._errors = Counter(
            f"stallbench_{_ERRORS.prometheus_name}", _help_of(_ERRORS), ["kind", "operation", "retried"], registry=None
        )
        self._kinds: set[str] = set()

    def observe(self, event: Event, duration_ns: int | None, detail: str) -> None:
        """Count one record."""
        counter = self._counters.get(event)
        if counter is not None:
            counter.inc()
        histogram = self._histograms.get(event)
        if histogram is not None and duration_ns is not None:
            histogram.observe(duration_ns / NS_PER_S)
        if event in (Event.ERROR, Event.RETRIED):
            kind, operation = (part or "unknown" for part in parse_error(detail))
            if kind not in self._kinds and len(self._kinds) >= _MOST_KINDS:
                kind = "other"
            self._kinds.add(kind)
            self._errors.labels(kind, operation, str(event is Event.RETRIED).lower()).inc()

    def collect(self) -> Iterable[Metric]:
        """Return every series."""
        for metric in (*self._counters.values(), *self._histograms.values(), self._errors):
            yield from metric.collect()
