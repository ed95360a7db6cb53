"""What a measure is: its source, unit, statistics, and where it is shown. `stallbench.measures` declares every one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stallbench.records.events import Event

QUANTILES = {"p50": 50, "p95": 95, "p99": 99}
"""Statistics of a measure with durations: the percentile of each."""

QUOTIENTS = ("share", "mean", "per_call")
"""Statistics of a measure that is ``divided_by`` another: its count divided by the other's count."""

WITHOUT_DIRECTION = ("r2",)
"""Statistics of which neither a higher nor a lower value is preferred, whatever the measure."""

Better = Literal["higher", "lower"]

_DIMENSIONS = ("ms", "s", "bytes", "%", "µs")
"""Units that a value needs beside it. All others say what is counted, as the label does."""

_WORDS = {
    "count": "",
    "rate": "",
    "first": " at the start",
    "last": " at the end",
    "max": ", maximum",
    "min": ", minimum",
    "per_call": " per call",
    "per_job": " per job",
} | {quantile: f" {quantile}" for quantile in QUANTILES}
"""What a statistic adds to the label of its measure; of those that are not here, their name after a comma."""


@dataclass(frozen=True, slots=True)
class FromEvents:
    """The source is the event log: each of ``events`` counts once."""

    events: tuple[Event, ...]
    value: Literal["duration", "lag", "since_due"] | None = None
    """``duration``: how long the call took. ``lag``: how long after its intended time it began. ``since_due``: how long after its intended time it
    ended; it counts at its intended time, so that what takes long is of the moment at which it was wanted. None: the event has no value."""
    deadlock_in: str = ""
    """An operation. If given, only errors of this operation count by which a server broke a deadlock."""
    error_in: str = ""
    """An operation. If given, only errors of this operation count, whatever their code."""

    @property
    def counts_all(self) -> bool:
        """Whether each of the events counts, and not only errors of one operation."""
        return not self.deadlock_in and not self.error_in


@dataclass(frozen=True, slots=True)
class FromSamples:
    """The source is a metric that collectors sample; the same metric of several collectors is the same thing on several engines."""

    subject: str
    """Kind of the sample's subject: the part before the colon (``table`` of ``table:que_jobs``); empty for any."""
    metric: str = ""
    """Name of the sample's metric; empty if it is the measure's name."""
    combine: Literal["max", "sum"] = "max"
    """How the samples of several subjects or servers at one moment become one value."""
    is_counter: bool = False
    """Whether the metric only grows, from its server's start."""


@dataclass(frozen=True, slots=True)
class FromTable:
    """The source is a table of the run's folder; a module of the pipeline derives the measure from it."""

    table: str
    by_time: bool = False
    """Whether the module gives single values with their times, which are then counted by second and by phase as events are."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Something measured in every phase."""

    name: str
    """Ends in its unit, where it has one."""
    unit: str
    """``ms``, ``s``, ``bytes``, ``%``, ``µs``, or what is counted (``jobs``, ``tuples``); empty for a plain number."""
    source: FromEvents | FromSamples | FromTable
    statistics: tuple[str, ...]
    label: str
    """What reports and charts call it, without its unit."""
    meaning: str
    better: Better = "lower"
    """Which of two values a user prefers, all else being equal."""
    has_direction: bool = True
    """Whether a change in one direction is worse by itself. If not, a metric of this measure is not compared with a baseline file."""
    chart: str | None = None
    """Title of the report's chart that draws it by the second: one of `CHARTS`, or a new one after them."""
    prometheus_name: str = ""
    """Name of its series in base units (seconds, ratios), without the prefix ``stallbench_``; empty if it has none."""
    by_second: tuple[str, ...] = ()
    """The statistics that the table ``windows`` has for each second: of single values; of a counter ``count``, its growth, and `QUOTIENTS`."""
    in_report: tuple[str, ...] = ()
    """The statistics that the report's table of phases shows."""
    hides_zero: bool = False
    """Whether that table leaves them out if they are 0 or missing in every phase."""
    singular: str = ""
    """One of what is counted, in a sentence; empty if no sentence names one."""
    divided_by: str = ""
    """The measure that the statistics `QUOTIENTS` divide it by."""
    is_of_run: bool = False
    """Whether it is of the whole run only: an order, for example, has no phases."""

    @property
    def quotients(self) -> tuple[str, ...]:
        """The statistics that divide its count by the count of another measure."""
        return tuple(statistic for statistic in self.statistics if self.divided_by and statistic in QUOTIENTS)

    def unit_of(self, statistic: str) -> str:
        """Return the unit to show beside a value of ``statistic``, like ``ms`` or ``jobs/s``; empty if the label says what is counted."""
        if statistic in ("rate", "slope"):
            return f"{self.unit}/s"
        return self.unit if self.unit in _DIMENSIONS and statistic not in ("share", *WITHOUT_DIRECTION) else ""

    def label_of(self, statistic: str) -> str:
        """Return what a page calls ``statistic``, without its unit: ``claim time p95``."""
        words = _WORDS.get(statistic)
        return f"{self.label}, {statistic.replace('_', ' ')}" if words is None else self.label + words

    def title_of(self, statistic: str) -> str:
        """Return `label_of` with the unit: ``claim time p95, ms``."""
        unit = self.unit_of(statistic)
        return f"{self.label_of(statistic)}, {unit}" if unit else self.label_of(statistic)

    @property
    def is_counted(self) -> bool:
        """Whether it counts single events, so that it is 0, not unknown, where nothing happened."""
        by_time = isinstance(self.source, FromEvents) or (isinstance(self.source, FromTable) and self.source.by_time)
        return by_time and "count" in self.statistics


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of the report."""

    title: str
    is_logarithmic: bool = False
    hides_zero: bool = False  # it is left out of the page if all its values are 0
