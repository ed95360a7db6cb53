"""Metrics that Prometheus can scrape from every process during a run: the figures of its records, as they are written.

`prometheus_client` and its web server take a third of the time that a worker needs to start, so only processes that are scraped load them. In
all others the functions here return none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallbench.exposition.exposure import Exposure, serve

if TYPE_CHECKING:
    from prometheus_client import Gauge

    from stallbench.exposition.event_figures import EventFigures
    from stallbench.exposition.sample_figures import SampleFigures

__all__ = ["Exposure", "make_event_figures", "make_offered_rate", "make_sample_figures", "serve"]


def make_event_figures(exposure: Exposure | None) -> EventFigures | None:
    """Return the figures of a process that writes an event log; none if it is not exposed."""
    if exposure is None:
        return None
    from stallbench.exposition.event_figures import EventFigures

    return EventFigures()


def make_sample_figures(exposure: Exposure | None, interval_s: float) -> SampleFigures | None:
    """Return the figures of the collectors, which sample every ``interval_s`` seconds; none if they are not exposed."""
    if exposure is None:
        return None
    from stallbench.exposition.sample_figures import SampleFigures

    return SampleFigures(interval_s)


def make_offered_rate(exposure: Exposure | None, rate: float) -> Gauge | None:
    """Return the gauge of a producer that enqueues ``rate`` jobs per second; none if it is not exposed."""
    if exposure is None:
        return None
    from stallbench.exposition.event_figures import offered_rate

    offered = offered_rate()
    offered.set(rate)
    return offered
