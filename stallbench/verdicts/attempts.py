"""Does the queue count the attempts of a job?"""

from __future__ import annotations

from stallbench.pipeline.large_tables import field
from stallbench.records.job_ids import describe_job
from stallbench.verdicts.check import Check, Finding, RunTables

_SUBJECT = "attempts are counted"
_EXAMPLES = 20


class Attempts(Check):
    """Fails if a job was re-executed with the number of an earlier attempt: a limit of attempts would then never be reached.

    A claim that ends with its connection is not counted if its transaction is rolled back. So the number of such a queue must not become smaller, and
    must grow only after a failure. The same is required of a library.
    """

    name = "attempts"
    position = 3

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding; info if no job was re-executed, or if the queue counts no attempts."""
        is_wrong, is_right = field("attempts_ascend") == False, field("attempts_ascend") == True  # noqa: E712 - a column, which may be null
        wrong, right = (
            sum(batch.num_rows for batch in run.batches("duplicates", ["job_id"], which)) for which in (is_wrong, is_right)
        )
        if not wrong + right:
            return [self.not_applicable(_SUBJECT, "no job was re-executed by a queue that counts its attempts")]
        examples = run.first("duplicates", _EXAMPLES, is_wrong).to_dict("records")
        found = f"{wrong:,} of {wrong + right:,} jobs that were re-executed had an attempt with the number of an earlier one, or a lower number"
        return [
            self.finding(
                "fail" if wrong else "pass",
                _SUBJECT,
                found if wrong else f"the attempts of {right:,} jobs that were re-executed have ascending numbers",
                expected="each attempt has a higher number than the one before it",
                examples=tuple(f"{describe_job(row['job_id'])} (attempts {row['attempts']})" for row in examples),
            )
        ]
