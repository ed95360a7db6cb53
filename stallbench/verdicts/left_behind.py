"""Was every job of a dead worker offered to another worker?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stallbench.pipeline.overdue import (
    AVAILABLE_AGAIN,
    HELD_FOR_THE_DEAD,
    LEFT_BEHIND,
    LEFT_WHILE_IDLE,
    NOT_YET_DUE,
    OFFERED_AGAIN,
    OUT_OF_ATTEMPTS,
)
from stallbench.pipeline.time_axis import PATIENCE_S
from stallbench.queues.record import QueueRecord
from stallbench.records.job_ids import describe_job
from stallbench.run.record import RunRecord
from stallbench.verdicts.check import Check, Finding, Result, RunTables, Severity
from stallbench.verdicts.order import describe_overdue

_SUBJECT = "jobs of dead workers are offered again"
_EXPECTED = f"within {PATIENCE_S:g} s after the worker's end or the claim's expiry; time during faults does not count"
_WORDS = {
    HELD_FOR_THE_DEAD: "were still claimed by a worker that had died",
    LEFT_WHILE_IDLE: "of a worker that had died were not offered again, although workers were idle",
    LEFT_BEHIND: "of a worker that had died were not offered again, although younger jobs were claimed",
}


class LeftBehind(Check):
    """A queue that promises at-least-once releases a claim when its worker's connection ends or the claim expires.

    A job that is still claimed fails any queue, and so does one that is available while workers are idle. A job that is available while younger jobs
    are claimed fails only a queue that promises order. A job that is still claimed because its claim expires only after the end of the run is
    unknown: the run did not show whether the queue would have offered it again. The check does not apply if no worker died, or if the queue does not
    declare that it rescues jobs. If such a job is lost, the check `conservation` fails.
    """

    name = "left behind"
    position = 3
    severity = Severity.JOBS_LEFT_BEHIND

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding; unknown if a job was not due again, info if no worker died, the queue never rescues jobs, or a requirement judges it."""
        if "stranded" in run.record.scenario.required:
            return [self.not_applicable(_SUBJECT, "judged as required")]
        rows = {row["kind"]: row for row in run["overdue"].to_dict("records")}
        wrong = [HELD_FOR_THE_DEAD, LEFT_WHILE_IDLE, *([LEFT_BEHIND] if run.record.queue.ordered else [])]
        if failing := [row for kind in wrong if (row := rows.get(kind))]:
            return [self._found("fail", "; ".join(describe_overdue(row, _WORDS[row["kind"]]) for row in failing), failing)]
        if pending := rows.get(NOT_YET_DUE):
            return [self._found("unknown", _describe_pending(pending, run.record.queue), [pending])]
        if again := _describe_again(rows):
            return [self._found("pass", again)]
        return [self._judge_without_jobs(run.record, rows.get(OUT_OF_ATTEMPTS))]

    def _judge_without_jobs(self, record: RunRecord, out_of_attempts: Mapping[Any, Any] | None) -> Finding:
        """Return why no job of a dead worker can be judged; ``out_of_attempts``: the number of jobs that had no attempt left."""
        if not record.dead_workers:
            return self.not_applicable(_SUBJECT, "no worker died")
        if never := _describe_never(record.queue):
            return self.not_applicable(_SUBJECT, never)
        if record.queue.claims_survive_connection is None:
            return self.unknown(_SUBJECT, "workers died, and the run's record does not say when the queue releases their claims")
        if out_of_attempts:
            return self.not_applicable(_SUBJECT, f"{_count([out_of_attempts])} not offered again: all attempts were used")
        return self.not_applicable(_SUBJECT, "no worker is known to have had a job when it died")

    def _found(self, result: Result, reason: str, rows: Sequence[Mapping[Any, Any]] = ()) -> Finding:
        examples = tuple(describe_job(job) for row in rows for job in row["examples"])
        return self.finding(result, _SUBJECT, reason, expected=_EXPECTED, examples=examples)


def _describe_again(rows: Mapping[str, Mapping[Any, Any]]) -> str:
    """Describe the jobs that were claimed again or could be; empty if there are none."""
    available = [row for kind in (AVAILABLE_AGAIN, LEFT_BEHIND) if (row := rows.get(kind))]
    claimed = rows.get(OFFERED_AGAIN)
    parts = [
        f"{_count([claimed])} claimed again, at most {claimed['longest_s']:.1f} s after the worker's end" if claimed else "",
        f"{_count(available)} available again at the end" if available else "",
    ]
    return "; ".join(part for part in parts if part)


def _describe_never(queue: QueueRecord) -> str:
    """Return why the queue need not offer the job of a dead worker again; empty if it must."""
    if not queue.may_re_execute:
        return "the queue promises at-most-once: the job of a dead worker is lost with it"
    if not queue.rescues_jobs:
        by = f" ({queue.library.rescue})" if queue.library else ""
        return f"the queue never offers the job of a dead worker again{by}: such a job is lost"
    return ""


def _describe_pending(row: Mapping[Any, Any], queue: QueueRecord) -> str:
    """Describe jobs that were still claimed, and when the queue would have offered them again."""
    jobs = int(row["jobs"])
    held = f"{jobs:,} jobs of dead workers are still claimed" if jobs != 1 else "1 job of a dead worker is still claimed"
    if not queue.claims_survive_connection:
        return f"{held}; a claim ends with its connection, but the run ended less than {PATIENCE_S:g} s later, or during a fault"
    if queue.rescue_s is None:
        return f"{held}; the queue does not declare after how long it rescues such a job"
    after = "the last renewal of its claim" if queue.renews_claims else "its claim"
    return f"{held}; the queue rescues such a job {queue.rescue_s:g} s after {after}, which is after the end of the run"


def _count(rows: Sequence[Mapping[Any, Any]]) -> str:
    jobs = sum(int(row["jobs"]) for row in rows)
    return f"{jobs:,} jobs of dead workers were" if jobs != 1 else "1 job of a dead worker was"
