"""A published run of a library: what the tables in the documentation say of it."""

from __future__ import annotations

from collections.abc import Iterator

from stallbench.base.number_text import format_value
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.evidence.stored_run import StoredRun
from stallbench.verdicts.outcome import PhaseOutcome

BASELINE = "baseline"
"""The phase before what a scenario does, by its name in every scenario whose runs the tables show."""


class LibraryRun:
    """A run whose queue is a library."""

    def __init__(self, stored: StoredRun) -> None:
        """Show ``stored``."""
        self.stored = stored

    @property
    def name(self) -> str:
        """The library's, if the run's queue is one."""
        kind = self.stored.record.queue.kind
        return kind.removeprefix(LIBRARY_PREFIX) if kind.startswith(LIBRARY_PREFIX) else ""

    def metric(self, name: str, phase: str | None) -> float | None:
        """Return a metric like ``latency_ms.p95`` in a phase."""
        measure, _, statistic = name.partition(".")
        return self.stored.metric(measure, statistic, phase)

    def describe_claims(self, phase: str) -> str:
        """Return how many pages a claim reads in the baseline and in a phase in which something holds the horizon; empty if not measured."""
        before, held = (self.metric("claim_statement_buffers.per_call", each) for each in (BASELINE, phase))
        return "" if before is None or held is None else f"{format_value(before)} → {format_value(held)} buffers per claim"

    def has_late_producer(self) -> bool:
        """Whether the library's producer could not keep the schedule, so that jobs were late before they were enqueued."""
        return any(finding.check == "schedule" and finding.result != "pass" for finding in self.stored.verdict.findings)

    def describe_outcome(self) -> str:
        """Return what happened to the queue, in few words, and before that whether the fault was complete."""
        return "; ".join(self._list_outcomes())

    def _list_outcomes(self) -> Iterator[str]:
        record = self.stored.record
        faults = (each for each in record.injections if each.category == "fault" and each.active_to_end is False)
        yield from (each.why_ended.partition(";")[0] for each in faults)
        outcome = self.stored.verdict.outcome
        if outcome is None:
            yield f"not known: {self.stored.verdict.no_outcome}"
            return
        if outcome.worst is not None:
            yield _describe_phase(outcome.worst)
        safety = outcome.safety
        counts = {"lost": safety.lost, "repeated": safety.repeated, "stranded": safety.stranded, "never claimed": safety.starved}
        found = [f"{jobs.count:,} {what}" for what, jobs in counts.items() if jobs.count]
        yield ", ".join(found) or "nothing lost, repeated or stranded"
        if safety.unknown:
            yield f"not known: {', '.join(safety.unknown)}"
        if safety.awaiting.count:
            yield f"{safety.awaiting.count:,} to be rescued after the end of the run"
        if outcome.exited:
            yield f"{len(outcome.exited)} of {len(record.processes_of('worker'))} workers exited"
        for phase in record.scenario.phases:
            if phase.longrunners and (growth := self.describe_claims(phase.name)):
                yield growth


def _describe_phase(phase: PhaseOutcome) -> str:
    recovery = phase.recovery
    words = {
        "at once": "back at once",
        "after": f"back after {recovery.seconds or 0:.0f} s",
        "not in": f"not back in {recovery.seconds or 0:.0f} s",
        "needs help": "needs help",
        "unknown": "recovery not seen",
    }
    stopped = f" {phase.stopped_s} s" if phase.effect == "stopped" and phase.stopped_s else ""
    return ", ".join(part for part in (f"{phase.effect}{stopped}", words.get(recovery.kind, "")) if part)
