"""Which runs the tables of libraries in the documentation may show: those of a project's scenario, with no other changes than the page allows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stallbench.scenario.command import is_of_project
from stallbench.scenario.overlay import parse_changes


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedChanges:
    """The changes to a scenario, by dotted keys, with which its runs are comparable with what the page states.

    The queue may be replaced by a library with its default options, and the seed may differ.
    """

    variant: str | None = None
    """The variant of the scenario that is shown; none for the scenario itself."""
    stated: Mapping[str, object] = field(default_factory=dict)
    """Must be made, with these values: the page states them."""
    harmless: Mapping[str, object] = field(default_factory=dict)
    """May be made, with these values."""
    deviations: Collection[str] = ()
    """May be made, with any value, but such a run replaces none without them; the command in the cell's footnote shows them."""

    def find_issue(self, name: str, file: str, variant: str | None, changes: Sequence[str]) -> str:
        """Return why a run of the scenario ``name`` cannot be shown; empty if it can."""
        if not is_of_project(name, file):
            return f"its file is {file}"
        if variant != self.variant:
            return f"it is of the variant {variant}" if variant else f"it is not of the variant {self.variant}"
        made = dict(_flatten(parse_changes(changes)[0]))
        fixed = {**self.harmless, **self.stated}
        if other := [key for key, value in made.items() if not self._allows(key, value, fixed)]:
            return f"it changes {', '.join(other)}; allowed: {', '.join(self._describe()) or 'no change'}"
        if missing := [f"{key}={value}" for key, value in self.stated.items() if key not in made]:
            return f"the page's runs have --set {' --set '.join(missing)}"
        return ""

    def find_deviations(self, changes: Sequence[str]) -> list[str]:
        """Return which of ``deviations`` are among the changes of a run."""
        return [key for key, _ in _flatten(parse_changes(changes)[0]) if key in self.deviations]

    def _allows(self, key: str, value: object, fixed: Mapping[str, object]) -> bool:
        if key in fixed:
            return fixed[key] == value
        return key in ("queue.kind", "seed") or key in self.deviations

    def _describe(self) -> Iterator[str]:
        yield from self.deviations
        yield from (f"{key}={value}" for key, value in {**self.stated, **self.harmless}.items())


def _flatten(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in content.items():
        if isinstance(value, dict) and value:
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
