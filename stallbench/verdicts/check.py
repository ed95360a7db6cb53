"""What a check is given, and what it finds."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import pandas as pd

from stallbench.measures import WHOLE_RUN
from stallbench.pipeline.tables import read_table

Result = Literal["pass", "fail", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was checked."""

    check: str
    subject: str
    """What in particular: an expectation, a property, a longrunner."""
    result: Result
    reason: str
    """One sentence with the figures in it."""
    expected: str = ""
    found: str = ""
    because: str = ""
    """What the expectation shows, in the scenario's words."""
    examples: tuple[str, ...] = ()

    @classmethod
    def unknown(cls, check: str, reason: str, subject: str = "") -> Self:
        """Make a finding that something could not be decided, and why."""
        return cls(check=check, subject=subject or check, result="unknown", reason=reason)

    def as_json(self) -> dict[str, Any]:
        """Return it for ``verdict.json``."""
        return asdict(self)


class RunTables:
    """A run's record and tables, read when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        """Remember the folder."""
        self.folder = folder
        self._tables: dict[str, pd.DataFrame] = {}

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """``run.json``."""
        content: Mapping[str, Any] = json.loads((self.folder / "run.json").read_text())
        return content

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._tables:
            self._tables[name] = read_table(self.folder, name)
        return self._tables[name]

    def metric(self, measure: str, statistic: str, phase: str | None) -> float | None:
        """Return a metric's value in ``phase`` (the whole run if none), or none if there are no data for it."""
        phases = self["phases"]
        rows = phases[
            (phases["measure"] == measure) & (phases["statistic"] == statistic) & (phases["phase"] == (phase or WHOLE_RUN))
        ]
        return float(rows["value"].iloc[0]) if len(rows) else None

    def state_count(self, state: str) -> int:
        """Return how many jobs are in ``state`` of the conservation table."""
        rows = self["conservation"]
        return int(rows.loc[rows["state"] == state, "jobs"].sum())

    def state_examples(self, state: str) -> tuple[str, ...]:
        """Return the first ids of the jobs in ``state``."""
        rows = self["conservation"]
        return tuple(str(job) for jobs in rows.loc[rows["state"] == state, "examples"] for job in jobs)


class Check(ABC):
    """One property of a run."""

    name: ClassVar[str]
    place: ClassVar[int]
    """Where the report shows it; smaller is further up."""

    @abstractmethod
    def judge(self, run: RunTables) -> list[Finding]:
        """Return what was found. What it raises makes it unknown."""
