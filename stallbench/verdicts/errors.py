"""Did calls raise, and was there a reason to?"""

from __future__ import annotations

from stallbench.verdicts.check import Check, Finding, RunTables


class Errors(Check):
    """Fails on errors of a phase in which no fault was injected; where one was, errors are its effect, and are told."""

    name = "errors"
    place = 4

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding."""
        errors = run["errors"]
        if errors.empty:
            return [Finding(check=self.name, subject="errors by kind", result="pass", reason="no call raised", found="none")]
        disturbed = {fault["phase"] for fault in run.record["faults"]}
        unexplained = errors[~errors["phase"].isin(disturbed)]
        by_kind = errors.groupby("kind")["count"].sum().sort_values(ascending=False)
        found = ", ".join(f"{count:,} x {kind}" for kind, count in by_kind.items())
        return [
            Finding(
                check=self.name,
                subject="errors by kind",
                result="fail" if len(unexplained) else "pass",
                reason=f"calls raised: {found}",
                expected="none outside of faults",
                found=found,
            )
        ]
