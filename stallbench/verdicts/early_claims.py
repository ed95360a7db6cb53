"""Did jobs that had to wait for a time or for another job wait for it?"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from stallbench.records.job_ids import describe_job
from stallbench.verdicts.check import Check, Finding, RunTables

_RULES = {
    "fifo_order": ("jobs of a FIFO queue run in their order", "were overtaken in their FIFO queue"),
    "fifo_alone": ("a FIFO queue runs one job at a time", "began while another job of their FIFO queue was running"),
    "limit_alone": ("one job of each limit is executed at a time", "began while another job of their limit was running"),
    "not_before_due": ("a scheduled job does not start before it is due", "started before they were due"),
    "not_before_blocker": (
        "a blocked job waits until the other job succeeds",
        "started before the job that blocked them was completed",
    ),
}


class Waiting(Check):
    """Compares each job that had to wait with its rule."""

    name = "waiting"
    position = 4

    def judge(self, run: RunTables) -> list[Finding]:
        """Return a finding for each rule that applies to jobs of the run; info if none does."""
        findings = [self._judge_rule(run, row) for row in run["waiting"].to_dict("records")]
        return findings or [
            self.not_applicable("jobs wait until they may start", "no job had to wait for a time or for another job")
        ]

    def _judge_rule(self, run: RunTables, row: Mapping[Hashable, Any]) -> Finding:
        rule, claimed, broken = row["rule"], int(row["claimed"]), int(row["broken"])
        subject, violation = _RULES[rule]
        if not claimed:
            return self.unknown(subject, f"{subject}: none of {row['jobs']:,} such jobs was claimed")
        found = f"{broken:,} of {claimed:,} jobs {violation}"
        if rule == "not_before_due":
            found += self._describe_delay(run)
        return self.finding(
            "fail" if broken else "pass",
            subject,
            found,
            expected="0",
            examples=tuple(describe_job(job) for job in row["examples"]),
        )

    def _describe_delay(self, run: RunTables) -> str:
        p50, p99 = (run.metric("start_delay_ms", statistic, None) for statistic in ("p50", "p99"))
        return "" if p50 is None or p99 is None else f"; start delay p50 {p50:,.0f} ms, p99 {p99:,.0f} ms"
