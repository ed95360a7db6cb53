"""The intervals that charts show behind the curves of a run: its phases, and the injections in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stallbench.records.injections import InjectionRecord
from stallbench.run.record import PhaseRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """One phase, longrunner or fault that has begun."""

    what: str
    """``phase``, ``longrunner`` or ``fault``."""
    name: str
    kind: str
    """The longrunner's or fault's; of a phase ``measured`` or ``not measured``."""
    on: str
    """Server or other target; empty for a phase."""
    start_ns: int
    """Wall clock; of a longrunner or fault when it was verified to be active."""
    end_ns: int | None
    """None while it goes on."""

    @property
    def text(self) -> str:
        """The text of an annotation."""
        if self.what == "phase":
            return f"phase {self.name}" + ("" if self.kind == "measured" else f" ({self.kind})")
        return f"{self.name} on {self.on}" if self.on else self.name


def read_intervals(phases: Sequence[PhaseRecord], injections: Sequence[InjectionRecord]) -> list[Interval]:
    """Return the phases that have begun, then the injections of a phase that have been verified to be active."""
    of_phases = [
        Interval(
            what="phase",
            name=phase.name,
            kind="measured" if phase.measured else "not measured",
            on="",
            start_ns=phase.start_ns,
            end_ns=phase.end_ns,
        )
        for phase in phases
        if phase.start_ns is not None
    ]
    of_injections = [
        Interval(
            what=injection.category,
            name=injection.name,
            kind=injection.kind,
            on=injection.on,
            start_ns=injection.verified_ns,
            end_ns=injection.end_ns,
        )
        for injection in injections
        if injection.phase is not None and injection.verified_ns is not None
    ]
    return [*of_phases, *of_injections]
