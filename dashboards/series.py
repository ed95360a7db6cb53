"""The names of Prometheus series, from the measures that they show."""

from __future__ import annotations

from stallbench.measures import MEASURES


def series(measure: str) -> str:
    """Return the name of the series of ``measure``; Prometheus' suffixes (``_total``, ``_bucket``) come after it."""
    name = MEASURES[measure].prometheus_name
    assert name, f"{measure} is not exposed to Prometheus"
    return f"stallbench_{name}"
