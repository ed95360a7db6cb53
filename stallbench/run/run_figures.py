"""The current phase and the active injections of a run; dashboards draw both behind every curve."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stallbench.records.nanoseconds import NS_PER_S
from stallbench.run.intervals import Interval

_SHOWN_S = 3.0
"""How long a momentary fault is exposed, so that no scrape misses it."""


class RunFigures(Collector):
    """Keeps the intervals of the run; the scrape reads from another thread."""

    def __init__(self) -> None:
        """Start without intervals."""
        self._intervals: Sequence[Interval] = ()

    def observe(self, intervals: Sequence[Interval]) -> None:
        """Take all intervals that have begun."""
        self._intervals = tuple(intervals)

    def collect(self) -> Iterable[Metric]:
        """Return 1 for each interval that has not ended."""
        # `phase` is a label of every series already, and later by as much as Prometheus needs to learn of it.
        phase = GaugeMetricFamily("stallbench_phase", "1 for the current phase.", labels=["name", "kind"])
        fault = GaugeMetricFamily(
            "stallbench_injection_active", "1 for each active fault and longrunner.", labels=["name", "kind", "on"]
        )
        for interval in self._intervals:
            if interval.end_ns is not None and (
                interval.what == "phase" or time.time_ns() - interval.start_ns > _SHOWN_S * NS_PER_S
            ):
                continue
            if interval.what == "phase":
                phase.add_metric([interval.name, interval.kind], 1)
            else:
                fault.add_metric([interval.name, interval.kind, interval.on], 1)
        return [phase, fault]
