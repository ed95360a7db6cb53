"""``soak.json``: what is soaked for how long, and what became of each cycle; replaced whole after each, so that a soak can be resumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from stallbench.errors import EXIT_FAIL, EXIT_INTERRUPTED, EXIT_NOT_CARRIED_OUT, EXIT_PASS

CycleStatus = Literal["running", "completed", "failed", "aborted", "torn"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Figure(_Part):
    """One value of one cycle, whose drift over the cycles is looked at."""

    value: float
    of: str = ""
    """What it was measured of, if that is not the same in every cycle: values of different processes are no line."""


class CycleRecord(_Part):
    """One cycle."""

    number: int
    interval: int
    """Which servers it ran on: 1 for those of the start, one more after each resumption."""
    status: CycleStatus = "running"
    """``failed``: could not be carried out. ``aborted``: interrupted. ``torn``: the bench was killed in it. Only ``completed`` ones count."""
    reason: str = ""
    """Of the verdict; of a cycle without one, why it has none."""
    verdict: Literal["pass", "fail", "unknown"] | None = None
    start_ns: int
    spent_s: float = 0.0
    """From its start until its tables were made."""
    resting_s: float = 0.0
    """The last part of that, in which nobody worked."""
    left_over: int = 0
    """Jobs that were in the queue when it ended."""
    record_bytes: int = 0
    """What its folder held when it ended."""
    bytes: int = 0
    """What its folder holds now."""
    is_thinned: bool = False
    """Whether its records and its table of jobs were removed, to bound the space."""
    figures: Mapping[str, Figure] = {}


class SoakRecord(_Part):
    """The whole file."""

    format: Literal[1] = 1
    id: str
    status: Literal["running", "completed", "failed", "aborted"] = "running"
    reason: str = ""
    bench: Mapping[str, Any]
    scenario: Mapping[str, Any]
    """As in ``run.json``."""
    for_s: float
    """How long its phases are to take together; rests are not counted."""
    keep: int
    """How many of the last passed cycles keep their records, and how many of the first that did not pass."""
    is_joined: bool
    """Whether it runs on servers that the bench did not start."""
    notes: tuple[str, ...] = ()
    cycles: tuple[CycleRecord, ...] = ()
    bound_bytes: int = 0
    """What the soak's folder may hold at most."""
    drift: Mapping[str, Mapping[str, Any] | None] = {}
    """By figure, as `stallbench.soak.drift` has it; empty until there was an end."""

    @property
    def whole(self) -> list[CycleRecord]:
        """The cycles that count."""
        return [cycle for cycle in self.cycles if cycle.status == "completed"]

    @property
    def broken(self) -> list[CycleRecord]:
        """The cycles that were broken off: they keep what they have."""
        return [cycle for cycle in self.cycles if cycle.status in ("failed", "aborted", "torn")]

    @property
    def first_failed(self) -> CycleRecord | None:
        """The first cycle that did not pass, whether it failed or could not be decided."""
        return next((cycle for cycle in self.whole if cycle.verdict != "pass"), None)

    @property
    def cycle_s(self) -> float:
        """Length of a cycle's phases."""
        return float(sum(phase["duration_s"] for phase in self.scenario["phases"]))

    @property
    def planned_cycles(self) -> int:
        """How many cycles it is to have."""
        return int(self.for_s / self.cycle_s + 1e-9)

    @property
    def exit_code(self) -> int:
        """What a command that shows the soak ends with."""
        if self.status != "completed":
            return EXIT_INTERRUPTED if self.status == "aborted" else EXIT_NOT_CARRIED_OUT
        return EXIT_PASS if self.whole and self.first_failed is None else EXIT_FAIL

    def with_cycle(self, cycle: CycleRecord) -> Self:
        """Return the record with ``cycle`` in the place of the one of its number, or behind all others."""
        others = [each for each in self.cycles if each.number != cycle.number]
        return self.model_copy(update={"cycles": tuple(sorted([*others, cycle], key=lambda each: each.number))})

    def with_note(self, sentence: str) -> Self:
        """Return the record with a sentence that the report must show."""
        return self if sentence in self.notes else self.model_copy(update={"notes": (*self.notes, sentence)})
