"""Prometheus and Grafana, who look on while a run goes on. Whatever is wrong with them, the run goes on without them."""

from __future__ import annotations

from stallbench.observers.observers import ObserverOptions, Observers, read_observer_options

__all__ = ["ObserverOptions", "Observers", "read_observer_options"]
