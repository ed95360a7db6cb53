"""``limit.json``: the plan of a search for a limit, and its results so far. It is written after each probe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from stallbench.errors import EXIT_FAIL, EXIT_INTERRUPTED, EXIT_NOT_CARRIED_OUT, EXIT_PASS
from stallbench.regression.against import Against
from stallbench.run.folder import LIMIT
from stallbench.run.record import describe_bench
from stallbench.scenario.model import Scenario
from stallbench.storage.atomic_file import replace_file
from stallbench.studies.limit.probes import Horizon, Probe
from stallbench.studies.limit.search import Interval
from stallbench.studies.limit.slo import Slo
from stallbench.studies.regressions import describe_outcome
from stallbench.verdicts.check import Finding

FORMAT: Literal[1] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitPlan:
    """The plan of a search."""

    scenario: Scenario
    slo: Slo
    horizons: tuple[Horizon, ...]
    duration_s: float
    """Of each probe's measured phase."""
    within_s: float
    precision: float
    confirms: bool
    """Whether both ends of an interval are run once more."""
    start_rate: float | None
    """None: the rate of the baseline, or a share of the capacity, which is then measured first."""
    against: Against | None = None
    """The baseline that the limits are compared with, if any."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOutcome:
    """Everything that was found."""

    capacity: float | None
    limits: tuple[Limit, ...]
    status: Literal["running", "completed", "aborted", "failed"]
    """``aborted``: by the user, or the bench was killed. ``failed``: a run could not be carried out."""
    reason: str = ""
    """Why it failed."""
    regressions: tuple[Finding, ...] = ()
    """Findings of the comparison with the baseline; empty without one."""

    @property
    def exit_code(self) -> int:
        """Pass: each limit has a lower and an upper end, and none is worse than in the baseline."""
        if self.status == "aborted":
            return EXIT_INTERRUPTED
        if self.status != "completed":
            return EXIT_NOT_CARRIED_OUT
        is_known = all(limit.interval.is_bounded for limit in self.limits)
        return EXIT_PASS if is_known and describe_outcome(self.regressions) in ("", "pass") else EXIT_FAIL


def write_outcome(folder: Path, plan: LimitPlan, outcome: LimitOutcome) -> None:
    """Replace the record in the search's folder."""
    replace_file(folder / LIMIT, json.dumps(_as_json(plan, outcome), indent=1))


def write_end(folder: Path, plan: LimitPlan, outcome: LimitOutcome) -> LimitOutcome:
    """Write the record at the end; returns the outcome, which is ``failed`` if the record cannot be written."""
    try:
        write_outcome(folder, plan, outcome)
    except OSError as error:
        reasons = (outcome.reason, f"{folder / LIMIT} could not be written: {error.strerror or error}")
        return replace(outcome, status="failed", reason="\n".join(filter(None, reasons)))
    return outcome


def _as_json(plan: LimitPlan, outcome: LimitOutcome) -> Mapping[str, Any]:
    scenario = plan.scenario
    return {
        "format": FORMAT,
        "status": outcome.status,
        "reason": outcome.reason,
        "bench": describe_bench().model_dump(mode="json"),
        "scenario": scenario.name,
        "variant": scenario.variant,
        "changes": scenario.changes,
        "slo": asdict(plan.slo),
        "probe_s": plan.duration_s,
        "precision": plan.precision,
        "confirms": plan.confirms,
        "within_s": plan.within_s,
        "capacity": outcome.capacity,
        "limits": [asdict(limit) for limit in outcome.limits],
        "regressions": [finding.as_json() for finding in outcome.regressions],
    }
