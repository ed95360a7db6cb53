"""Is every job claimed that is ready while workers are idle?"""

from __future__ import annotations

from stallbench.pipeline.overdue import NEVER_CLAIMED, WAITED_WHILE_BUSY, find_idle_s
from stallbench.records.job_ids import describe_job
from stallbench.verdicts.check import Check, Finding, RunTables, Severity

_SUBJECT = "ready jobs are claimed while workers are idle"


class Starvation(Check):
    """Fails if a job was ready for some seconds before the load ended and was never claimed, although workers were idle: whatever order the queue
    promises, it has to give such a job to one of them. Workers that have no time for a job do not starve it.
    """

    name = "starvation"
    position = 3
    severity = Severity.JOBS_LEFT_BEHIND

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding; unknown if no claim was recorded, info if the workers were not idle."""
        rows = {row["kind"]: row for row in run["overdue"].to_dict("records")}
        idle_s = find_idle_s(run.record)
        if never := rows.get(NEVER_CLAIMED):
            return [
                self.finding(
                    "fail",
                    _SUBJECT,
                    f"{int(never['jobs']):,} jobs were ready and never claimed although workers were idle, for up to {never['longest_s']:.1f} s; "
                    "they are still queued",
                    expected=f"0 for the last {idle_s:g} s of the load",
                    examples=tuple(describe_job(job) for job in never["examples"]),
                )
            ]
        if not run.count_events("claimed"):
            return [self.unknown(_SUBJECT, "no claim was recorded, so nothing is known of the workers")]
        if busy := rows.get(WAITED_WHILE_BUSY):
            jobs = f"{int(busy['jobs']):,} jobs were never claimed"
            return [self.not_applicable(_SUBJECT, f"{jobs}, but the workers were not idle in the last {idle_s:g} s of the load")]
        return [self.finding("pass", _SUBJECT, f"every job was claimed that was ready {idle_s:g} s before the end of the load")]
