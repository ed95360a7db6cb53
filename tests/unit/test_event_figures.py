"""What a process tells Prometheus about its operations."""

from __future__ import annotations

import pytest

from stallbench.processes.event_figures import EventFigures
from stallbench.records.events import Event, format_error


@pytest.mark.parametrize(
    ("detail", "kind", "operation"),
    [
        (format_error("40P01", "claim", "deadlock detected"), "40P01", "claim"),
        (format_error("SQLITE_BUSY", "complete", "database is locked"), "SQLITE_BUSY", "complete"),
        (format_error("-10", "enqueue", "Aerospike cannot be reached"), "-10", "enqueue"),
        ("", "unknown", "unknown"),
    ],
)
def test_an_error_is_counted_by_its_code_and_operation(detail: str, kind: str, operation: str) -> None:
    figures = EventFigures()
    figures.observe(Event.ERROR, None, detail)
    labels = [
        sample.labels for metric in figures.collect() for sample in metric.samples if sample.name == "stallbench_errors_total"
    ]
    assert labels == [{"kind": kind, "operation": operation, "retried": "false"}]
