"""The scenario model: one experiment as one frozen value.

`stallbench.scenario.file` reads it from a file, applies a variant, and reports what is wrong with it.
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, field_validator

from stallbench.base.section import Name, Section, Text, issue
from stallbench.base.validation_issue import show_value
from stallbench.engines.database import Database
from stallbench.injection.choices import FaultChoice, MaintenanceChoice
from stallbench.scenario.expectation import ComparisonChoice, Expectation, JudgedBy
from stallbench.scenario.requirement import PARTS, Judge, Part, Requirement, require_name
from stallbench.scenario.sections import Bystander, Collectors, Phase, Producers, QueueChoice, Workers

CONTROL = "control"
"""The name of the scenario without a variant, where variants are named; no variant may have this name."""


class ScenarioOrigin(Section):
    """Where a scenario comes from."""

    name: Name = Field(description="the file's name, without .toml")
    file: str = Field(description="path of the file that it was read from")
    variant: Name | None = None
    changes: tuple[str, ...] = Field(default=(), strict=False, description="what the command line changed, as ``key=value``")


class ScenarioContent(Section):
    """The content of a scenario's file, without its variants."""

    summary: Text = Field(description="what happens, in one or two sentences", examples=["What happens, in one sentence."])
    subject: Text | None = Field(default=None, description="heading under which `stallbench list` shows it")
    seed: int = Field(default=1, ge=0, le=2**31 - 1, description="seed of every random choice")
    database: Database = Field(default_factory=Database)
    queue: QueueChoice
    producers: Producers
    workers: Workers = Field(default_factory=Workers)
    external_processes: bool = Field(
        default=False, description="whether workers, producers and longrunners that the bench did not start may take part"
    )
    collectors: Collectors = Field(default_factory=Collectors)
    bystander: Bystander = Field(default_factory=Bystander)
    maintenance: tuple[MaintenanceChoice, ...] = Field(
        default=(), strict=False, description="tasks that are repeated on a server during the load"
    )
    phases: tuple[Phase, ...] = Field(min_length=1, strict=False)
    expect: tuple[Expectation, ...] = Field(default=(), strict=False)
    require: tuple[Requirement, ...] = Field(
        default=(), strict=False, description="what the queue must survive: tables, or only a name"
    )
    judge: Judge | None = Field(
        default=None,
        description="reproduced: only the expectations are judged; survives: only what is required, by default that the queue survives; "
        "default: what the file states, and survives if that is nothing, or of another queue",
    )
    comparison: ComparisonChoice | None = None
    mitigation: Text | None = Field(
        default=None, description="of a variant that is meant to mitigate the problem: who proposes it"
    )
    judged_by: JudgedBy | None = Field(
        default=None,
        description="of a variant: the metric that decides whether it helps, and the variant that it is compared with for this; "
        "default: the metric by which all variants are ranked, and the scenario without a variant",
    )

    @field_validator("require", mode="before")
    @classmethod
    def _read_one_name(cls, required: object) -> object:
        if isinstance(required, str):
            return [require_name(required)]
        if not isinstance(required, list | tuple):
            raise issue(f' is {show_value(required)}; expected a name, like "survives", or an array of tables')
        return required


class Scenario(ScenarioContent, ScenarioOrigin):
    """One experiment, with its variant applied."""

    @property
    def labels(self) -> dict[str, str]:
        """The labels that all Prometheus series of a run share."""
        return {
            "scenario": self.name,
            "variant": self.variant or CONTROL,
            "queue": self.queue.kind,
            "engine": self.database.engine,
        }

    @property
    def required(self) -> frozenset[Part]:
        """The parts of the outcome that something is required of."""
        return frozenset(part for each in self.require for part in PARTS[each.outcome])

    @property
    def faults(self) -> list[FaultChoice]:
        """The faults of all phases, in their order."""
        return [fault for phase in self.phases for fault in phase.faults]

    @property
    def duration_s(self) -> float:
        """Seconds of all phases together."""
        return sum(phase.duration_s for phase in self.phases)

    def with_capacity(self, capacity: float) -> Self:
        """Return the scenario with a rate: its share of ``capacity``, in jobs per second, rounded to three digits. The result is the same as with
        ``--set producers.rate=..``. A phase with ``jobs`` lasts until that many jobs are due. A scenario that already has a rate is not changed.
        """
        share = self.producers.capacity_share
        if share is None:
            return self
        rate = float(f"{share * capacity:.3g}")
        producers = self.producers.model_copy(update={"rate": rate, "capacity_share": None})
        phases = tuple(phase.at_rate(rate) for phase in self.phases)
        longer = [new for old, new in zip(self.phases, phases, strict=True) if new != old]
        durations = [f"phases.{phase.name}.duration={phase.duration_s:.12g}s" for phase in longer]
        changes = (*self.changes, f"producers.rate={rate:g}", *durations)
        return self.model_copy(update={"producers": producers, "phases": phases, "changes": changes})
