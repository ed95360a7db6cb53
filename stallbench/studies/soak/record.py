"""``soak.json``: which scenario is soaked for how long, and the outcome of each cycle.

It is replaced after each cycle, so that a soak can be resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from stallbench.errors import EXIT_FAIL, EXIT_INTERRUPTED, EXIT_NOT_CARRIED_OUT, EXIT_PASS
from stallbench.run.record import BenchRecord
from stallbench.scenario.model import Scenario

FORMAT: Literal[2] = 2

CycleStatus = Literal["running", "completed", "failed", "aborted", "killed"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Figure(_Part):
    """One value of one cycle; its drift over the cycles is measured."""

    value: float
    subject: str = ""
    """What was measured, if it is not the same in every cycle, like a process id; only values of the same subject are compared."""


class CycleRecord(_Part):
    """One cycle."""

    number: int
    server_set: int
    """Which servers it ran on: 1 for the first ones; each resumption starts new ones and adds 1."""
    status: CycleStatus = "running"
    """``failed``: could not be carried out. ``aborted``: interrupted. ``killed``: the bench was killed during it. Only ``completed`` ones count."""
    reason: str = ""
    """The reason of the verdict, or why there is no verdict."""
    verdict: Literal["pass", "fail", "unknown"] | None = None
    start_ns: int
    spent_s: float = 0.0
    """From its start until its tables were made."""
    resting_s: float = 0.0
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


class SoakRecord(_Part):
    """The whole file."""

    format: Literal[2] = FORMAT
    id: str
    status: Literal["running", "completed", "failed", "aborted"] = "running"
    reason: str = ""
    bench: BenchRecord
    scenario: Scenario
    """As in ``run.json``."""
    for_s: float
    """Planned length of all phases together, without the time in which the load is suspended."""
    keep: int
    """How many of the last passed cycles keep their records, and how many of the first cycles that did not pass."""
    is_external: bool
    """Whether it runs on servers that the bench did not start."""
    notes: tuple[str, ...] = ()
    cycles: tuple[CycleRecord, ...] = ()
    bound_bytes: int = 0
    """The greatest allowed size of the soak's folder."""
    drift: Mapping[str, Mapping[str, Any] | None] = {}
    """By figure, as in `stallbench.studies.soak.drift`; empty until the soak has ended."""
    regressions: tuple[Mapping[str, Any], ...] = ()
    """The findings against the baseline; empty until the soak has ended, and without one."""

    @property
    def completed(self) -> list[CycleRecord]:
        """The completed cycles; only they count."""
        return [cycle for cycle in self.cycles if cycle.status == "completed"]

    @property
    def incomplete(self) -> list[CycleRecord]:
        """The cycles that ended early; they keep their records."""
        return [cycle for cycle in self.cycles if cycle.status in ("failed", "aborted", "killed")]

    @property
    def first_failed(self) -> CycleRecord | None:
        """The first completed cycle whose verdict is not ``pass``."""
        return next((cycle for cycle in self.completed if cycle.verdict != "pass"), None)

    @property
    def cycle_s(self) -> float:
        """Length of a cycle's phases."""
        return self.scenario.duration_s

    @property
    def planned_cycles(self) -> int:
        """How many cycles are planned."""
        return int(self.for_s / self.cycle_s + 1e-9)

    @property
    def exit_code(self) -> int:
        """The exit code of a command that shows the soak."""
        if self.status != "completed":
            return EXIT_INTERRUPTED if self.status == "aborted" else EXIT_NOT_CARRIED_OUT
        return EXIT_PASS if self.completed and self.first_failed is None else EXIT_FAIL

    def with_cycle(self, cycle: CycleRecord) -> Self:
        """Return the record with ``cycle`` in place of the cycle of the same number, or after all others."""
        others = [each for each in self.cycles if each.number != cycle.number]
        return self.model_copy(update={"cycles": tuple(sorted([*others, cycle], key=lambda each: each.number))})

    def with_end(self, status: Literal["completed", "failed", "aborted"], reason: str) -> Self:
        """Return the record of a soak that has ended. A cycle that was running ended with it, in the same way."""
        running = {"status": "aborted" if status == "aborted" else "failed", "reason": reason}
        cycles = tuple(cycle.model_copy(update=running) if cycle.status == "running" else cycle for cycle in self.cycles)
        return self.model_copy(update={"status": status, "reason": reason, "cycles": cycles})

    def with_note(self, sentence: str) -> Self:
        """Return the record with a sentence that the report must show."""
        return self if sentence in self.notes else self.model_copy(update={"notes": (*self.notes, sentence)})
