"""The stretches of a run that curves are read against: its phases, and what was wrong in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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
    """Wall clock; of a longrunner or fault when it was proven to be in force."""
    end_ns: int | None
    """None while it goes on."""

    @property
    def text(self) -> str:
        """What stands beside a curve."""
        if self.what == "phase":
            return f"phase {self.name}" + ("" if self.kind == "measured" else f" ({self.kind})")
        return f"{self.name} on {self.on}" if self.on else self.name


def read_intervals(
    phases: Sequence[Mapping[str, Any]], longrunners: Sequence[Mapping[str, Any]], faults: Sequence[Mapping[str, Any]]
) -> list[Interval]:
    """Return what has begun, from the lists of ``run.json``."""
    found = [
        Interval(
            what="phase",
            name=phase["name"],
            kind="measured" if phase["measured"] else "not measured",
            on="",
            start_ns=phase["start_ns"],
            end_ns=phase["end_ns"],
        )
        for phase in phases
        if phase["start_ns"] is not None
    ]
    for what, records in (("longrunner", longrunners), ("fault", faults)):
        found += [
            Interval(
                what=what,
                name=record["name"],
                kind=record["kind"],
                on=record["on"] or "",
                start_ns=record["verified_ns"],
                end_ns=record["end_ns"],
            )
            for record in records
            if record["verified_ns"] is not None
        ]
    return found
