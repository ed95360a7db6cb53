"""Which faults can be active at the same time: what a kind declares for combined faults (`chaos`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Place = Literal["network", "server", "clients", "jobs", "load"]
"""Where a fault acts. Two faults at the same place could undo, or wait for, each other."""
Needed = Literal["server", "workers"]
"""What a fault can make unavailable, and what another one needs to become or remain active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """How combined faults use a kind of fault."""

    place: Place
    on: str = "primary"
    """The target, if the scenario names none."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options that differ from the defaults of the kind, as in a scenario. They must not make the fault momentary."""
    takes: Needed | None = None
    """What is unavailable while the fault is active."""
    needs: frozenset[Needed] = frozenset()
    """What must be available while the fault is active: otherwise it cannot be verified, or a process that it starts cannot connect."""
    ends_early: bool = False
    """Whether it may end long before its planned end. It then begins as the second of two faults, so that they overlap."""

    def fits(self, other: Combination) -> bool:
        """Whether both can be active at the same time."""
        return (
            self.place != other.place
            and (self.takes is None or self.takes != other.takes)
            and self.takes not in other.needs
            and other.takes not in self.needs
            and not (self.ends_early and other.ends_early)
        )
