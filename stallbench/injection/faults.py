"""Faults under the run's control: let go wrong when their time comes, proven, watched, undone, and proven to be undone.

A fault that cannot be injected, or is no longer in force when its time ends, is the end of the run: what it was to show was not shown.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stallbench.engines import loaded_errors
from stallbench.errors import NotCarriedOutError, StallbenchError
from stallbench.faults import Fault, FaultContext, find_faults
from stallbench.scenario.model import FaultChoice


@dataclass(slots=True, kw_only=True)
class _Planned:
    """One fault of one phase, and what is known of it; the fields are those of ``run.json``."""

    fault: Fault[Any]
    choice: FaultChoice
    phase: str
    planned_start_s: float
    begin_s: float
    """On the monotonic clock."""
    end_s: float | None
    start_ns: int | None = None
    verified_ns: int | None = None
    end_ns: int | None = None
    verified_gone_ns: int | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    held: bool | None = None
    why_ended: str = ""
    is_undone: bool = False

    @property
    def is_in_force(self) -> bool:
        """Whether something may be wrong that has to be undone."""
        return self.start_ns is not None and not self.is_undone

    def record(self) -> dict[str, Any]:
        """Return its part of ``run.json``."""
        return {
            "name": self.fault.name,
            "kind": self.choice.kind,
            "on": self.choice.on,
            "phase": self.phase,
            "options": self.fault.options.model_dump(mode="json"),
            "planned_start_s": self.planned_start_s,
            "planned_duration_s": self.choice.for_s,
            "start_ns": self.start_ns,
            "verified_ns": self.verified_ns,
            "end_ns": self.end_ns,
            "verified_gone_ns": self.verified_gone_ns,
            "evidence": self.evidence,
            "held": self.held,
            "why_ended": self.why_ended,
        }


class Faults:
    """All faults of a run."""

    def __init__(self, context: FaultContext, say: Callable[[str], None], numbers: Counter[str] | None = None) -> None:
        """Prepare; nothing goes wrong. ``say`` is told, in a sentence, what does.

        ``numbers``: how many of each kind there were before: processes that live longer than the run know faults by their names.
        """
        self._context = context
        self._say = say
        self._numbers = Counter() if numbers is None else numbers
        self._all: list[_Planned] = []

    def records(self) -> list[dict[str, Any]]:
        """Return all of them for ``run.json``."""
        return [planned.record() for planned in self._all]

    def plan(self, phase: str, choices: tuple[FaultChoice, ...], *, planned_start_s: float) -> None:
        """Take in those of a phase that begins now; `go_on` lets them go wrong."""
        now_s = time.monotonic()
        for choice in choices:
            kind = find_faults()[choice.kind]
            self._numbers[choice.kind] += 1
            number = self._numbers[choice.kind]
            begin_s = now_s + choice.after_s
            self._all.append(
                _Planned(
                    fault=kind(
                        f"{choice.kind}-{number}", choice.on, kind.options_type.model_validate(choice.options), self._context
                    ),
                    choice=choice,
                    phase=phase,
                    planned_start_s=planned_start_s + choice.after_s,
                    begin_s=begin_s,
                    end_s=None if choice.for_s is None else begin_s + choice.for_s,
                )
            )

    def go_on(self) -> float | None:
        """Do what is due now; returns in how many seconds something is due next, or none.

        Raises `NotCarriedOutError` if a fault cannot be injected, kept up or undone.
        """
        for planned in self._all:
            now_s = time.monotonic()
            if planned.start_ns is None and now_s >= planned.begin_s:
                self._begin(planned)
            elif planned.is_in_force and planned.end_s is not None and now_s >= planned.end_s:
                self._end(planned)
            elif planned.is_in_force:
                self._carry_out(planned, planned.fault.keep_up, "kept up")
                if self._carry_out(planned, planned.fault.is_over, "read back"):
                    self._end(planned)
        now_s = time.monotonic()
        due_s = [planned.begin_s for planned in self._all if planned.start_ns is None]
        due_s += [planned.end_s for planned in self._all if planned.is_in_force and planned.end_s is not None]
        return max(0.0, min(due_s) - now_s) if due_s else None

    def end_all(self) -> None:
        """End what is in force, for its phase has ended; what had not begun by then is a fault of its own."""
        for planned in self._all:
            if planned.start_ns is None:
                raise NotCarriedOutError(
                    f"fault {planned.fault.name} was to begin {planned.choice.after_s:g} s after the start of phase "
                    f"{planned.phase!r}, but the phase was over before"
                )
        for planned in reversed(self._all):
            if planned.is_in_force:
                self._end(planned)

    def undo_all(self) -> None:
        """After a run that broke off: put right what is still wrong, as far as that can be done.

        What cannot be put right is in processes and folders that go with the run.
        """
        for planned in reversed(self._all):
            if planned.is_in_force:
                planned.is_undone = True
                try:
                    planned.fault.undo()
                except Exception as error:
                    if not _is_of_the_world(error):
                        raise
                    planned.why_ended = f"could not be undone: {error}"

    def _begin(self, planned: _Planned) -> None:
        planned.start_ns = time.time_ns()
        planned.evidence |= self._carry_out(planned, planned.fault.inject, "injected") or {}
        planned.verified_ns = time.time_ns()
        if planned.fault.is_momentary:
            planned.held = True
            planned.end_ns = planned.verified_gone_ns = planned.verified_ns
        self._say(f"{planned.fault.name} on {planned.choice.on}: {planned.fault.summary}")

    def _end(self, planned: _Planned) -> None:
        if not planned.fault.is_momentary:
            lapse = self._carry_out(planned, planned.fault.find_lapse, "read back")
            planned.held, planned.why_ended = lapse is None, lapse or ""
            planned.end_ns = time.time_ns()
        planned.is_undone = True
        evidence = self._carry_out(planned, planned.fault.undo, "undone")
        if not planned.fault.is_momentary:
            planned.verified_gone_ns = time.time_ns()
            planned.evidence |= evidence or {}
            self._say(f"{planned.fault.name} on {planned.choice.on} is over")

    @staticmethod
    def _carry_out(planned: _Planned, move: Callable[[], Any], what: str) -> Any:
        try:
            return move()
        except Exception as error:
            if not _is_of_the_world(error):
                raise
            where = f"fault {planned.fault.name} on {planned.choice.on} in phase {planned.phase!r}"
            raise NotCarriedOutError(f"{where} could not be {what}: {error}") from error


def _is_of_the_world(error: Exception) -> bool:
    """Whether it is the servers, the proxy or the machine that said no, and not the bench that is broken."""
    return isinstance(error, (OSError, StallbenchError, *loaded_errors()))
