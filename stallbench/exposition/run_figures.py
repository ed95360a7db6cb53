"""What the run as a whole is in: its phase, and what is wrong in it; dashboards draw both behind every curve."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stallbench.onlookers.stretches import Stretch

_SHOWN_S = 3.0
"""How long a fault of a moment is told, so that no scrape misses it."""


class RunFigures(Collector):
    """Keeps the stretches of the run; the scrape reads from another thread."""

    def __init__(self) -> None:
        """Begin with none."""
        self._stretches: Sequence[Stretch] = ()

    def observe(self, stretches: Sequence[Stretch]) -> None:
        """Take all that have begun."""
        self._stretches = tuple(stretches)

    def collect(self) -> Iterable[Metric]:
        """Return 1 for each that goes on."""
        # `phase` is a label of every series already, and later by as much as Prometheus needs to learn of it.
        phase = GaugeMetricFamily("stallbench_phase", "1 for the phase that the run is in.", labels=["name", "kind"])
        fault = GaugeMetricFamily(
            "stallbench_fault_in_force", "1 for each fault and longrunner in force.", labels=["name", "kind", "on"]
        )
        for stretch in self._stretches:
            if stretch.end_ns is not None and (stretch.what == "phase" or time.time_ns() - stretch.start_ns > _SHOWN_S * 1e9):
                continue
            if stretch.what == "phase":
                phase.add_metric([stretch.name, stretch.kind], 1)
            else:
                fault.add_metric([stretch.name, stretch.kind, stretch.on], 1)
        return [phase, fault]
