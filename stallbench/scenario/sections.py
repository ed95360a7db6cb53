"""The sections of a scenario that make and measure load: queue, producers, workers, collectors and phases."""

from __future__ import annotations

import math
from typing import Literal, Self, TypeVar

from pydantic import Field, ValidationInfo, field_validator, model_validator

from stallbench.base.duration import ON_RECORD, Duration
from stallbench.base.section import Name, Section, issue
from stallbench.injection.choices import ChaosKind, Choice, FaultChoice, LongrunnerChoice
from stallbench.measures import WHOLE_RUN
from stallbench.queues.load_bounds import (
    LEAST_PAYLOAD_BYTES,
    MOST_BACKLOG,
    MOST_PAYLOAD_BYTES,
    MOST_RATE,
    MOST_WORK_S,
    MOST_WORKERS,
)

_LONGER_AT_MOST = 3
"""The longest time that a phase with ``jobs`` may last, in multiples of its duration. The limit ends a run on a machine that makes no progress."""

ValueT = TypeVar("ValueT")


class QueueChoice(Choice):
    """The queue under test."""

    kind: str = Field(examples=["que"])


class Producers(Section):
    """The processes that put jobs into the queue."""

    kind: Literal["open_loop", "locust"] = "open_loop"
    count: int = Field(default=1, ge=1, le=64, description="number of processes")
    rate: float = Field(default=0, ge=0, le=MOST_RATE, description="jobs per second, of all producers together", examples=[500])
    capacity_share: float | None = Field(
        default=None,
        gt=0,
        le=10,
        description="instead of a rate: the rate as a share of the workers' capacity, which the bench measures before the run",
    )
    backlog: int = Field(
        default=0,
        ge=0,
        le=MOST_BACKLOG,
        description="jobs that are in the queue before the first phase; the workers wait until that phase begins",
    )
    payload_bytes: int = Field(
        default=256, ge=LEAST_PAYLOAD_BYTES, le=MOST_PAYLOAD_BYTES, description="size of a job's arguments"
    )
    payload_content: Literal["random", "text"] = Field(
        default="random",
        description="what fills a job's arguments: random hexadecimal digits, which hardly compress, or words",
    )
    max_batch: int = Field(
        default=1, ge=1, le=10_000, description="how many jobs that are due at the same time may share one enqueue call"
    )
    linger_s: Duration = Field(
        default=0.0,
        alias="linger",
        ge=0,
        le=3600,
        description="how long a due job may wait for others that are then enqueued with it in one call, up to `max_batch`",
    )
    key_every_s: Duration | None = Field(
        default=None,
        alias="key_every",
        gt=0,
        le=3600,
        description="jobs that are due in the same interval of this length have the same key, whichever producer enqueues them",
    )
    connection_per_call: bool = Field(
        default=False,
        description="whether a producer opens a connection for each enqueue call, as a web application without a pool does, and closes it",
    )
    users: int = Field(
        default=50, ge=1, le=5_000, description="users, and so connections, of each Locust process; they share its rate"
    )
    max_failure_ratio: float = Field(default=0, ge=0, le=1, description="share of enqueues that may fail before Locust fails")

    @property
    def by_locust(self) -> bool:
        """Whether the users of Locust enqueue the jobs."""
        return self.kind == "locust"

    @property
    def wants_rate(self) -> bool:
        """Whether the rate is still to be measured."""
        return self.capacity_share is not None

    @property
    def has_load(self) -> bool:
        """Whether jobs are enqueued during the phases."""
        return self.rate > 0 or self.wants_rate

    @field_validator("max_batch")
    @classmethod
    def _require_single_jobs_of_locust(cls, max_batch: int, info: ValidationInfo) -> int:
        if max_batch != 1 and info.data.get("kind") == "locust":
            raise issue(" is given, but a user of Locust enqueues one job per request; leave it out")
        return max_batch

    @field_validator("linger_s")
    @classmethod
    def _require_batches(cls, linger_s: float, info: ValidationInfo) -> float:
        if linger_s and info.data.get("kind") == "locust":
            raise issue(" is given, but a user of Locust enqueues one job per request; leave it out")
        if linger_s and info.data.get("max_batch") == 1:
            raise issue(" is given, but max_batch is 1, so a job has none to wait for; add max_batch")
        return linger_s

    @field_validator("key_every_s")
    @classmethod
    def _require_no_keys_of_locust(cls, key_every_s: float | None, info: ValidationInfo) -> float | None:
        if key_every_s is not None and info.data.get("kind") == "locust":
            raise issue(" is given, but a user of Locust enqueues jobs without keys; leave it out")
        return key_every_s

    @field_validator("connection_per_call")
    @classmethod
    def _require_kept_connections_of_locust(cls, per_call: bool, info: ValidationInfo) -> bool:
        if per_call and info.data.get("kind") == "locust":
            raise issue(" is true, but a user of Locust keeps its connection; leave it out")
        return per_call

    @field_validator("users", "max_failure_ratio")
    @classmethod
    def _require_locust(cls, value: ValueT, info: ValidationInfo) -> ValueT:
        if info.data.get("kind", "locust") != "locust":
            raise issue(' is for Locust; it needs producers.kind = "locust"')
        return value

    @model_validator(mode="after")
    def _require_one_load(self, info: ValidationInfo) -> Self:
        if info.context and info.context.get(ON_RECORD):
            return self  # a record leaves out a rate of 0, like every default
        given = {"rate", "capacity_share"} & self.model_fields_set
        if not given:
            problem = " is missing; write it like rate = 500, or as a share, like capacity_share = 0.65"
            raise issue(problem, key="rate")
        if len(given) > 1:
            raise issue(" is given beside a rate; expected one of the two", key="capacity_share")
        return self


class Workers(Section):
    """The processes that claim, work and complete jobs; each has one connection."""

    count: int = Field(default=8, ge=0, le=MOST_WORKERS, description="number of processes")
    work_s: Duration = Field(default=0.001, alias="work", ge=0, le=MOST_WORK_S, description="how long the work of a job takes")
    poll_s: Duration = Field(default=0.02, alias="poll", gt=0, le=60, description="pause after a claim that found no job")
    max_poll_s: Duration | None = Field(
        default=None,
        alias="max_poll",
        gt=0,
        le=3600,
        description="backoff: the pause doubles after each claim in a row that found no job, up to this; none: it stays the same",
    )


class Collectors(Section):
    """Whether and how often the bench samples the servers and the host."""

    enabled: bool = True
    interval_s: Duration = Field(default=1.0, alias="interval", ge=0.1, le=60, description="time between two samples")


class Bystander(Section):
    """A small client beside the queue, which shows what the rest of an application feels: queries of a table of its own, by primary key."""

    enabled: bool = Field(
        default=True, description="whether it queries the database, 20 times per second; only where the database has SQL"
    )


class Chaos(Section):
    """Combined faults: in each interval of the phase two of the kinds at once, then a pause in which recovery is measured."""

    kinds: tuple[ChaosKind, ...] = Field(default=(), strict=False, description="at least two")
    every_s: Duration = Field(
        default=30.0, alias="every", ge=10, le=3600, description="from the begin of two faults to that of the next two"
    )
    seed: int = Field(default=1, ge=0, le=2**31 - 1, description="seed of the schedule, together with that of the scenario")


class Phase(Section):
    """A named part of the run."""

    name: Name = Field(examples=["baseline"])
    duration_s: Duration = Field(alias="duration", gt=0, le=86_400, examples=["20s"])
    until: Literal["duration", "drained", "caught_up", "fallen_behind"] = Field(
        default="duration",
        description="what ends the phase before its duration is over: drained, the queue holds no job; caught_up, for five seconds no ready "
        "job has waited longer than a second; fallen_behind, a ready job has waited for ten seconds, except in comparisons, whose phases "
        "have equal durations; duration, nothing",
    )
    jobs: int | None = Field(
        default=None,
        ge=1,
        description="needs producers.capacity_share: the phase lasts until this many jobs were due, but at least its duration and at "
        "most three times that",
    )
    measured: bool = Field(default=True, description="false for warm-up: its figures are left out")
    longrunners: tuple[LongrunnerChoice, ...] = Field(default=(), strict=False)
    faults: tuple[FaultChoice, ...] = Field(default=(), strict=False)
    chaos: Chaos | None = Field(
        default=None, description="combined faults; once the scenario is read, `faults` has their schedule"
    )

    def at_rate(self, rate: float) -> Self:
        """Return the phase at a measured ``rate``, in jobs per second: long enough for its `jobs`, if it asks for any."""
        if self.jobs is None or self.jobs <= rate * self.duration_s:
            return self
        duration_s = min(_LONGER_AT_MOST * self.duration_s, math.ceil(self.jobs / rate))
        return self.model_copy(update={"duration_s": duration_s, "jobs": None})

    @field_validator("until", mode="before")
    @classmethod
    def _read_null(cls, until: object) -> object:
        """Read null as the default: so the records of versions before 0.3 have it."""
        return "duration" if until is None else until

    @field_validator("name")
    @classmethod
    def _require_a_phase_name(cls, name: str) -> str:
        if name == WHOLE_RUN:
            raise issue(f' is "{WHOLE_RUN}", which means the whole run; expected another name')
        return name
