"""What changed between two readings of a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stallbench.observe.diagnostic import Finding


@dataclass(frozen=True, slots=True)
class Change:
    """A finding that is new, worse than at the reading before, or over."""

    kind: Literal["began", "worse", "ended"]
    finding: Finding
    """As it is now; of one that is over, as it was."""


def find_changes(before: Sequence[Finding], now: Sequence[Finding]) -> list[Change]:
    """Return what changed: what began or became worse in the order of ``now``, then what ended."""
    old = {(one.subject, one.about): one for one in before}
    new = {(one.subject, one.about): one for one in now}
    changes = [
        Change("began" if key not in old else "worse", one)
        for key, one in new.items()
        if key not in old or one.severity < old[key].severity
    ]
    return changes + [Change("ended", one) for key, one in old.items() if key not in new]
