"""What the terminal shows of a soak at its end."""

from __future__ import annotations

from stallbench.soak.record import SoakRecord


def print_soak(record: SoakRecord, report: str) -> None:
    """Print it."""
    print(record.model_dump_json(indent=1))
