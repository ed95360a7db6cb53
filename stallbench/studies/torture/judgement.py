"""Judges one run: attributes what its checks found wrong to the points, job by job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow.compute as pc

from stallbench.injection.faults.crash_point import CrashAtPoint
from stallbench.pipeline.large_tables import field
from stallbench.pipeline.overdue import HELD_FOR_THE_DEAD, LEFT_BEHIND, LEFT_WHILE_IDLE, NEVER_CLAIMED, PASSED_OVER
from stallbench.pipeline.tables import EXAMPLES
from stallbench.queues import Promise
from stallbench.records.injections import JOBS
from stallbench.run.folder import RunFolder
from stallbench.studies.torture.job_histories import JobHistories
from stallbench.studies.torture.outcome import NOT_TRIED, PROMISES, Reason, State, TortureOutcome, TrialOutcome
from stallbench.studies.torture.plan import Trial
from stallbench.verdicts import Finding, RunTables, Verdict
from stallbench.verdicts.check import Result
from stallbench.verdicts.errors import find_unexplained

NOT_OF_THE_QUEUE = ("schedule", "injections", "expectations")
"""Checks of the load and of the bench. The outcome of each point says whether its fault was active."""
_KINDS: Mapping[str, tuple[str, ...]] = {
    "order": (PASSED_OVER,),
    "left behind": (HELD_FOR_THE_DEAD, LEFT_BEHIND, LEFT_WHILE_IDLE),
    "starvation": (NEVER_CLAIMED,),
}
"""The kinds of overdue jobs that break a promise."""
_STATES: Mapping[str, State] = {"pass": "holds", "fail": "holds", "info": "not promised", "unknown": "unknown"}


def judge_run(tables: RunTables, verdict: Verdict, trials: Sequence[Trial]) -> TortureOutcome:
    """Return what a completed run says of its ``trials``."""
    return _Judgement(tables, verdict, trials).outcome


class _Judgement:
    def __init__(self, tables: RunTables, verdict: Verdict, trials: Sequence[Trial]) -> None:
        assert isinstance(tables.folder, Path), "a run of this command is on this machine"
        self._tables = tables
        self._job_histories = JobHistories(RunFolder(tables.folder), tables.record)
        self._results: dict[str, State] = {}
        self.outcome = TortureOutcome(trials=[TrialOutcome(trial=trial) for trial in trials], elsewhere=[], undecided=[])
        self._by_phase = {str(each.trial.point): each for each in self.outcome.trials}
        self._judge_activity()
        for finding in verdict.findings:
            if finding.check in PROMISES:
                for each in self.outcome.trials:
                    if each.hits:
                        each.states[finding.check] = self._decide_state(finding)
            if finding.result == "fail" and finding.check in PROMISES:
                self._blame(finding.check, finding.reason)
            elif finding.result in ("fail", "unknown") and finding.check not in NOT_OF_THE_QUEUE:
                what = Reason(check=finding.check, text=finding.reason)
                (self.outcome.elsewhere if finding.result == "fail" else self.outcome.undecided).append(what)
        self._blame_claims_without_worker(next(each.result for each in verdict.findings if each.check == "left behind"))

    def _decide_state(self, finding: Finding) -> State:
        """Return the state of a promise at every point. A broken promise holds at the points to which nothing is attributed.

        If no worker died, because all were paused, only the final snapshot shows whether a job was left behind: `_blame_claims_without_worker`. If one
        died, and the check says that it does not apply, the run has shown nothing of this promise.
        """
        queue = self._tables.record.queue
        if finding.check == "left behind" and finding.result == "info" and queue.may_re_execute and queue.rescues_jobs:
            return "not promised" if self._tables.record.dead_workers else "holds"
        return _STATES[finding.result]

    def _judge_activity(self) -> None:
        for fault in self._tables.record.faults:
            each = self._by_phase.get(str(fault.phase))
            if each is None or fault.kind != CrashAtPoint.kind:
                continue  # the user has added it
            each.hits = len(fault.evidence.get(JOBS, ()))
            if not each.hits:
                each.states = dict.fromkeys(PROMISES, "unknown")
                each.reasons.append(Reason(check=NOT_TRIED, text=fault.why_ended or "the fault was not active"))

    def _blame(self, check: str, reason: str) -> None:
        """Attribute what a check found to points; what cannot be attributed is reported without a point, and may have been at any."""
        if check == "errors":
            self._report(check, self._describe_errors(), reason)
            return
        jobs = sorted(self._list_jobs(check))
        self._report(check, {phase: self._describe(check, phase, of_one) for phase, of_one in self._group(jobs).items()}, reason)

    def _group(self, jobs: Sequence[int]) -> dict[str | None, list[int]]:
        """Return the jobs by the last phase in which a process was hit with them; none: by no point."""
        of_phases: defaultdict[str | None, list[int]] = defaultdict(list)
        for job_id in jobs:
            phases = [phase for phase in self._job_histories.list_phases(job_id) if phase in self._by_phase]
            of_phases[phases[-1] if phases else None].append(job_id)
            for phase in phases if len(phases) > 1 else ():
                self._by_phase[phase].needs_others = True
        return of_phases

    def _report(self, check: str, found: Mapping[str | None, str], reason: str) -> None:
        for phase, what in found.items():
            if what and phase in self._by_phase:
                self._by_phase[phase].mark_broken(check, what)
            elif what:
                self._report_elsewhere(check, what)
        if not found:
            self._report_elsewhere(check, reason)

    def _report_elsewhere(self, check: str, what: str) -> None:
        self.outcome.elsewhere.append(Reason(check=check, text=what))
        for each in self.outcome.trials:
            if each.states.get(check) == "holds":
                each.states[check] = "unknown"

    def _describe(self, check: str, phase: str | None, jobs: list[int]) -> str:
        """Return what happened to the jobs; empty if the queue's promise allows it."""
        if check == "conservation" and self._tables.record.queue.promise is Promise.AT_MOST_ONCE and phase in self._by_phase:
            each = self._by_phase[phase]
            is_allowed = self._tables.record.queue.library is not None or len(jobs) <= each.hits
            if each.trial.action == "kill" and each.trial.point.role == "worker" and is_allowed:
                return ""  # lost with the workers that had them, as promised; the worker of a library may have had several each
        total = self._count_jobs(check)
        shown = f"{len(jobs)} jobs" if total <= EXAMPLES else f"{len(jobs)} of the first {EXAMPLES} of {total:,} jobs"
        rule = self._find_rule(min(jobs)) if check == "duplicates" else ""
        enqueued = self._job_histories.find_phase_at_id(min(jobs))
        where = "" if phase in self._by_phase or enqueued is None else f" (in phase {enqueued})"
        return f"{shown}; {self._job_histories.describe(min(jobs))}{f'; {rule}' if rule else ''}{where}"

    def _find_rule(self, job_id: int) -> str:
        """Return why a repeated execution is not allowed."""
        rows = self._tables.first("duplicates", 1, field("job_id") == job_id)["reason"].tolist()
        return f"no reason to repeat it: {rows[0]}" if rows else ""

    def _count_jobs(self, check: str) -> int:
        """Return how many jobs broke the promise of a check, if only the first `EXAMPLES` of them are known by their ids; else 0."""
        if check in _KINDS:
            overdue = self._tables["overdue"]
            return int(overdue.loc[overdue["kind"].isin(_KINDS[check]), "jobs"].sum())
        return self._tables.state_count("unexpected") if check == "conservation" else 0

    def _list_jobs(self, check: str) -> Iterator[int]:
        """Return the jobs that broke the promise of a check."""
        if check == "conservation":
            wrong = (field("state") == "lost") | field("held_after_completion")
            yield from self._read_ids("jobs", wrong)
            yield from (int(job) for job in self._tables.state_examples("unexpected"))
        elif check == "duplicates":
            yield from self._read_ids("duplicates", ~field("excused"))
        else:
            overdue = self._tables["overdue"]
            yield from (int(job) for jobs in overdue[overdue["kind"].isin(_KINDS[check])]["examples"] for job in jobs)

    def _read_ids(self, table: str, where: pc.Expression) -> Iterator[int]:
        for batch in self._tables.batches(table, ["job_id"], where):
            yield from batch["job_id"].to_pylist()

    def _describe_errors(self) -> dict[str | None, str]:
        """Return what the unexplained errors of each phase are."""
        described: defaultdict[str | None, list[str]] = defaultdict(list)
        for row in find_unexplained(self._tables).to_dict("records"):
            phase = row["phase"] if isinstance(row["phase"], str) else None
            described[phase].append(f"{row['count']} x {row['kind']} in {row['operation']} by {row['process']}")
        return {phase: ", ".join(found) for phase, found in described.items()}

    def _blame_claims_without_worker(self, left_behind: Result) -> None:
        """A job that is still claimed after the last worker has ended is left behind, even if its claim was never recorded.

        Except if the check itself is unknown, because the claims of a library expire after the end of the run, or does not apply, because the
        library rescues no job: the check ``conservation`` judges such jobs.
        """
        if self._tables.record.queue.library is not None and left_behind in ("unknown", "info"):
            return
        known = set(self._list_jobs("left behind"))
        jobs = [job_id for job_id in self._read_ids("jobs", field("state") == "claimed") if job_id not in known]
        of_phases = self._group(sorted(jobs))
        if not jobs:
            return
        found = {
            phase: f"{len(of_one)} jobs are still claimed, and no worker is left; {self._job_histories.describe(min(of_one))}"
            for phase, of_one in of_phases.items()
        }
        self._report("left behind", found, "")
