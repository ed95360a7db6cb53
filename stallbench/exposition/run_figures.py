"""What the run as a whole is in: its phase, and what is wrong in it; dashboards draw both behind every curve."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stallbench.exposition.intervals import Interval

_SHOWN_S = 3.0
"""How long a fault of a moment is told, so that no scrape misses it."""


class RunFigures(Collector):
    """Keeps the stretches of the run; the scrape reads from another thread."""

    def __init__(self) -> None:
        """Begin with none."""
        self._intervals: Sequence[Interval] = ()

    def observe(self, intervals: Sequence[Interval]) -> None:
        """Take all that have begun."""
        self._intervals = tuple(intervals)

    def collect(self) -> Iterable[Metric]:
        """Return 1 for each that goes on."""
        # `phase` is a label of every series already, and later by as much as Prometheus needs to learn of it.
        phase = GaugeMetricFamily("stallbench_phase", "1 for the phase that the run is in.", labels=["name", "kind"])
        fault = GaugeMetricFamily(
            "stallbench_fault_in_force", "1 for each fault and longrunner in force.", labels=["name", "kind", "on"]
        )
        for interval in self._intervals:
            if interval.end_ns is not None and (interval.what == "phase" or time.time_ns() - interval.start_ns > _SHOWN_S * 1e9):
                continue
            if interval.what == "phase":
                phase.add_metric([interval.name, interval.kind], 1)
            else:
                fault.add_metric([interval.name, interval.kind, interval.on], 1)
        return [phase, fault]
