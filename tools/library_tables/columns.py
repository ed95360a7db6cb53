"""The columns of tables that compare libraries: what each cell says of a library's runs in one comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from stallbench.base.number_text import format_value
from stallbench.studies.comparison.record import ComparedRun, ComparisonRecord
from stallbench.verdicts.baseline.compared_metric import TIME_TO_SATURATION
from tools.library_tables.library_run import BASELINE, LibraryRun

HELD = "longtx"
"""The phase in which the horizon is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryRuns:
    """The completed runs of one library in a comparison."""

    record: ComparisonRecord
    compared: Sequence[ComparedRun]
    runs: Sequence[LibraryRun]
    """Those of ``compared``, in the same order."""


class Column(Protocol):
    """A column of a table."""

    @property
    def title(self) -> str:
        """Its heading."""

    def describe(self, of_library: LibraryRuns) -> str:
        """Return the cell of a library; empty if it was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of a run: from a metric in each of its phases, with an arrow between them."""

    title: str
    metric: str
    phases: tuple[str, ...] = (BASELINE, HELD)
    includes_enqueueing: bool = False
    """Whether the time from when a job is due until it is enqueued is part of it."""

    def describe(self, of_library: LibraryRuns) -> str:
        """Return the median of the runs in each phase."""
        runs = of_library.runs
        cell = " → ".join(format_median([run.metric(self.metric, phase) for run in runs]) or "?" for phase in self.phases)
        is_late = self.includes_enqueueing and any(run.has_late_producer() for run in runs)
        return f"{cell} †" if is_late else cell


def make_figures(phases: tuple[str, ...], metrics: Mapping[str, str]) -> tuple[Figure, ...]:
    """Return the figures of ``metrics``, which are by title, in the same phases."""
    return tuple(Figure(title=title, metric=metric, phases=phases) for title, metric in metrics.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class CostOfOldVersions:
    """How much a metric of the claim statement rose for each thousand by which the mean of old row versions rose while the horizon was held."""

    title: str
    metric: str
    old_versions: str = "dead_tuples"
    """Their measure."""
    times: float = 1

    def describe(self, of_library: LibraryRuns) -> str:
        """Return the median of the runs; empty if it was not measured, or if there were no more old row versions than before."""
        return format_median([self._of(run) for run in of_library.runs])

    def _of(self, run: LibraryRun) -> float | None:
        rise = _rise(run, self.metric)
        old_versions = _rise(run, f"{self.old_versions}.mean")
        return (
            1000 * self.times * rise / old_versions
            if rise is not None and old_versions is not None and old_versions > 0
            else None
        )


@dataclass(frozen=True, slots=True)
class OfComparison:
    """A cell that does not come from a metric in a phase."""

    title: str
    describe: Callable[[LibraryRuns], str]


def format_median(values: Sequence[float | None]) -> str:
    """Return the median of the known values; empty if none is known."""
    known = [value for value in values if value is not None]
    return format_value(median(known)) if known else ""


def _describe_capacity(of_library: LibraryRuns) -> str:
    of_variant = (each.capacity for each in of_library.record.variants if each.name == of_library.compared[0].variant)
    capacity = next(of_variant, None)
    return "" if capacity is None else format_value(capacity)


def _describe_load(of_library: LibraryRuns) -> str:
    return format_median([run.stored.record.scenario.producers.rate for run in of_library.runs])


def _describe_saturation(of_library: LibraryRuns) -> str:
    key = next((subject.key for subject in of_library.record.subjects if subject.metric == TIME_TO_SATURATION), "")
    known = [value for run in of_library.compared if (value := run.values.get(key)) is not None]
    if not known:
        return ""
    phases = (phase for run in of_library.runs for phase in run.stored.record.phases)
    longest_s = max(phase.planned_duration_s for phase in phases if phase.name == HELD)
    return f"{median(known):.0f} s" if median(known) < longest_s - 1 else f"not in {longest_s:.0f} s"


def _rise(run: LibraryRun, metric: str) -> float | None:
    before, held = run.metric(metric, BASELINE), run.metric(metric, HELD)
    return held - before if before is not None and held is not None else None


CAPACITY = OfComparison("capacity, jobs/s", _describe_capacity)
LOAD = OfComparison("load, jobs/s", _describe_load)
SATURATION = OfComparison("time to saturation", _describe_saturation)
