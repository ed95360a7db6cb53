"""The record of a search for a limit: its plan, and what each probe has shown. What was found follows from these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from stallbench.base.duration import format_duration
from stallbench.report.outcome_text import VerdictWords
from stallbench.run.folder import create_folder
from stallbench.run.record import describe_bench
from stallbench.scenario.command import argument_of, list_changes, list_variant
from stallbench.scenario.model import Scenario
from stallbench.shell_command import format_shell_command
from stallbench.studies.limit.probes import Horizon, Probe
from stallbench.studies.limit.rates import Interval, find_interval, find_next_rate, is_contradictory
from stallbench.studies.limit.resources import find_first_exhausted
from stallbench.studies.limit.slo import Slo
from stallbench.studies.study import StudyFolder, StudyRecord, StudyRun
from stallbench.verdicts.baseline.against import BaselineChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitPlan:
    """The plan of a search."""

    scenario: Scenario
    slo: Slo
    horizons: tuple[Horizon, ...]
    duration_s: float
    """Of each probe's measured phase."""
    within_s: float
    """Time limit of the command."""
    precision: float
    confirms: bool
    """Whether both ends of an interval are run once more."""
    start_rate: float | None
    """None: the rate of the baseline, or a share of the capacity, which is then measured first."""
    against: BaselineChoice | None = None
    """The baseline that the limits are compared with, if any; in the record none, because ``against.json`` has it."""

    @property
    def command(self) -> str:
        """The command that repeats the search, without a baseline."""
        scenario = self.scenario
        return format_shell_command(
            [
                *("stallbench", "limit", argument_of(scenario.name, scenario.file)),
                *list_variant(scenario.variant),
                *list_changes(scenario.changes),
                *("--slo", self.slo.text),
                *(("--horizon", self.horizons[0]) if len(self.horizons) == 1 else ()),
                *("--probe", format_duration(self.duration_s), "--within", format_duration(self.within_s)),
                *("--precision", f"{self.precision:g}"),
                *(("--start", f"{self.start_rate:g}") if self.start_rate else ()),
                *(() if self.confirms else ("--no-confirm",)),
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What was found with the horizon free, or held."""

    horizon: Horizon
    interval: Interval
    first_exhausted: str
    """A resource, or `stallbench.studies.limit.resources.UNKNOWN`."""
    is_contradictory: bool
    """Whether two runs at the ends of the interval contradict each other; the interval is wider then."""
    is_complete: bool
    """Whether no rate was left to try; otherwise the time ended first."""
    probes: tuple[Probe, ...]


class LimitRun(StudyRun):
    """The run of one probe."""

    horizon: Horizon
    rate: float
    """Jobs per second that are enqueued."""
    probe: Probe | None = None
    """None until the run is completed."""


class LimitRecord(StudyRecord):
    """The whole file."""

    kind: Literal["limit"] = "limit"
    plan: LimitPlan
    capacity: float | None = None
    """Jobs per second that the workers complete on a full queue; none if it was not measured."""
    starts: Mapping[Horizon, float] = {}
    """The first rate of the search with each horizon; empty before the capacity is measured."""
    allowed: Mapping[Horizon, float] = {}
    """The lowest rate that the tolerance allows, which is tried, too; empty without a baseline."""
    runs: tuple[LimitRun, ...] = ()
    limits: tuple[Mapping[str, Any], ...] = ()
    """What was found, as `find_limits` returns it, without the probes; empty until the search has ended."""

    def results_of(self, horizon: Horizon) -> list[tuple[float, bool]]:
        """Return the rates that were tried with a horizon, and whether each was sustained."""
        return [(probe.rate, probe.is_sustained) for probe in self.probes_of(horizon)]

    def probes_of(self, horizon: Horizon) -> list[Probe]:
        """Return the probes with a horizon, in their order."""
        return [run.probe for run in self.runs if run.horizon == horizon and run.probe]

    def find_next_rate(self, horizon: Horizon) -> float | None:
        """Return the rate that is to be tried next; none if nothing is left to try."""
        return find_next_rate(
            self.results_of(horizon),
            start=self.starts[horizon],
            precision=self.plan.precision,
            confirms=self.plan.confirms,
            decisive=self.allowed.get(horizon),
        )

    def find_limits(self) -> list[Limit]:
        """Return what the probes so far show, for each horizon that was begun."""
        begun = [each for each in self.plan.horizons if self.status == "completed" or self.probes_of(each)]
        return [self._find_limit(horizon) for horizon in begun]

    def _find_limit(self, horizon: Horizon) -> Limit:
        probes, results = self.probes_of(horizon), self.results_of(horizon)
        return Limit(
            horizon=horizon,
            interval=find_interval(results),
            first_exhausted=find_first_exhausted([(probe.rate, probe.uses) for probe in probes if not probe.is_sustained]),
            is_contradictory=is_contradictory(results),
            is_complete=horizon in self.starts and self.find_next_rate(horizon) is None,
            probes=tuple(probes),
        )

    @property
    def verdict(self) -> Literal["pass", "fail", "unknown"]:
        """``pass`` if each limit has a lower and an upper end."""
        return "pass" if all(limit.interval.is_bounded for limit in self.find_limits()) else "unknown"

    def word_verdict(self) -> VerdictWords:
        """Return whether the limits were found."""
        if self.verdict == "pass":
            return VerdictWords(result="pass", name="found", sentence="Found: each limit has a lower and an upper end.")
        open_ = " and ".join(f"horizon {limit.horizon}" for limit in self.find_limits() if not limit.interval.is_bounded)
        return VerdictWords(
            result="unknown", name="unknown", sentence=f"Unknown: no lower or no upper end was found with {open_}."
        )


class LimitFolder(StudyFolder[LimitRecord]):
    """The folder of a search."""

    model = LimitRecord


def begin_search(plan: LimitPlan, runs: Path) -> tuple[LimitFolder, LimitRecord]:
    """Create the folder of a search below ``runs``, and its record. Raises `NotCarriedOutError` if ``runs`` cannot be written."""
    folder = LimitFolder(create_folder(runs, "limit", plan.scenario.name, plan.scenario.variant))
    record = LimitRecord(id=folder.path.name, bench=describe_bench(), plan=replace(plan, against=None))
    folder.write(record)
    return folder, record
