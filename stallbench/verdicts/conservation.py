"""Is every job accounted for, by its id? Judges what `stallbench.pipeline.conservation` decides for each job: completed, queued, lost."""

from __future__ import annotations

from stallbench.queues import Promise
from stallbench.run.record import RunRecord
from stallbench.verdicts.check import Check, Finding, RunTables, Severity
from stallbench.verdicts.order import count_held

_SUBJECT = "every job is accounted for"
_IDS_IN_REASON = 5
_WRONG_STATES = {
    "lost": "lost",
    "held_after_completion": "still in the queue after the queue confirmed their completion",
    "unexpected": "in the queue although no producer enqueued them",
}
_SEVERITIES = {
    "lost": Severity.JOBS_LOST,
    "held_after_completion": Severity.JOBS_REPEATED,
    "unexpected": Severity.JOBS_UNEXPECTED,
}
_OTHER_STATES = {
    "unknown": "of unknown state, because there is no complete final snapshot",
    "completed": "completed",
    "completed_unrecorded": "done, but without a recorded completion",
    "queued": "still queued",
    "claimed": "still claimed",
    "enqueue_unrecorded": "enqueued by a process that died, or got an error, before it recorded the enqueue",
}


class Conservation(Check):
    """Fails if a job is lost, stays in the queue after its completion, or was never enqueued. Unknown if the state of a job is unknown.

    A queue that promises at-most-once may lose the job of a worker that died: as many jobs as these workers had, of which nothing else is known.

    If the scenario has an expectation on ``lost`` with an upper bound, that expectation judges the losses, and this check only reports them.
    An expectation with only a lower bound does not replace the check: it would hold if every job were lost. So does a requirement that nothing be lost,
    for all but unexpected jobs.
    """

    name = "conservation"
    position = 1
    severity = Severity.JOBS_LOST

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding."""
        if run["conservation"].empty:
            return [self.unknown(_SUBJECT, "no job was recorded, so none can be accounted for")]
        loss_is_expected = any(one.limits("lost.count") for one in run.record.scenario.expect)
        may_lose = count_allowed_losses(run.record)
        loss_is_allowed = loss_is_expected or run.state_count("lost") <= may_lose
        wrong = [state for state in _WRONG_STATES if run.state_count(state)]
        failing = [state for state in wrong if not (state == "lost" and loss_is_allowed)]
        if "lost" in run.record.scenario.required and "unexpected" not in wrong:
            return [self.not_applicable(_SUBJECT, f"judged as required; {_describe(run, wrong)}")]
        tolerated = f"at most {may_lose:,} lost with workers that died, as at-most-once allows, " if may_lose else "0 lost, "
        if loss_is_expected:
            tolerated = "lost as an expectation allows, "
        return [
            self.finding(
                "fail" if failing else "unknown" if run.state_count("unknown") else "pass",
                _SUBJECT,
                _describe(run, wrong),
                severity=min((_SEVERITIES[state] for state in failing), default=self.severity),
                expected=f"{tolerated}0 in the queue after completion, 0 unexpected, 0 unknown",
                examples=tuple(job for state in (*wrong, "unknown") for job in run.state_examples(state)),
            )
        ]


def count_allowed_losses(record: RunRecord) -> int:
    """Return how many jobs may be lost with workers that died: none of a queue that promises at-least-once."""
    if record.queue.promise is not Promise.AT_MOST_ONCE:
        return 0
    died = sum(process.name in record.dead_workers for process in record.processes_of("worker"))
    return died * count_held(record)


def _describe(run: RunTables, wrong: list[str]) -> str:
    """Return the sentence of the finding: first what is wrong, then where the other jobs are."""
    count = run.state_count
    of_all = f"{count('enqueued'):,} jobs enqueued" + (f" and {count('left_over'):,} left over" if count("left_over") else "")
    parts = [
        f"{count(state):,} {_WRONG_STATES[state]} ({_format_ids(run.state_examples(state), count(state))})" for state in wrong
    ]
    parts += [f"{count(state):,} {words}" for state, words in _OTHER_STATES.items() if count(state)]
    refused = f"; {count('refused'):,} more were refused" if count("refused") else ""
    return f"of {of_all}: {', '.join(parts)}{refused}"


def _format_ids(jobs: tuple[str, ...], count: int) -> str:
    return ", ".join([f"id {job}" for job in jobs[:_IDS_IN_REASON]] + (["..."] if count > _IDS_IN_REASON else []))
