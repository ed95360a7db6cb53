"""Was every fault, longrunner and maintenance process active for as long as the scenario asks?"""

from __future__ import annotations

from stallbench.base.number_text import format_plural
from stallbench.records.injections import InjectionRecord
from stallbench.verdicts.check import Check, Finding, Result, RunTables

_SHOWN = 3
"""How many actions of maintenance a reason lists."""


class InjectionsActive(Check):
    """An injection counts only if it was verified to be active, and was still active when it was ended. This rule holds for all categories.
    Maintenance must also have worked: it fails if at least half of its iterations had an error, and is unknown if there was no iteration.
    """

    name = "injections"
    position = 7

    def judge(self, run: RunTables) -> list[Finding]:
        """Return a finding for each injection that the scenario asks for; info if it asks for none."""
        findings = [self._judge(injection) for injection in run.record.injections]
        return findings or [self.not_applicable("injections are active", "the scenario has no fault, longrunner or maintenance")]

    def _judge(self, injection: InjectionRecord) -> Finding:
        result, reason = _judge_activity(injection)
        if injection.iterations is not None:
            result, reason = _judge_iterations(injection, injection.iterations, result, reason)
        return self.finding(result, injection.name, reason, examples=tuple(action.what for action in injection.actions))


def _judge_activity(injection: InjectionRecord) -> tuple[Result, str]:
    during = f" in phase {injection.phase}" if injection.phase else ""
    what = f"{injection.category} {injection.name} on {injection.on}{during}"
    why = f": {injection.why_ended}" if injection.why_ended else ""
    if injection.verified_ns is None:
        return "unknown", f"{what} was never verified to be active"
    if injection.active_to_end is None:
        return "unknown", f"{what} was active, but the run ended before the planned end of the {injection.category}{why}"
    if injection.active_to_end:
        return "pass", f"{what} was active until its end"
    if injection.may_be_ended:
        return "pass", f"{what} was ended by the server, as the scenario allows{why}"
    return "fail", f"{what} was not active until its end{why}"


def _judge_iterations(injection: InjectionRecord, iterations: int, result: Result, reason: str) -> tuple[Result, str]:
    """Add what maintenance did to the judgement of all categories; the stricter of the two results counts."""
    errors, actions = injection.errors, [action.what for action in injection.actions]
    failed = f", {len(errors)} of them with an error (first: {errors[0].what})" if errors else ""
    more = f" and {len(actions) - _SHOWN} more" if len(actions) > _SHOWN else ""
    did = f"; it {', '.join(actions[:_SHOWN])}{more}" if actions else ""
    reason = f"{reason}; it ran {format_plural(iterations, 'iteration')}{failed}{did}"
    if iterations > 2 * len(errors):
        return result, reason
    return ("fail" if errors or result == "fail" else "unknown"), reason
