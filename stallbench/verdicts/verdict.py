"""From findings to the verdict and its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stallbench.verdicts.attribution import Attribution
from stallbench.verdicts.check import Finding, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How the run ended, and what it shows: two different things."""

    run: str
    status: str
    """How the run ended: ``completed``, ``aborted``, ``failed``, ``running``."""
    verdict: Result
    reason: str
    attribution: Attribution
    findings: tuple[Finding, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it for ``verdict.json``."""
        return {
            "format": 1,
            "run": self.run,
            "status": self.status,
            "verdict": self.verdict,
            "reason": self.reason,
            "attribution": self.attribution.as_json(),
            "findings": [finding.as_json() for finding in self.findings],
        }


def decide(record: Mapping[str, Any], findings: Sequence[Finding], attribution: Attribution) -> Verdict:
    """Fail if anything fails, else be unknown if anything is, else pass; a run that did not complete never passes."""
    status = str(record["status"])
    failed = [finding for finding in findings if finding.result == "fail"]
    unknown = [finding for finding in findings if finding.result == "unknown"]
    result: Result = "fail" if failed else "unknown" if unknown or status != "completed" else "pass"
    reasons = [finding.reason for finding in (failed or unknown)]
    if status != "completed":
        reasons.insert(0, f"the run was {status}: {record['reason'] or 'no reason was recorded'}")
    if not reasons:
        expectations = sum(finding.check == "expectations" for finding in findings)
        judged = {one["metric"].partition(".")[0] for one in record["scenario"]["expect"]} & {"lost", "duplicates"}
        jobs = "no more jobs were lost or executed again than expected" if judged else "no job was lost or wrongly executed again"
        reasons = [f"all {expectations} expectations hold, and {jobs}"]
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return Verdict(
        run=str(record["id"]),
        status=status,
        verdict=result,
        reason=reasons[0] + more,
        attribution=attribution,
        findings=tuple(findings),
    )
