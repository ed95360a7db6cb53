"""Does Locust's own test pass?"""

from __future__ import annotations

import json

from stallbench.base.storage.address import AnyPath
from stallbench.base.storage.record_text import read_record_text
from stallbench.scenario.locust_bounds import LOCUST_FAILS, LOCUST_FOLDER
from stallbench.verdicts.check import Check, Finding, RunTables

_SUBJECT = "Locust's own test"


class LocustAgrees(Check):
    """Fails where Locust's own test fails, so that its exit code and the verdict agree."""

    name = "locust"
    position = 10

    def judge(self, run: RunTables) -> list[Finding]:
        """Return a finding for each Locust process that was asked to stop, and for each external one; info without Locust."""
        folder: AnyPath = run.folder / LOCUST_FOLDER
        paths: list[AnyPath] = sorted(folder.glob("*.json"), key=str)
        results = {path.stem: json.loads(read_record_text(path)) for path in paths}
        own = [process for process in run.record.processes if LOCUST_FAILS in process.orderly_exit_codes]
        silent = [process.name for process in own if process.intended == "stopped" and process.name not in results]
        return [
            *(self.unknown(f"{_SUBJECT}, {name}", f"{name}: Locust did not record whether its test passed") for name in silent),
            *(
                self.unknown(f"{_SUBJECT}, {name}", f"{name}: Locust made no request")
                if not test["requests"]
                else self.finding(
                    test["result"],
                    f"{_SUBJECT}, {name}",
                    f"{name}: {'; '.join(test['reasons']) or 'all bounds of Locust hold'}",
                    expected=_format_bounds(test["bounds"]),
                    found=f"{test['failures']:,} of {test['requests']:,} requests failed, p95 {test['response_ms']['p95']:g} ms",
                )
                for name, test in results.items()
            ),
        ] or [self.not_applicable(_SUBJECT, "no Locust process took part until its end")]


def _format_bounds(bounds: dict[str, object]) -> str:
    times = bounds["at_most_ms"]
    assert isinstance(times, dict), "a table in the file"
    failures = f"at most {bounds['max_failure_ratio']:.2%} of the requests fail"
    return ", ".join((failures, *(f"{statistic} of at most {at_most:g} ms" for statistic, at_most in times.items())))
