"""A run of a published library: what the tables in the documentation say of it."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import pyarrow.compute as pc

from stallbench.base.number_text import format_value
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.pipeline.failures import NoTableError
from stallbench.records.reading import read_claimed
from stallbench.run.folder import RunFolder
from stallbench.verdicts.check import RunTables
from stallbench.verdicts.verdict_file import RecordedVerdict, read_verdict

BASELINE = "baseline"
"""The phase before what a scenario does, by its name in every scenario whose runs the tables show."""


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
        return kind.removeprefix(LIBRARY_PREFIX) if kind.startswith(LIBRARY_PREFIX) else ""

    def has_lost_its_workers(self) -> bool:
        """Whether every worker exited although nothing had asked it to, which ends a run.

        A run that notices this in its last phase asks them to stop before it ends: they are then those that failed without its request.
        """
        record = self.tables.record
        workers = [process for process in record.processes if process.role == "worker"]
        has_failed = record.status == "failed"
        return bool(workers) and all(
            process.end_ns is not None and (process.intended == "running" or (has_failed and (process.exit_code or 0) > 0))
            for process in workers
        )

    def count_exited_workers(self) -> tuple[int, int]:
        """Return how many workers exited although nothing had asked them to, and how many there were, those that replaced others included."""
        workers = self.tables.record.processes_of("worker")
        return sum(worker.end_ns is not None and worker.intended == "running" for worker in workers), len(workers)

    def has_tables(self) -> bool:
        """Whether its tables are there; those of a run that has just ended are still being made."""
        try:
            return all(self.tables[name] is not None for name in ("conservation", "phases", "recoveries"))
        except NoTableError:
            return False

    def find_stranded(self) -> set[int]:
        """Return the jobs that the library still held for a worker when all workers had ended: they wait for a rescue, if there is one."""
        return read_claimed(self._folder.final_snapshot)

    def count_lost(self) -> tuple[int, int]:
        """Return how many jobs the library no longer holds although no completion was recorded: not done, and done."""
        stranded = self.find_stranded()
        return len(self._find_jobs("lost") - stranded), len(self._find_jobs("completed_unrecorded") - stranded)

    def _find_jobs(self, state: str) -> set[int]:
        batches = self.tables.batches("jobs", ["job_id"], pc.field("state") == state)
        return {job_id for batch in batches for job_id in batch.column("job_id").to_pylist()}

    def metric(self, name: str, phase: str | None) -> float | None:
        """Return a metric like ``latency_ms.p95`` in a phase."""
        measure, _, statistic = name.partition(".")
        return self.tables.metric(measure, statistic, phase)

    def describe_claims(self, phase: str) -> str:
        """Return how many pages a claim reads in the baseline and in a phase in which something holds the horizon; empty if not measured."""
        before, held = (self.metric("claim_statement_buffers.per_call", each) for each in (BASELINE, phase))
        return "" if before is None or held is None else f"{format_value(before)} → {format_value(held)} buffers per claim"

    def read_verdict(self) -> RecordedVerdict:
        """Return what ``verdict.json`` says."""
        return read_verdict(self._folder.path)

    def has_late_producer(self) -> bool:
        """Whether the library's producer could not keep the schedule, so that jobs were late before they were enqueued."""
        findings = self.read_verdict().findings
        return any(finding.check == "schedule" and finding.result != "pass" for finding in findings)

    def count_outcomes(self) -> dict[str, int]:
        """Return how many jobs did not end in one execution and one recorded completion, by what became of them."""
        lost, done = self.count_lost()
        return {
            "lost": lost,
            "done without a recorded completion": done,
            "stranded": len(self.find_stranded()),
            "re-executed": int(self.metric("re_executions.count", None) or 0),
            "re-completed": int(self.metric("re_completed.count", None) or 0),
        }

    def describe_outcome(self) -> str:
        """Return whether the fault was complete, what became of the jobs, and whether the workers came back; or only that no worker was left."""
        return "every worker exited" if self.has_lost_its_workers() else ", ".join(self._list_outcomes())

    def _list_outcomes(self) -> list[str]:
        faults = (each for each in self.tables.record.injections if each.category == "fault" and each.active_to_end is False)
        incomplete = [each.why_ended.partition(";")[0] for each in faults]
        counts = self.count_outcomes()
        parts = [f"{format_value(count)} {what}" for what, count in counts.items() if count] or ["nothing lost or repeated"]
        exited, workers = self.count_exited_workers()
        if exited:
            parts.append(f"{exited} of {workers} workers exited")
        for phase in self.tables.record.scenario.phases:
            if phase.longrunners and (growth := self.describe_claims(phase.name)):
                parts.append(growth)
        if len(self.tables["recoveries"]):
            to_rate_s = self.metric("recovery_s.to_rate", None)
            parts.append("not back at its rate" if to_rate_s is None else f"at its rate after {to_rate_s:.1f} s")
        return incomplete + parts
