"""Does the outcome meet what the scenario requires of the queue?"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stallbench.base.number_text import format_value
from stallbench.run.record import RunRecord
from stallbench.scenario.requirement import SUBJECTS, Part
from stallbench.verdicts.check import WORST_FIRST, Check, Finding, Result, RunTables, Severity
from stallbench.verdicts.outcome import Jobs, Outcome, PhaseOutcome, Safety

_IDS = 5
_MS_PER_S = 1000.0
_S_PER_MINUTE, _S_PER_HOUR = 60.0, 3600.0


_JudgePhase = Callable[[PhaseOutcome], tuple[Result, str]]


_SEVERITIES: Mapping[Part, Severity] = {
    "lost": Severity.JOBS_LOST,
    "repeated": Severity.JOBS_REPEATED,
    "stranded": Severity.JOBS_LEFT_BEHIND,
    "workers": Severity.PROPERTY,
    "recovery": Severity.EXPECTATION,
    "effect": Severity.EXPECTATION,
}
"""How severe it is that a part of the outcome is not as required."""


class Requirements(Check):
    """Compares the outcome with each ``[[require]]`` of the scenario.

    The checks conservation, duplicates, left behind and processes leave to it what is required: they would judge the same again, by rules that make
    *unknown* of a job whose rescue takes longer than the run, as the queue declares.
    """

    name = "requirements"
    position = 0
    judges_figures = True

    def judge(self, run: RunTables) -> list[Finding]:
        """Return a finding for each part of the outcome that something is required of; info if nothing is. What is unknown never passes."""
        required = run.record.scenario.required
        if not required:
            return [self.not_applicable("the outcome is as required", "the scenario requires nothing of the outcome")]
        findings = [
            self.finding(*_judge(part, subject, run.record, run.outcome), severity=_SEVERITIES[part])
            for part, subject in SUBJECTS.items()
            if part in required
        ]
        if run.record.ended_early and not any(each.result == "fail" for each in findings):
            why = f"the run was ended early, because {run.record.ended_early}; its records do not confirm that"
            findings.append(self.unknown("the run is carried out to its end", why))
        return findings


def _judge(part: Part, subject: str, record: RunRecord, outcome: Outcome) -> tuple[Result, str, str]:
    """Return result, subject and reason."""
    match part:
        case "lost":
            result, reason = _judge_lost(outcome.safety)
        case "repeated":
            result, reason = _judge_repeated(outcome.safety, str(record.queue.promise).replace("_", " "))
        case "stranded":
            result, reason = _judge_stranded(outcome.safety, has_dead_workers=bool(record.dead_workers))
        case "workers":
            result, reason = _judge_workers(outcome)
        case "recovery":
            result, reason = _judge_phases(outcome, _judge_recovery)
        case "effect":
            result, reason = _judge_phases(outcome, _judge_effect)
    return result, subject, reason


def _judge_lost(safety: Safety) -> tuple[Result, str]:
    if safety.lost.count:
        return "fail", f"{describe_jobs(safety.lost)} lost"
    if "lost" in safety.unknown:
        return "unknown", "it is not known which jobs were lost: there is no complete list of what the queue held at the end"
    return "pass", "no job was lost"


def _judge_repeated(safety: Safety, promise: str) -> tuple[Result, str]:
    if safety.repeated.count:
        return "fail", f"{describe_jobs(safety.repeated)} re-executed with no failure that explains it"
    if "repeated" in safety.unknown:
        return "unknown", "it is not known which jobs were repeated: no claim was recorded"
    if safety.re_executed:
        return "pass", f"{_count(safety.re_executed)} re-executed, each after a failure, which {promise} delivery permits"
    return "pass", "no job was executed or completed more than once"


def _judge_stranded(safety: Safety, *, has_dead_workers: bool) -> tuple[Result, str]:
    if safety.stranded.count:
        return "fail", f"{describe_jobs(safety.stranded)} stranded with a worker that had died"
    if safety.awaiting.count and "stranded" in safety.unknown:
        held = f"{describe_jobs(safety.awaiting)} still held by a worker that had died"
        return "unknown", f"{held}, and the queue does not declare after how long it rescues such a job"
    rescued_within = "" if safety.rescued_within_s is None else f", after at most {safety.rescued_within_s:.1f} s"
    parts = [
        describe_awaiting(safety) if safety.awaiting.count else "",
        f"{_count(safety.rescued)} of workers that had died went to another one{rescued_within}" if safety.rescued else "",
        f"{_count(safety.given_up)} of workers that had died used all their attempts, and are kept" if safety.given_up else "",
    ]
    if reason := "; ".join(part for part in parts if part):
        return "pass", reason
    return ("pass", "no job was stranded with a worker that had died") if has_dead_workers else ("info", "no worker died")


def _judge_workers(outcome: Outcome) -> tuple[Result, str]:
    if outcome.gone:
        return "fail", f"{_list(outcome.gone)} exited unexpectedly, and nothing took the place"
    if outcome.exited:
        return "pass", f"{_list(outcome.exited)} exited unexpectedly, and came back"
    return "pass", "no worker exited unexpectedly"


def _judge_phases(outcome: Outcome, judge: _JudgePhase) -> tuple[Result, str]:
    """Return the worst of all phases with a fault or longrunner, and all reasons for it."""
    judged = [judge(phase) for phase in outcome.phases]
    for result in WORST_FIRST:
        if reasons := [reason for found, reason in judged if found == result]:
            return result, "; ".join(reasons)
    return "info", "no fault or longrunner was active"


def _judge_recovery(phase: PhaseOutcome) -> tuple[Result, str]:
    recovery, where = phase.recovery, f"after {phase.phase}"
    if recovery.in_next_phase:
        if recovery.kind == "not applicable":
            return "pass", f"nothing to recover from {where}: jobs were done as quickly as before"
        when = "at once" if recovery.kind == "at once" else f"{recovery.seconds or 0:.0f} s"
        return "pass", f"back to normal {when} {where}"
    if recovery.in_next_phase is None:
        because = recovery.because or "it was not seen for as long as a phase that follows"
        return "unknown", f"it is not known whether the queue was back to normal in the phase {where}: {because}"
    if recovery.kind == "after":
        return "fail", f"back to normal only {recovery.seconds or 0:.0f} s {where}, when the phase that follows was over"
    if recovery.kind == "needs help" and recovery.because:
        return "fail", f"not back to normal {where}: {recovery.because}"
    dead = ", and no job was completed" if recovery.kind == "needs help" else ""
    return "fail", f"not back to normal in the {recovery.seconds or 0:.0f} s {where}{dead}"


def _judge_effect(phase: PhaseOutcome) -> tuple[Result, str]:
    took, before = (None if each is None else format_ms(each) for each in (phase.latency_ms, phase.latency_before_ms))
    compared = f": 95 of 100 jobs took up to {took} instead of {before}" if took and before else ""
    if phase.effect == "unaffected":
        return "pass", f"unaffected in {phase.phase}{compared}"
    if phase.effect == "unknown":
        return "unknown", f"it is not known how long jobs took in {phase.phase}: {phase.because}"
    stopped = f" for {phase.stopped_s} s" if phase.effect == "stopped" else ""
    return "fail", f"{phase.effect}{stopped} in {phase.phase}{compared}"


def describe_awaiting(safety: Safety) -> str:
    """Return which jobs of dead workers the queue would have offered again only after the end of the run."""
    when = f"after {_format_s(safety.rescue_s)}, as declared" if safety.rescue_s else "when the worker's connection ends"
    return f"{describe_jobs(safety.awaiting)} stranded with a worker that had died, rescued {when} (not seen)"


def describe_jobs(jobs: Jobs) -> str:
    """Return how many jobs, and the first ids."""
    ids = ", ".join([*jobs.examples[:_IDS], *(["..."] if jobs.count > _IDS else [])])
    return f"{_count(jobs.count)}{f' ({ids})' if ids else ''}"


def format_ms(value: float) -> str:
    """Return a time in the unit in which it is read easily."""
    return f"{value / _MS_PER_S:.1f} s" if value >= _MS_PER_S else f"{format_value(value)} ms"


def _format_s(seconds: float) -> str:
    if seconds < 2 * _S_PER_MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / _S_PER_MINUTE:.0f} min" if seconds < 2 * _S_PER_HOUR else f"{seconds / _S_PER_HOUR:.1f} h"


def _count(jobs: int) -> str:
    return f"{jobs:,} {'job' if jobs == 1 else 'jobs'}"


def _list(names: tuple[str, ...]) -> str:
    return ", ".join([*names[:_IDS], *(["..."] if len(names) > _IDS else [])])
