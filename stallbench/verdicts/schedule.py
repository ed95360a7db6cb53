"""Was the load what the scenario says it was?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stallbench.faults import find_faults
from stallbench.injection.record import InjectionRecord, read_injections
from stallbench.verdicts.check import Check, Finding, RunTables

TOLERANCE = 0.005
"""Of the intended rate, in each measured phase."""
_BURST_EDGE_S = 0.5
"""What the start of a burst's producer, and its end, may take."""


class ScheduleKept(Check):
    """Compares the achieved with the intended rate, and tells how late enqueues began behind their schedule."""

    name = "schedule"
    place = 7

    def judge(self, run: RunTables) -> list[Finding]:
        """Return a finding for each measured phase."""
        usual = float(run.record["scenario"]["producers"]["rate"])
        has_more = any(process.get("external") and process["role"] == "producer" for process in run.record["processes"])
        findings = []
        for phase in run.record["phases"]:
            if not phase["measured"] or usual == 0:
                continue
            achieved = run.metric("enqueued", "rate", phase["name"])
            refused = run.metric("refused", "rate", phase["name"]) or 0.0
            subject = f"load in {phase['name']}"
            if achieved is None or phase["end_ns"] is None:
                findings.append(Finding.unknown(self.name, f"{subject}: the phase did not end, or nothing was enqueued", subject))
                continue
            length_s = (phase["end_ns"] - phase["start_ns"]) / 1e9
            on_top, at_edges = _find_bursts(read_injections(run.record, "fault"), phase)
            intended = usual + on_top / length_s
            edge = (_count_cut(run.record["scenario"]["producers"]) + at_edges) / length_s
            lag_p99_ms = run.metric("lag_ms", "p99", phase["name"]) or 0.0
            raised = _count_raised(run, phase["name"]) / length_s
            not_taken = "".join(
                f" and {rate:,.1f} {what}" for rate, what in ((refused, "refused"), (raised, "whose call raised")) if rate
            )
            found = f"{achieved:,.1f} jobs/s{not_taken}, schedule lag p99 {lag_p99_ms:.1f} ms"
            tolerance = max(intended * TOLERANCE, edge)
            offered = achieved + refused
            # Jobs whose call raised were wanted, too, in this phase or the one before; whether a call may raise is for the check of errors to say.
            # What producers of others add is theirs to say.
            kept = offered + raised >= intended - tolerance and (has_more or offered <= intended + tolerance)
            findings.append(
                Finding(
                    check=self.name,
                    subject=subject,
                    result="pass" if kept else "fail",
                    reason=f"{subject}: {found}; intended {intended:,.1f} jobs/s",
                    expected=f"{intended:,.1f} jobs/s within {TOLERANCE:.1%}" + (", and others' besides" if has_more else ""),
                    found=found,
                )
            )
        return findings


def _count_cut(producers: dict[str, Any]) -> int:
    """Return how many jobs more or less there may be because a phase is cut out of the schedule anywhere.

    That is the batch that each producer has in hand, or of Locust, where each user has a schedule of its own, one job of each.
    """
    each = producers["users"] if producers.get("kind") == "locust" else producers["max_batch"]
    return int(each * producers["count"])


def _count_raised(run: RunTables, phase: str) -> int:
    """Return of how many jobs the call that was to enqueue them raised: there is a record for each."""
    errors = run["errors"]
    return int(
        errors[(errors["phase"] == phase) & (errors["event"] == "error") & (errors["operation"] == "enqueue")]["count"].sum()
    )


def _find_bursts(faults: Sequence[InjectionRecord], phase: dict[str, Any]) -> tuple[float, float]:
    """Return how many jobs of bursts belong to a phase on top of its schedule, and how many of them may be a bit earlier or later."""
    jobs = at_edges = 0.0
    for fault in faults:
        kind = find_faults().get(fault.kind)
        if kind is not None and kind.adds_load and fault.verified_ns is not None and fault.phase == phase["name"]:
            end_ns = phase["end_ns"] if fault.end_ns is None else min(fault.end_ns, phase["end_ns"])
            rate = fault.evidence["rate"]
            jobs += fault.evidence["at_once"] + rate * (end_ns - fault.verified_ns) / 1e9
            at_edges += rate * _BURST_EDGE_S
    return jobs, at_edges
