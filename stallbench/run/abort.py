"""Whether a run can still meet what its scenario requires with ``abort``, from the figures of its last seconds.

The outcome decides afterwards, from all records. These figures are less exact, so a bound here is twice as far as the outcome's of the same name
(`stallbench.verdicts.outcome`): a run that is ended early fails.
"""

from __future__ import annotations

from collections.abc import Collection

from stallbench.run.live_figures import LiveFigures
from stallbench.scenario.model import Scenario
from stallbench.scenario.requirement import PARTS

STOPPED_S = 6.0
LONGER_STALL = 6.0
BACKLOG_S = 2.0
DEEPER = 4.0
_FEWEST_LOOKS = 5
"""Of the baseline, and of the phase in which the queue must recover: of fewer nothing is said."""


class Abort:
    """Looks at a run once a second, and says why a requirement cannot be met any more."""

    def __init__(self, scenario: Scenario) -> None:
        """Know what is required; nothing is decided yet."""
        self.reason = ""
        """Why, in words; empty as long as every requirement with ``abort`` may still be met."""
        self._scenario = scenario
        self._parts = frozenset(part for each in scenario.require if each.abort for part in PARTS[each.outcome])
        self._baseline = next((phase.name for phase in scenario.phases if phase.measured), "")
        self._phase = ""
        self._looked_s = 0.0
        self._silent_since_s: float | None = None
        self._longest_silence_s = 0.0
        """Of the baseline."""
        self._rates: list[float] = []
        self._depths: list[int] = []
        """Of the baseline: jobs completed per second, and jobs that waited."""
        self._disturbed: set[str] = set()
        self._depths_after: list[int | None] = []
        """Of this phase: jobs that waited, since nothing was wrong any more."""
        self._silent_looks_after = 0
        """Of these looks: how many found that nothing was completed although jobs waited."""

    @property
    def is_asked(self) -> bool:
        """Whether anything is required with ``abort``."""
        return bool(self._parts)

    def look(self, phase: str, now_s: float, figures: LiveFigures, *, is_disturbed: bool, gone: Collection[str]) -> None:
        """Decide from the latest figures. ``is_disturbed``: whether a fault or longrunner is active. ``gone``: workers that exited unexpectedly."""
        if phase != self._phase:
            self._phase, self._silent_since_s = phase, None
            self._depths_after, self._silent_looks_after = [], 0
        is_silent = self._is_silent(figures)
        if is_disturbed:
            self._disturbed.add(phase)
            self._depths_after, self._silent_looks_after = [], 0
        else:
            self._depths_after.append(figures.depth)
            self._silent_looks_after += is_silent
        silence_s = self._measure_silence_s(now_s, is_silent=is_silent)
        if phase == self._baseline and not self._disturbed:
            self._longest_silence_s = max(self._longest_silence_s, silence_s)
            self._rates.append(figures.completed_rate or 0.0)
            self._depths += [] if figures.depth is None else [figures.depth]
        elif phase in self._disturbed and "effect" in self._parts and self._is_stopped(silence_s):
            self._decide(f"no job was completed for {silence_s:.0f} s in {phase}, although jobs waited")
        if gone and "workers" in self._parts and not self._may_be_replaced(phase):
            self._decide(f"{', '.join(sorted(gone))} exited unexpectedly, and nothing will take the place")

    def end_phase(self, phase: str) -> None:
        """Decide whether the queue was back to normal in ``phase``, if it is the one that follows a fault."""
        before = self._name_phase_before(phase)
        if "recovery" not in self._parts or before not in self._disturbed or phase in self._disturbed or phase != self._phase:
            return
        if len(self._depths) < _FEWEST_LOOKS or len(self._depths_after) < _FEWEST_LOOKS:
            return
        is_silent = self._silent_looks_after == len(self._depths_after)
        if is_silent and self._silent_since_s is not None and self._is_stopped(self._looked_s - self._silent_since_s):
            self._decide(f"no job was completed in {phase}, after {before}, although jobs waited")
        bound = max(DEEPER * max(self._depths), BACKLOG_S * sum(self._rates) / len(self._rates))
        least = min(-1 if depth is None else depth for depth in self._depths_after)
        if least > bound:
            self._decide(
                f"at least {least:,} jobs waited throughout {phase}, after {before}; at most {max(self._depths):,} before"
            )

    def _is_stopped(self, silence_s: float) -> bool:
        return len(self._rates) >= _FEWEST_LOOKS and silence_s >= max(STOPPED_S, LONGER_STALL * self._longest_silence_s)

    def _is_silent(self, figures: LiveFigures) -> bool:
        """Whether nothing is being completed although jobs wait, in the queue or, if nothing is enqueued although jobs are due, in front of it."""
        return not figures.completed_rate and bool(
            figures.depth or (self._scenario.producers.has_load and not figures.enqueued_rate)
        )

    def _measure_silence_s(self, now_s: float, *, is_silent: bool) -> float:
        """Return for how long nothing has been completed although jobs waited."""
        self._looked_s = now_s
        if not is_silent:
            self._silent_since_s = None
            return 0.0
        self._silent_since_s = now_s if self._silent_since_s is None else self._silent_since_s
        return now_s - self._silent_since_s

    def _may_be_replaced(self, phase: str) -> bool:
        """Whether a fault of this phase or a later one may start workers anew."""
        names = [each.name for each in self._scenario.phases]
        return any(each.faults for each in self._scenario.phases[names.index(phase) :])

    def _name_phase_before(self, phase: str) -> str:
        names = [each.name for each in self._scenario.phases]
        number = names.index(phase)
        return names[number - 1] if number else ""

    def _decide(self, reason: str) -> None:
        self.reason = self.reason or reason
