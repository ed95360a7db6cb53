"""Did jobs that had to wait for something wait for it?"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from stallbench.verdicts.check import Check, Finding, RunTables

_RULES = {
    "fifo_order": ("jobs of a FIFO queue run in their order", "were overtaken in their FIFO queue"),
    "fifo_alone": ("a FIFO queue runs one job at a time", "began while another of their FIFO queue was at work"),
    "not_before_due": ("a scheduled job does not start before its time", "started before their time"),
    "not_before_blocker": ("a blocked job waits for the other's success", "started before the job that blocked them was done"),
}


class Waiting(Check):
    """Holds each job that waited against its rule; a run without such jobs has no finding."""

    name = "waiting"
    place = 3

    def judge(self, run: RunTables) -> list[Finding]:
        """Return a finding for each rule that jobs were under."""
        return [self._judge_rule(run, row) for row in run["waiting"].to_dict("records")]

    def _judge_rule(self, run: RunTables, row: Mapping[Hashable, Any]) -> Finding:
        rule, claimed, broken = row["rule"], int(row["claimed"]), int(row["broken"])
        subject, deed = _RULES[rule]
        if not claimed:
            return Finding.unknown(self.name, f"{subject}: none of {row['jobs']:,} such jobs was claimed", subject)
        found = f"{broken:,} of {claimed:,} jobs {deed}"
        if rule == "not_before_due":
            found += self._describe_delay(run)
        return Finding(
            check=self.name,
            subject=subject,
            result="fail" if broken else "pass",
            reason=found,
            expected="0",
            found=found,
            examples=tuple(str(job) for job in row["examples"]),
        )

    def _describe_delay(self, run: RunTables) -> str:
        p50, p99 = (run.metric("start_delay_ms", statistic, None) for statistic in ("p50", "p99"))
        return "" if p50 is None or p99 is None else f"; they started {p50:,.0f} ms after it in the median, p99 {p99:,.0f} ms"
