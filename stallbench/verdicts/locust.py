"""What does Locust itself say of its requests?"""

from __future__ import annotations

import json

from stallbench.run.folder import RunFolder
from stallbench.scenario.locust_bounds import LOCUST_FAILS
from stallbench.verdicts.check import Check, Finding, RunTables


class LocustAgrees(Check):
    """Fails where Locust's own test fails, so that its exit code and the verdict never say different things of one run."""

    name = "locust"
    place = 8

    def judge(self, run: RunTables) -> list[Finding]:
        """Return a finding for each Locust process that was there to the end, and for each that others have brought."""
        left = {path.stem: json.loads(path.read_text()) for path in sorted(RunFolder(run.folder).locust.glob("*.json"))}
        own = [process for process in run.record["processes"] if LOCUST_FAILS in process.get("orderly_exit_codes", ())]
        silent = [process["name"] for process in own if process["intended"] == "stopped" and process["name"] not in left]
        return [
            *(Finding.unknown(self.name, f"{name}: Locust did not say whether its test passed", name) for name in silent),
            *(
                Finding(
                    check=self.name,
                    subject=f"Locust's own test, {name}",
                    result=said["result"],
                    reason=f"{name}: {'; '.join(said['reasons']) or 'all bounds of Locust hold'}",
                    expected=_format_bounds(said["bounds"]),
                    found=f"{said['failures']:,} of {said['requests']:,} requests failed, p95 {said['response_ms']['p95']:g} ms",
                )
                for name, said in left.items()
            ),
        ]


def _format_bounds(bounds: dict[str, object]) -> str:
    times = bounds["at_most_ms"]
    assert isinstance(times, dict), "a table in the file"
    failures = f"at most {bounds['max_failure_ratio']:.2%} of the requests fail"
    return ", ".join((failures, *(f"{statistic} of at most {at_most:g} ms" for statistic, at_most in times.items())))
