"""What Prometheus can ask every process of a run while it goes on: the same figures as in its records, as they come."""

from __future__ import annotations

from stallbench.exposition.event_figures import EventFigures, offered_rate
from stallbench.exposition.exposure import Exposure, serve
from stallbench.exposition.sample_figures import SampleFigures

__all__ = ["EventFigures", "Exposure", "SampleFigures", "offered_rate", "serve"]
