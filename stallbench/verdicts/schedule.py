"""Was the load what the scenario asks for?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stallbench.injection.faults import find_faults
from stallbench.records.injections import AT_ONCE, RATE, InjectionRecord
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.run.record import PhaseRecord
from stallbench.scenario.sections import Producers
from stallbench.verdicts.check import Check, Finding, RunTables

TOLERANCE = 0.005
"""Of the intended rate, in each measured phase."""
_ROUNDING = 1e-6
"""Possible error of a number of jobs that is a product of fractions."""
_BURST_EDGE_S = 0.5
"""How long the producer of a burst may take to start, and to stop."""


class ScheduleKept(Check):
    """Compares the achieved rate with the intended one, and reports how late enqueues began."""

    name = "schedule"
    position = 9

    def judge(self, run: RunTables) -> list[Finding]:
        """Return a finding for each measured phase; info if no producer has a rate."""
        if run.record.scenario.producers.rate == 0:
            return [self.not_applicable("load", "the scenario has no rate: all jobs are in the queue from the start")]
        # Not `RunRecord.measured_phases`: the load of a phase that never began is unknown, and must not be missing from the findings, unless the run
        # was to end before it.
        phases = run.record.started_phases if run.record.ended_early else run.record.phases
        found = [self._judge_phase(run, phase) for phase in phases if phase.measured]
        return found or [self.not_applicable("load", "no phase is measured")]

    def _judge_phase(self, run: RunTables, phase: PhaseRecord) -> Finding:
        name = phase.name
        subject = f"load in {name}"
        achieved = run.metric("enqueued", "rate", name)
        if achieved is None or phase.start_ns is None or phase.end_ns is None:
            return self.unknown(subject, f"{subject}: the phase did not end, or nothing was enqueued")
        length_s = (phase.end_ns - phase.start_ns) / NS_PER_S
        burst_jobs, at_edges = _count_bursts(run.record.faults, name, phase.end_ns)
        producers = run.record.scenario.producers
        intended = producers.rate + burst_jobs / length_s
        refused = run.metric("refused", "rate", name) or 0.0
        failed = _count_failed_enqueues(run, name) / length_s
        cut_off = _count_cut_off(producers) + at_edges
        fewer, more = _count_fractions(producers, length_s)
        below, above = (max(intended * TOLERANCE, (cut_off + fraction) / length_s) for fraction in (fewer, more))
        # External producers add jobs that are not in this scenario.
        has_external = any(process.external and process.role == "producer" for process in run.record.processes)
        offered = achieved + refused
        # A job whose enqueue ended in an error was offered too, in this phase or the one before. The check of errors judges the error.
        kept = offered + failed >= intended - below and (has_external or offered <= intended + above)
        parts = ((achieved, "jobs/s"), (refused, "refused"), (failed, "ended in an error"))
        rates = ", ".join(f"{rate:,.1f} {words}" for rate, words in parts if rate >= 0.05 or words == "jobs/s")
        found = f"{rates}, schedule lag p99 {run.metric('lag_ms', 'p99', name) or 0.0:.1f} ms"
        return self.finding(
            "pass" if kept else "fail",
            subject,
            f"{subject}: {found}; intended {intended:,.1f} jobs/s",
            expected=f"{intended:,.1f} jobs/s within {TOLERANCE:.1%}"
            + (", and jobs of external producers" if has_external else ""),
            found=found,
        )


def _count_cut_off(producers: Producers) -> int:
    """Return by how many jobs a phase may differ from the intended number because it begins and ends between two enqueues.

    That is one batch for each producer. With Locust, each of whose users has a schedule, it is one job for each user.
    """
    each = producers.users if producers.by_locust else producers.max_batch
    return each * producers.count


def _count_fractions(producers: Producers, length_s: float) -> tuple[float, float]:
    """Return how many jobs fewer and how many more than the intended number a phase of ``length_s`` has because jobs are whole.

    A producer whose schedule has 50.02 jobs in a phase enqueues 50 or 51 of them. Locust has no such schedule of whole jobs.
    """
    if producers.by_locust:
        return 0.0, 0.0
    scheduled = producers.rate / producers.count * length_s
    fewer = scheduled - math.floor(scheduled + _ROUNDING)
    more = math.ceil(scheduled - _ROUNDING) - scheduled
    return max(fewer, 0.0) * producers.count, max(more, 0.0) * producers.count


def _count_failed_enqueues(run: RunTables, phase: str) -> int:
    """Return how many jobs' enqueue ended in an error; there is a record for each."""
    errors = run["errors"]
    return int(
        errors[(errors["phase"] == phase) & (errors["event"] == "error") & (errors["operation"] == "enqueue")]["count"].sum()
    )


def _count_bursts(faults: Sequence[InjectionRecord], phase: str, phase_end_ns: int) -> tuple[float, float]:
    """Return how many jobs bursts add to a phase, and how many of these may be in the next phase or missing."""
    jobs = at_edges = 0.0
    for fault in faults:
        kind = find_faults().get(fault.kind)
        if kind is not None and kind.adds_load and fault.verified_ns is not None and fault.phase == phase:
            end_ns = phase_end_ns if fault.end_ns is None else min(fault.end_ns, phase_end_ns)
            rate = fault.evidence[RATE]
            jobs += fault.evidence[AT_ONCE] + rate * (end_ns - fault.verified_ns) / NS_PER_S
            at_edges += rate * _BURST_EDGE_S
    return jobs, at_edges
