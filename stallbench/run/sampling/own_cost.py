"""What does sampling cost, and are the samples reliable? Records how long each sample took, how late it was, and how many were missed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from stallbench.records.samples import Sample, SampleLog

NAME = "own_cost"


class OwnCost:
    """The record of the collectors' own cost. All collectors share it; each line is one ``write``."""

    def __init__(self, samples: Path, observe: Callable[[Sequence[Sample]], None] | None = None) -> None:
        """Open its file in the folder ``samples``; ``observe`` receives what is written."""
        self._log = SampleLog(samples / f"{NAME}.csv", observe)

    def record(self, collector: str, t_ns: int, *, sample_ms: float, late_ms: float, missed_samples: int, failures: int) -> None:
        """Record one sample of ``collector``, taken at ``t_ns``.

        ``sample_ms``: how long taking and writing it took. ``late_ms``: how late it was. ``missed_samples`` and ``failures``:
        how many samples were missed, and how many failed wholly or in part, since the start.
        """
        values: dict[str, float | int] = {
            "sample_ms": round(sample_ms, 3),
            "late_ms": round(late_ms, 3),
            "missed_samples": missed_samples,
            "failures": failures,
        }
        subject = f"collector:{collector}"
        self._log.write(t_ns, [Sample("collector", subject, metric, value) for metric, value in values.items()])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._log.close()
