"""Prometheus and Grafana, who look on while a run goes on. Whatever is wrong with them, the run goes on without them."""

from __future__ import annotations

from stallbench.onlookers.onlookers import Onlookers, Watching, read_watching

__all__ = ["Onlookers", "Watching", "read_watching"]
