"""Was what should hold the horizon really in force, all through its phase?"""

from __future__ import annotations

from stallbench.verdicts.check import Check, Finding, Result, RunTables


class LongrunnersHeld(Check):
    """A longrunner counts only if the server named it, and still did when its phase ended."""

    name = "longrunners"
    place = 5

    def judge(self, run: RunTables) -> list[Finding]:
        """Return a finding for each longrunner."""
        findings = []
        for entry in run.record["longrunners"]:
            where = f"{entry['name']} on {entry['on']} in phase {entry['phase']}"
            why = f" ({entry['why_ended']})" if entry["why_ended"] else ""
            result: Result
            if entry["verified_ns"] is None:
                result, reason = "fail", f"{where} was never seen by its server"
            elif entry["held"] is None:
                result, reason = "unknown", f"{where}: the run ended before the phase did"
            elif entry["held"]:
                result, reason = "pass", f"{where} was seen by its server and held to the end"
            elif entry["may_be_ended"]:
                result, reason = "pass", f"{where} was ended by the server, as it may be{why}"
            else:
                result, reason = "fail", f"{where} did not hold to the end{why}"
            findings.append(Finding(check=self.name, subject=entry["name"], result=result, reason=reason, found=reason))
        return findings
