"""The result for each promise of a queue, and what `stallbench conform` prints of it."""

from __future__ import annotations

from dataclasses import dataclass

from stallbench.studies.torture.outcome import NOT_TRIED, PROMISES, STATES, TortureOutcome
from stallbench.verdicts.check import WORST_FIRST, Result

_WIDTH = max(map(len, STATES.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseOutcome:
    """One promise: ``info`` if the queue does not give it."""

    name: str
    result: Result
    reason: str = ""


def summarise_torture(outcome: TortureOutcome) -> list[PromiseOutcome]:
    """Return one outcome for each promise, over all crash points: its worst, and where that was."""
    found = []
    for check, title in PROMISES.items():
        name = f"{title}, at every crash point"
        results = outcome.results_at(check)
        worst: Result = min(results.values(), key=WORST_FIRST.index, default="unknown")
        where = ", ".join(point for point, result in results.items() if result == worst)
        said_by = (NOT_TRIED, check) if worst == "unknown" else (check,)
        known = (*(reason for each in outcome.trials for reason in each.reasons), *outcome.undecided)
        reasons = [str(reason) for reason in known if reason.check in said_by]
        if worst == "pass":
            where = f"at {sum(result == 'pass' for result in results.values())} points"
        elif worst == "info":
            where = "it is not promised"
        found.append(PromiseOutcome(name=name, result=worst, reason="; ".join([where, *reasons[:1]])))
    others = [reason for reason in outcome.undecided if reason.check not in PROMISES]
    if outcome.elsewhere or others:
        result: Result = "fail" if outcome.elsewhere else "unknown"
        why = "; ".join(map(str, [*outcome.elsewhere, *others]))
        found.append(PromiseOutcome(name="nothing else is wrong", result=result, reason=why))
    return found


def not_all_tried(why: str) -> PromiseOutcome:
    """Return what a record has in place of the promises that were not tried, so that it is not taken for a whole one."""
    return PromiseOutcome(name="every promise was tried", result="unknown", reason=why)


def describe_promise(promise: PromiseOutcome) -> str:
    """Return one line."""
    return f"{STATES[promise.result]:<{_WIDTH}}  {promise.name}{f': {promise.reason}' if promise.reason else ''}"
