"""Prometheus and Grafana, which observe a run. If they fail, the run continues without them."""

from __future__ import annotations

from stallbench.run.observers.observers import ObserverOptions, Observers, read_observer_options

__all__ = ["ObserverOptions", "Observers", "read_observer_options"]
