"""The scenario model: one experiment as one frozen value, with its load, what goes wrong, and what must be seen.

Reading a file, overlaying a variant and telling the user what is wrong with it is `stallbench.scenario.file`'s business.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from stallbench.engines import Engine
from stallbench.scenario.duration import Duration


def _require_setting_value(value: object) -> object:
    if isinstance(value, str | int | float | bool):
        return value
    raise ValueError("expected text, a number, true or false")


CONTROL = "control"
"""What the scenario without a variant is called where variants are named; no variant may have this name."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
Text = Annotated[str, Field(pattern=r"\S")]
SettingName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_.]{0,127}$")]
SettingValue = Annotated[str | int | float | bool, BeforeValidator(_require_setting_value)]


_LONGER_AT_MOST = 3
"""Times a phase's duration that its jobs may make of it: on a machine that stands still a run is to end all the same."""


class Section(BaseModel):
    """A part of a scenario: strict, frozen, no key that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=False, allow_inf_nan=False)


class Database(Section):
    """The servers that the queue lives on."""

    engine: Engine = "postgres"
    version: int | None = Field(default=None, ge=15, le=99, description="major version; the newest found if not given")
    port: int | None = Field(default=None, ge=1024, le=65535, description="of the primary; a free one if not given")
    replicas: int = Field(default=0, ge=0, le=3)
    replication_slot: bool = Field(default=False, description="whether the replicas stream through a physical slot")
    hot_standby_feedback: bool = Field(default=False, description="whether replicas report their oldest snapshot")
    synchronous: bool = Field(default=False, description="whether a commit waits until a replica has it")
    prepared_statements: bool = Field(
        default=True,
        description="whether clients prepare statements by name on PostgreSQL; a pooler by the transaction breaks that",
    )
    small_disk: Literal["wal", "tables"] | None = Field(
        default=None, description="what of the primary is on a small disk of its own, for the fault full_disk"
    )
    small_disk_mb: int = Field(default=128, ge=16, le=4096)
    settings: dict[SettingName, SettingValue] = Field(default_factory=dict, description="server settings of all servers")
    replica_settings: dict[SettingName, SettingValue] = Field(default_factory=dict, description="settings of the replicas only")


class QueueChoice(BaseModel):
    """The queue under test; every other key is an option of that queue."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    kind: str = Field(examples=["que"])

    @property
    def options(self) -> dict[str, Any]:
        """The queue's options as the scenario gives them."""
        return dict(self.model_extra or {})


class Producers(Section):
    """What puts jobs into the queue."""

    kind: Literal["open_loop", "locust"] = "open_loop"
    count: int = Field(default=1, ge=1, le=64)
    rate: float = Field(default=0, ge=0, le=1_000_000, description="jobs a second, of all producers together", examples=[500])
    capacity_share: float | None = Field(
        default=None,
        gt=0,
        le=10,
        description="in the place of a rate: the rate is this share of what the workers can do, which is measured before the run",
    )
    backlog: int = Field(
        default=0,
        ge=0,
        le=10_000_000,
        description="jobs that are in the queue before the first phase; workers wait for it to begin",
    )
    payload_bytes: int = Field(default=256, ge=16, le=1_048_576)
    max_batch: int = Field(
        default=1, ge=1, le=10_000, description="jobs that are due may share one enqueue call, up to this many"
    )
    users: int = Field(default=50, ge=1, le=5_000, description="of each Locust process: that many connections share its rate")
    max_failure_ratio: float = Field(default=0, ge=0, le=1, description="enqueues that may fail before Locust fails")

    @property
    def wants_rate(self) -> bool:
        """Whether the rate is still to be measured."""
        return self.capacity_share is not None

    @property
    def has_load(self) -> bool:
        """Whether jobs come while the phases last."""
        return self.rate > 0 or self.wants_rate


class Workers(Section):
    """Processes that claim, work and complete jobs, one connection each."""

    count: int = Field(default=8, ge=0, le=256)
    work_s: Duration = Field(default=0.001, alias="work", ge=0, le=3600, description="how long each job takes")
    poll_s: Duration = Field(default=0.02, alias="poll", gt=0, le=60, description="pause after a claim found nothing")


class LongrunnerChoice(BaseModel):
    """A process that holds the horizon during a phase; every other key is an option of that kind."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    kind: str = Field(examples=["idle_writer"])
    on: Name = "primary"
    may_be_ended: bool = Field(default=False, description="whether the server may end it before its phase does")

    @property
    def options(self) -> dict[str, Any]:
        """The longrunner's options as the scenario gives them."""
        return dict(self.model_extra or {})


class FaultChoice(BaseModel):
    """What goes wrong in a phase; every other key is an option of that kind."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    kind: str = Field(examples=["latency"])
    on: Name = Field(default="primary", description="a server, a replication link, a process, or all of a role")
    after_s: Duration = Field(default=0.0, alias="after", ge=0, le=86_400, description="after the phase's start")
    for_s: Duration | None = Field(default=None, alias="for", gt=0, le=86_400, description="to the phase's end if not given")

    @property
    def options(self) -> dict[str, Any]:
        """The fault's options as the scenario gives them."""
        return dict(self.model_extra or {})


class MaintenanceChoice(BaseModel):
    """What looks after a server for as long as there is load; every other key is an option of that kind."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    kind: str = Field(examples=["watchdog"])
    on: Name = Field(default="primary", description="a server")

    @property
    def options(self) -> dict[str, Any]:
        """The options as the scenario gives them."""
        return dict(self.model_extra or {})


class Phase(Section):
    """A named stretch of the run."""

    name: Name = Field(examples=["baseline"])
    duration_s: Duration = Field(alias="duration", gt=0, le=86_400, examples=["20s"])
    until: Literal["drained", "caught_up"] | None = Field(
        default=None,
        description="the phase ends, after its duration at the latest, as soon as the queue holds no job (drained), "
        "or as no ready job has waited for a second in five seconds on end (caught_up)",
    )
    jobs: int | None = Field(
        default=None,
        ge=1,
        description="with producers.capacity_share: the phase lasts until so many jobs were due in it, where that is longer than its "
        "duration, and for three times that at most",
    )
    measured: bool = Field(default=True, description="false for warm-up: its figures are left out")
    longrunners: tuple[LongrunnerChoice, ...] = Field(default=(), strict=False)
    faults: tuple[FaultChoice, ...] = Field(default=(), strict=False)

    def at_rate(self, rate: float) -> Self:
        """Return the phase as it is at a measured ``rate``, jobs a second: long enough for its `jobs`, if it asks for some."""
        if self.jobs is None or self.jobs <= rate * self.duration_s:
            return self
        duration_s = min(_LONGER_AT_MOST * self.duration_s, math.ceil(self.jobs / rate))
        return self.model_copy(update={"duration_s": duration_s, "jobs": None})


class Expectation(Section):
    """What must be seen: one metric in one phase, against a bound or against the same metric in another phase."""

    metric: str = Field(examples=["claim_ms.p95"])
    phase: str | None = Field(default=None, description="the whole run, first to last measured phase, if not given")
    relative_to: str | None = Field(default=None, description="a phase: the bound is then a ratio to its value")
    at_least: float | None = None
    at_most: float | None = None
    because: Text | None = Field(default=None, description="what it shows, in words, for the report")


class ComparisonColumn(Section):
    """One column of a comparison's own table, which has a row for each variant."""

    title: Text = Field(examples=["further executions"])
    metric: str = Field(
        examples=["re_executions.count"],
        description="of an expectation, or one that a comparison has of every run, like `lost.count`",
    )
    phase: str | None = Field(default=None, description="the whole run if not given")


class ComparisonChoice(Section):
    """By what `stallbench compare` ranks the variants, and what others have published of them."""

    metric: str = Field(examples=["completed.rate"])
    phase: str | None = Field(default=None, description="the whole run, first to last measured phase, if not given")
    relative_to: str | None = Field(default=None, description="a phase: variants are then ranked by the ratio to its value")
    better: Literal["higher", "lower"] = Field(examples=["higher"])
    published: dict[Text, Annotated[dict[str, float], Field(min_length=1)]] = Field(
        default_factory=dict, description="by where they were measured: a figure for each variant, `control` for none of them"
    )
    source: Text | None = Field(default=None, description="where the published figures stand")
    columns: tuple[ComparisonColumn, ...] = Field(
        default=(), strict=False, description="of a table with a row for each variant, shown before everything else"
    )


class Collectors(Section):
    """Whether, and how often, the bench looks at the servers and the host."""

    enabled: bool = True
    interval_s: Duration = Field(default=1.0, alias="interval", ge=0.1, le=60)


class ScenarioOrigin(Section):
    """Where a scenario comes from: what its file does not say of itself."""

    name: Name = Field(description="the file's name, without .toml")
    file: str = Field(description="path of the file that it was read from")
    variant: Name | None = None
    changes: tuple[str, ...] = Field(default=(), description="what the command line changed, as ``key=value``")


class ScenarioContent(Section):
    """What a scenario's file holds, besides its variants."""

    summary: Text = Field(examples=["What happens, in one sentence."])
    seed: int = Field(default=1, ge=0, le=2**31 - 1, description="every random choice starts from it")
    database: Database = Field(default_factory=Database)
    queue: QueueChoice
    producers: Producers
    workers: Workers = Field(default_factory=Workers)
    external_processes: bool = Field(
        default=False, description="whether workers, producers and longrunners that others start may take part"
    )
    collectors: Collectors = Field(default_factory=Collectors)
    maintenance: tuple[MaintenanceChoice, ...] = Field(
        default=(), strict=False, description="while there is load, on its servers"
    )
    phases: tuple[Phase, ...] = Field(min_length=1, strict=False)
    expect: tuple[Expectation, ...] = Field(default=(), strict=False)
    comparison: ComparisonChoice | None = None
    mitigation: Text | None = Field(
        default=None, description="of a variant that is to mend what the scenario shows: who proposes it"
    )


class Scenario(ScenarioContent, ScenarioOrigin):
    """One experiment, its variant already applied."""

    @property
    def labels(self) -> dict[str, str]:
        """What all series of a run have in common, for Prometheus."""
        return {
            "scenario": self.name,
            "variant": self.variant or CONTROL,
            "queue": self.queue.kind,
            "engine": self.database.engine,
        }

    @property
    def duration_s(self) -> float:
        """Seconds of all phases together."""
        return sum(phase.duration_s for phase in self.phases)

    def with_capacity(self, capacity: float) -> Self:
        """Return the scenario at its share of ``capacity``, jobs a second, as ``--set producers.rate=...`` would have made it.

        Rounded to three digits. Phases that ask for so many jobs last as long as these need. One that has a rate stays as it is.
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
