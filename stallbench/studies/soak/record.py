"""The record of a soak: which scenario is soaked for how long, and the outcome of each cycle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from stallbench.report.outcome_text import VerdictWords, word_runs
from stallbench.scenario.model import Scenario
from stallbench.studies.study import StudyPart, StudyRecord, StudyRun


class Figure(StudyPart):
    """One value of one cycle; its drift over the cycles is measured."""

    value: float
    metric: str = ""
    """Like ``claim_ms.p95``, or one of a process, like ``memory_bytes``."""
    phase: str = ""
    """Of a metric of the queue."""
    process: str = ""
    """Of a metric of a process."""
    subject: str = ""
    """What was measured, if it is not the same in every cycle, like a process id; only values of the same subject are compared."""


class CycleRun(StudyRun):
    """One cycle. Only completed ones count."""

    server_set: int
    """Which servers it ran on: 1 for the first ones; each continuation starts new ones and adds 1."""
    verdict: Literal["pass", "fail", "unknown"] | None = None
    start_ns: int
    spent_s: float = 0.0
    """From its start until its tables were made."""
    pause_s: float = 0.0
    """The last part of that, in which the load was suspended."""
    left_over: int = 0
    """Jobs in the queue when it ended."""
    record_bytes: int = 0
    """Size of its folder when it ended."""
    bytes: int = 0
    """Size of its folder now."""
    records_removed: bool = False
    """Whether its records and its table of jobs were removed to save space."""
    figures: Mapping[str, Figure] = {}


class SoakRecord(StudyRecord):
    """The whole file."""

    kind: Literal["soak"] = "soak"
    scenario: Scenario
    """As in ``run.json``."""
    for_s: float
    """Planned length of all phases together, without the time in which the load is suspended."""
    keep: int
    """How many of the last passed cycles keep their records, and how many of the first cycles that did not pass."""
    is_external: bool
    """Whether it runs on servers that the bench did not start."""
    notes: tuple[str, ...] = ()
    runs: tuple[CycleRun, ...] = ()
    bound_bytes: int = 0
    """The greatest allowed size of the soak's folder."""
    drift: Mapping[str, Mapping[str, Any] | None] = {}
    """By figure, as in `stallbench.studies.soak.drift`; empty until the soak has ended."""

    @property
    def completed(self) -> list[CycleRun]:
        """The completed cycles; only they count."""
        return [cycle for cycle in self.runs if cycle.status == "completed"]

    @property
    def incomplete(self) -> list[CycleRun]:
        """The cycles that ended early; they keep their records."""
        return [cycle for cycle in self.runs if cycle.status in ("failed", "aborted")]

    @property
    def first_failed(self) -> CycleRun | None:
        """The first completed cycle whose verdict is not ``pass``."""
        return next((cycle for cycle in self.completed if cycle.verdict != "pass"), None)

    @property
    def planned_cycles(self) -> int:
        """How many cycles are planned."""
        return int(self.for_s / self.scenario.duration_s + 1e-9)

    @property
    def verdict(self) -> Literal["pass", "fail", "unknown"]:
        """``pass`` if every cycle passed; ``fail``, also before the end, if one did not."""
        if self.first_failed:
            return "fail"
        return "pass" if self.status == "completed" and self.completed else "unknown"

    def word_verdict(self) -> VerdictWords:
        """Return what all cycles have in common, or which do not."""
        return word_runs("cycle", self.completed)

    def with_note(self, sentence: str) -> Self:
        """Return the record with a sentence that the report must show."""
        return self if sentence in self.notes else self.model_copy(update={"notes": (*self.notes, sentence)})
