"""Was the maintenance that the scenario asks for done, and what did it do?"""

from __future__ import annotations

from stallbench.verdicts.check import Check, Finding, Result, RunTables

_TOLD = 3


class MaintenanceDone(Check):
    """A kind of maintenance counts only if it came to a turn without an error; that there was nothing to be done is no fault."""

    name = "maintenance"
    place = 5

    def judge(self, run: RunTables) -> list[Finding]:
        """Return a finding for each that the scenario asks for."""
        findings = []
        for entry in run.record.get("maintenance", []):
            where = f"{entry['name']} on {entry['on']}"
            sound = entry["turns"] - len(entry["errors"])
            did = [each["what"] for each in entry["did"]]
            told = f"; it {', '.join(did[:_TOLD])}{f' and {len(did) - _TOLD} more' if len(did) > _TOLD else ''}" if did else ""
            failed = (
                f"; {len(entry['errors'])} of them failed, first with {entry['errors'][0]['what']}" if entry["errors"] else ""
            )
            result: Result = "pass" if sound > 0 else "fail" if entry["errors"] else "unknown"
            reason = f"{where} took {entry['turns']} turns{failed}{told}"
            findings.append(
                Finding(check=self.name, subject=entry["name"], result=result, reason=reason, found=reason, examples=tuple(did))
            )
        return findings
