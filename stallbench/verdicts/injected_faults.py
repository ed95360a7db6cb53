"""Was every fault that was asked for really in force, and for as long as it should be?"""

from __future__ import annotations

from stallbench.verdicts.check import Check, Finding, Result, RunTables


class FaultsInForce(Check):
    """A fault counts only if it was seen to be in force, and still was when its time ended."""

    name = "faults"
    place = 5

    def judge(self, run: RunTables) -> list[Finding]:
        """Return a finding for each fault that the scenario asks for."""
        findings = []
        for entry in run.record["faults"]:
            where = f"{entry['name']} on {entry['on']} in phase {entry['phase']}"
            result: Result
            if entry["verified_ns"] is None:
                result, reason = "unknown", f"{where} was not seen to be in force"
            elif entry["held"] is None:
                result, reason = "unknown", f"{where}: the run ended before the fault did"
            elif entry["held"]:
                result, reason = "pass", f"{where} was seen to be in force"
            else:
                result, reason = "fail", f"{where} was not in force to the end: {entry['why_ended']}"
            findings.append(Finding(check=self.name, subject=entry["name"], result=result, reason=reason, found=reason))
        return findings
