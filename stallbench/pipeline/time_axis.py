"""The run's time: seconds since its first phase began, and which phase a moment belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from pyspark.sql import Column
from pyspark.sql import functions as F

from stallbench.measures import WHOLE_RUN
from stallbench.pipeline.frames import constant
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.run.record import RunRecord

_Moments = TypeVar("_Moments", Column, "pd.Series[Any]")
"""Moments in Spark or in pandas."""
PATIENCE_S = 1.0
"""A job is passed over if a younger one was claimed this long before it. The queue also has this long to detect that a worker has died, or that
a time has passed that it counts in whole seconds."""
FIRST_INTERVAL = 1 << 30
"""Scopes from here on are intervals, those below are seconds: grouping by one number is quicker than by a number and a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A phase, or the whole run. It contains its start and not its end."""

    name: str
    start_ns: int
    end_ns: int

    @property
    def duration_s(self) -> float:
        """Its length in seconds."""
        return (self.end_ns - self.start_ns) / NS_PER_S

    def holds(self, t_ns: Column) -> Column:
        """Whether a moment is in it."""
        return (t_ns >= self.start_ns) & (t_ns < self.end_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """Where on the run's time a moment is."""

    start_ns: int
    """Second 0."""
    last_ns: int
    """The last record's time."""
    phases: tuple[Interval, ...]
    """Those that began, in order; they do not overlap."""
    run: Interval | None
    """The whole run; none if no measured phase began."""

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """The phases, then the whole run."""
        return (*self.phases, *((self.run,) if self.run else ()))

    def t_s(self, t_ns: _Moments) -> _Moments:
        """Seconds since second 0, as a fraction."""
        return (t_ns - self.start_ns) / NS_PER_S

    def second(self, t_ns: Column) -> Column:
        """The second that a moment is in; negative before second 0."""
        return F.floor(self.t_s(t_ns)).cast("int")

    def phase(self, t_ns: Column) -> Column:
        """Name of the phase that a moment is in; null outside any."""
        return _get([phase.name for phase in self.phases], "string", self.phase_number(t_ns))

    def phase_of(self, t_ns: pd.Series[Any]) -> pd.Series[Any]:
        """Name of the phase that each moment is in; missing outside any."""
        names: pd.Series[Any] = pd.Series(np.nan, index=t_ns.index, dtype="object")
        for phase in self.phases:
            names[(t_ns >= phase.start_ns) & (t_ns < phase.end_ns)] = phase.name
        return names

    def phase_number(self, t_ns: Column) -> Column:
        """Which of `phases` a moment is in; null outside any."""
        number = F.lit(None).cast("int")
        for index, phase in enumerate(self.phases):
            number = F.when(phase.holds(t_ns), index).otherwise(number)
        return number

    def latest_phase(self, t_ns: Column) -> Column:
        """Name of the phase that had begun last at a moment; null before the first phase."""
        name = F.lit(None).cast("string")
        for phase in self.phases:
            name = F.when(t_ns >= phase.start_ns, phase.name).otherwise(name)
        return name

    def is_in_run(self, t_ns: Column) -> Column:
        """Whether a moment is in the whole run."""
        return self.run.holds(t_ns) if self.run else F.lit(False)

    def scopes(self, t_ns: Column) -> Column:
        """The scopes of a moment, as an array of numbers: its second, its phase, the whole run; null for a scope that does not contain it."""
        return self.scopes_of(self.second(t_ns), self.phase_number(t_ns), self.is_in_run(t_ns))

    def scopes_of(self, second: Column, phase_number: Column, is_in_run: Column) -> Column:
        """The scopes of the moments that have this second and this phase."""
        return F.array(second, phase_number + FIRST_INTERVAL, F.when(is_in_run, FIRST_INTERVAL + len(self.phases)))


def _get(values: list[Any], kind: str, index: Column) -> Column:
    return F.get(constant(values, f"array<{kind}>"), index)


def make_time_axis(record: RunRecord, first_ns: int | None, last_ns: int | None) -> TimeAxis:
    """Place the phases; ``first_ns`` and ``last_ns`` are the times of the first and the last record, if there is any.

    Without a phase, second 0 is the first record's.
    """
    times = [phase.start_ns for phase in record.started_phases if phase.start_ns is not None]
    start_ns = times[0] if times else first_ns or 0
    last_ns = max([start_ns, *([last_ns] if last_ns is not None else []), *times])
    placed = record.place_phases(last_ns)
    phases = [Interval(name=phase.name, start_ns=begin_ns, end_ns=end_ns) for phase, begin_ns, end_ns in placed]
    measured = [interval for (phase, _, _), interval in zip(placed, phases, strict=True) if phase.measured]
    run = Interval(name=WHOLE_RUN, start_ns=measured[0].start_ns, end_ns=measured[-1].end_ns) if measured else None
    return TimeAxis(start_ns=start_ns, last_ns=last_ns, phases=tuple(phases), run=run)
