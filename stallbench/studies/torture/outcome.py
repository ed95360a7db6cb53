"""The outcome of a torture: which promises hold at each point, judged by the checks of the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from stallbench.studies.torture.plan import Trial
from stallbench.verdicts.check import WORST_FIRST, Result

State = Literal["holds", "broken", "unknown", "not promised"]

RESULTS: Mapping[State, Result] = {"holds": "pass", "broken": "fail", "unknown": "unknown", "not promised": "info"}
STATES: Mapping[Result, State] = {result: state for state, result in RESULTS.items()}
PROMISES: Mapping[str, str] = {
    "conservation": "nothing lost",
    "duplicates": "nothing repeated",
    "left behind": "nothing left behind",
    "starvation": "nothing starved",
    "order": "in order",
    "errors": "no errors",
}
"""The checks that judge a queue's promises, and the titles of their columns."""


NOT_TRIED = "not tried"
"""In the place of a check: no process passed the point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why something does not hold, or is not known."""

    check: str
    """The check that says so, which need not be one of `PROMISES`; `NOT_TRIED` if nothing could be checked."""
    text: str

    def __str__(self) -> str:
        """Return one line, which begins with the promise."""
        return f"{PROMISES.get(self.check, self.check)}: {self.text}"


@dataclass(slots=True, kw_only=True)
class TrialOutcome:
    """Which promises hold at one point, by the name of the check."""

    trial: Trial
    hits: int = 0
    """How many processes died or stopped at the point."""
    states: dict[str, State] = field(default_factory=dict)
    reasons: list[Reason] = field(default_factory=list)
    """What happened, one for each promise that does not hold or is unknown."""
    needs_others: bool = False
    """Whether a job that broke a promise was hit at other points, too, so that this point alone need not show it again."""

    def state_of(self, check: str) -> State:
        """Return the state of the promise of ``check``."""
        return self.states.get(check, "unknown")

    def mark_broken(self, check: str, reason: str) -> None:
        """Record that the promise of ``check`` is broken."""
        self.states[check] = "broken"
        self.reasons.append(Reason(check=check, text=reason))

    @property
    def is_sound(self) -> bool:
        """Whether every promise holds that the queue gives: none is unknown."""
        return not self.reasons and all(self.state_of(check) in ("holds", "not promised") for check in PROMISES)


@dataclass(slots=True, kw_only=True)
class TortureOutcome:
    """All points, and what could not be attributed to one of them."""

    trials: list[TrialOutcome]
    elsewhere: list[Reason]
    """What is wrong, but cannot be attributed to a point."""
    undecided: list[Reason] = field(default_factory=list)
    """What a run could not decide, at any point: for example because claims expire only after its end."""

    @property
    def broken(self) -> int:
        """How many promises are broken."""
        return sum(state == "broken" for each in self.trials for state in each.states.values()) + len(self.elsewhere)

    @property
    def verdict(self) -> Literal["pass", "fail", "unknown"]:
        """``pass`` if every promise holds at every point, ``fail`` if one is broken; unknown if no point was tried."""
        if self.trials and all(trial.is_sound for trial in self.trials) and not self.elsewhere and not self.undecided:
            return "pass"
        return "fail" if self.broken else "unknown"

    def results_at(self, check: str) -> dict[str, Result]:
        """Return what was found of the promise of ``check``, by point and action."""
        return {f"{each.trial.point} ({each.trial.action})": RESULTS[each.state_of(check)] for each in self.trials}

    def list_promises(self) -> dict[str, Result]:
        """Return what was found of each promise: the worst of all points, and where that was, if it does not hold or is not known at some."""
        found: dict[str, Result] = {}
        for check, title in PROMISES.items():
            results = self.results_at(check)
            if check in {reason.check for reason in self.elsewhere}:
                results["no known point"] = "fail"
            elif check in {reason.check for reason in self.undecided}:
                results["no known point"] = "unknown"
            worst: Result = min(results.values(), key=WORST_FIRST.index, default="unknown")
            where = [point for point, result in results.items() if result == worst and worst in ("fail", "unknown")]
            found[f"{title} at {', '.join(where)}" if where and len(where) < len(results) else title] = worst
        for reason in self.undecided:
            if reason.check not in PROMISES:
                found[f"nothing else goes wrong ({reason})"] = "unknown"
        for reason in self.elsewhere:
            if reason.check not in PROMISES:
                found[f"nothing else goes wrong ({reason})"] = "fail"
        return found

    @classmethod
    def merge(cls, parts: Iterable[TortureOutcome]) -> TortureOutcome:
        """Return the outcome of several runs together. Of a trial that was repeated, only the last outcome counts."""
        parts = list(parts)
        return cls(
            trials=list({each.trial: each for part in parts for each in part.trials}.values()),
            elsewhere=[reason for part in parts for reason in part.elsewhere],
            undecided=list(dict.fromkeys(reason for part in parts for reason in part.undecided)),
        )
