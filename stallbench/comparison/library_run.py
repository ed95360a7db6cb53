"""A run of a published library: what the tables in docs/libraries.md say of it."""

from __future__ import annotations

import json
from functools import cached_property
from math import isnan
from pathlib import Path

from stallbench.libraries import PREFIX, find_library
from stallbench.pipeline.failures import NoTableError
from stallbench.run.folder import RunFolder
from stallbench.verdicts.check import RunTables
from stallbench.verdicts.expectations import format_value


class LibraryRun:
    """A run whose queue is a library."""

    def __init__(self, folder: Path) -> None:
        """Remember the folder."""
        self._folder = RunFolder(folder)
        self.tables = RunTables(folder)

    @cached_property
    def name(self) -> str:
        """The library's, if the run's queue is one."""
        kind = self.tables.record.queue.kind
        return kind.removeprefix(PREFIX) if kind.startswith(PREFIX) else ""

    def has_tables(self) -> bool:
        """Whether its tables are there; those of a run that has just ended are still being made."""
        try:
            return all(self.tables[name] is not None for name in ("conservation", "phases", "recoveries"))
        except NoTableError:
            return False

    def count_stranded(self) -> int:
        """Return how many jobs the library still held for a worker when all workers had ended: they wait for a rescue, if there is one."""
        return sum(line.endswith(",claimed") for line in self._folder.final_snapshot.read_text().splitlines())

    def metric(self, name: str, phase: str | None) -> float | None:
        """Return a metric like ``latency_ms.p95`` in a phase."""
        measure, _, statistic = name.partition(".")
        return self.tables.metric(measure, statistic, phase)

    def has_late_producer(self) -> bool:
        """Whether the library's producer could not keep the schedule, so that jobs were late before they were enqueued."""
        findings = json.loads((self.tables.folder / "verdict.json").read_text())["findings"]
        return any(finding["check"] == "schedule" and finding["result"] != "pass" for finding in findings)

    def describe_outcome(self) -> str:
        """Return what became of the jobs, and whether the workers came back."""
        stranded = self.count_stranded()
        parts = [
            f"{self.tables.state_count('lost') - (0 if find_library(self.name).rescue.by_default else stranded)} lost",
            f"{stranded} stranded",
            f"{format_value(self.metric('re_executions.count', None) or 0)} re-executed",
            f"{format_value(self.metric('re_completed.count', None) or 0)} completed twice",
        ]
        recoveries = self.tables["recoveries"]
        if len(recoveries):
            to_rate_s = recoveries["to_rate_s"].max(skipna=False)
            parts.append("does not come back to its rate" if isnan(to_rate_s) else f"at its rate after {to_rate_s:.1f} s")
        return ", ".join(parts)
