"""Was the load what the scenario says it was?"""

from __future__ import annotations

from stallbench.verdicts.check import Check, Finding, RunTables

TOLERANCE = 0.005
"""Of the intended rate, in each measured phase."""


class ScheduleKept(Check):
    """Compares the achieved with the intended rate, and tells how late enqueues began behind their schedule."""

    name = "schedule"
    place = 7

    def judge(self, run: RunTables) -> list[Finding]:
        """Return a finding for each measured phase."""
        intended = float(run.record["scenario"]["producers"]["rate"])
        has_more = any(process.get("outside") and process["role"] == "producer" for process in run.record["processes"])
        findings = []
        for phase in run.record["phases"]:
            if not phase["measured"] or intended == 0:
                continue
            achieved = run.metric("enqueued", "rate", phase["name"])
            subject = f"load in {phase['name']}"
            if achieved is None or phase["end_ns"] is None:
                findings.append(Finding.unknown(self.name, f"{subject}: the phase did not end, or nothing was enqueued", subject))
                continue
            # A phase is cut out of the schedule anywhere: up to one job more or less belongs to that, and to the batch in hand.
            length_s = (phase["end_ns"] - phase["start_ns"]) / 1e9
            edge = run.record["scenario"]["producers"]["max_batch"] / length_s
            lag_p99_ms = run.metric("lag_ms", "p99", phase["name"]) or 0.0
            found = f"{achieved:,.1f} jobs/s, schedule lag p99 {lag_p99_ms:.1f} ms"
            tolerance = max(intended * TOLERANCE, edge)
            # What producers of others add is theirs to say.
            kept = achieved >= intended - tolerance and (has_more or achieved <= intended + tolerance)
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
