"""What every queue under test offers, and what it declares about itself."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict


class Promise(StrEnum):
    """How often a queue says that it executes a job whose worker may die."""

    AT_LEAST_ONCE = "at_least_once"
    """Never lost; executed again only after an attempt that died, failed or expired."""
    AT_MOST_ONCE = "at_most_once"
    """Never executed again; lost with the worker that had it."""


class OptionRole(StrEnum):
    """What an option of a queue means to the rest of the bench, which never recognises an option by its name.

    A queue declares it beside the type: ``tries: Annotated[int, OptionRole.ATTEMPT_LIMIT] = Field(default=0)``.
    """

    ATTEMPT_LIMIT = "attempt_limit"
    """Attempts after which a job is not offered again; 0: no limit."""
    EXPIRY = "expiry"
    """Seconds after which a claim ends by itself."""
    WINDOW = "window"
    """Number of available jobs that a worker chooses from; 1: it takes the first."""


_WITHOUT_EFFECT = {OptionRole.ATTEMPT_LIMIT: 0, OptionRole.WINDOW: 1}
"""The value of an option with which it has no effect, by its role."""


class QueueOptions(BaseModel):
    """Options of a queue, reachable as ``queue.<option>`` in a scenario. Subclass, with a description on every field."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    @classmethod
    def find_option(cls, role: OptionRole) -> str | None:
        """Return the name of the field that declares ``role``; none if no option has it."""
        return next((name for name, field in cls.model_fields.items() if role in field.metadata), None)

    def value_of(self, role: OptionRole) -> int | None:
        """Return the value of the option that declares ``role``; none if no option has it, or if its value has no effect.

        A window may be a multiple of the workers: read it after `Queue.resolve_options`.
        """
        name = self.find_option(role)
        value: int | None = getattr(self, name) if name else None
        return None if value == _WITHOUT_EFFECT.get(role) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to be enqueued."""

    payload: str
    """The job's arguments: a JSON document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Precondition:
    """What a job waits for before it may be claimed."""

    kind: Literal["fifo", "due", "after"]
    """Its turn in a FIFO queue of which one job runs at a time; a time; another job's success."""
    subject: str
    """The FIFO queue's name; nanoseconds since 1970, UTC; the other job's id."""

    def __str__(self) -> str:
        """Return it as the event log has it."""
        return f"{self.kind}:{self.subject}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A job that a worker owns until it completes, fails or loses it."""

    job_id: int
    attempt: int | None
    """1 for the first execution; none if the queue does not count."""
    payload: str
    handle: Any = field(default=None, repr=False)
    """What the queue needs to find the job again (its key columns); of no meaning to others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits in a queue."""

    depth: int
    """Jobs ready and not claimed."""
    oldest_job_s: float | None
    """Age of the oldest of them, from when it was due; none if the queue is empty."""


class LostRaceError(Exception):
    """The queue offered a job and then found it taken or gone; the worker should claim again at once."""

    def __init__(self, job_id: int) -> None:
        """Name the job that was lost."""
        super().__init__(f"job {job_id} was taken or gone when it was checked again")
        self.job_id = job_id


class ClaimExpiredError(Exception):
    """The time of a claim had run out before its job was completed, and the queue has let it go: it will be, or is, executed again."""

    def __init__(self, job_id: int) -> None:
        """Name the job whose claim it was."""
        super().__init__(f"the claim of job {job_id} had expired before its completion")
        self.job_id = job_id


class RefusedError(Exception):
    """The queue takes no more jobs, because it is full: none of those that were to be enqueued together is in it."""


OptionsT = TypeVar("OptionsT", bound=QueueOptions)


def _ignore(error: Exception) -> None:
    """Take no notice."""


class Queue(ABC, Generic[OptionsT]):
    """A job queue under test. One instance serves one connection of one process."""

    kind: ClassVar[str]
    """Its name in scenarios."""
    summary: ClassVar[str]
    """One sentence on how it claims a job."""
    source: ClassVar[str]
    """Where the statements come from."""
    engines: ClassVar[frozenset[str]]
    """Engines that it runs on: ``postgres``, ``mariadb``, ..."""
    options_type: ClassVar[type[QueueOptions]]
    promise: ClassVar[Promise]
    ordered: ClassVar[bool]
    """Whether jobs of one priority are claimed in the order of their enqueueing (but for concurrency)."""
    outlives_connection: ClassVar[bool] = False
    """Whether a claim goes on after its worker's connection has ended, and only time ends it; else the job is free again at once."""
    gives_back: ClassVar[bool] = True
    """Whether a job whose worker is gone is ever given to another; if not, it is lost, although the store may still have its record."""
    puts_off_failed: ClassVar[bool] = True
    """Whether a job that failed has to wait before it is offered again."""
    needs_scheduler: ClassVar[bool] = False
    """Whether a process of its own calls `schedule`, again and again, for as long as there is load."""
    claims_after_schedule: ClassVar[bool] = False
    """Whether a job that was enqueued may be claimed only after a turn of the scheduler."""
    second_engine: ClassVar[str | None] = None
    """The engine of another server that it needs beside its own; its connection to that comes by `attach`."""
    tables: ClassVar[tuple[str, ...]]
    """Tables that collectors watch; the first is the one jobs wait in."""
    indexes: ClassVar[tuple[str, ...]]

    def __init__(self, connection: Any, options: OptionsT) -> None:
        """Serve ``connection`` (the engine's driver connection, in autocommit)."""
        self.connection = connection
        self.second: Any = None
        """The connection to the second server, if it needs one."""
        self.options = options
        self.random = random.Random()
        """Where the queue takes its random choices from; a worker seeds it."""
        self.on_retry: Callable[[Exception], None] = _ignore
        """Called with an error of the driver that the queue's own policy answers by trying again, before it does."""
        self.clock: Callable[[], float] = time.time
        """What the process takes for the time, in seconds since 1970, for queues that do not ask the server for it."""

    def attach(self, second: Any) -> None:
        """Take the connection to the server of `second_engine`, before any move."""
        self.second = second

    @classmethod
    def resolve_options(cls, options: OptionsT, *, workers: int) -> OptionsT:
        """Return ``options`` with what depends on the scenario put in numbers; ``workers``: how many there are."""
        return options

    @classmethod
    def count_advisory_locks(cls, options: OptionsT) -> int:
        """Return how many of PostgreSQL's advisory locks a session holds at once, at the most; one that holds more has leaked them."""
        return 0

    @classmethod
    def find_option_issue(cls, options: OptionsT, engine: str) -> tuple[str, str] | None:
        """Find an option that does not fit the engine or another one: its name, and the sentence that goes on from there."""
        return None

    @abstractmethod
    def install(self) -> None:
        """Create the tables and indexes; on an empty database, once."""

    @abstractmethod
    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Add ``jobs`` in one transaction and return their ids, in the same order. Raises `RefusedError` if the queue is full."""

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Add many jobs as quickly as the engine can, as `enqueue` would have left them, and return their ids in the same order."""
        return self.enqueue(jobs)

    @property
    def preconditions(self) -> Mapping[int, Precondition]:
        """What the jobs of the latest `enqueue` or `load` wait for, by id; one that may be claimed at once is left out."""
        return {}

    @abstractmethod
    def claim(self, limit: int = 1) -> Sequence[Claim]:
        """Take up to ``limit`` jobs; empty if there is none. Raises `LostRaceError` if a re-check found the job gone."""

    @abstractmethod
    def complete(self, claim: Claim) -> None:
        """Say that the job's work is done; it must not be executed again. Raises `ClaimExpiredError` if the queue finds that it will be."""

    @abstractmethod
    def fail(self, claim: Claim, error: str) -> None:
        """Say that the job's work failed; the queue decides on what follows."""

    def recover(self, error: Exception) -> bool:
        """After an error of the driver in one of the moves: make the connection fit for the next one, if that can be done.

        Returns whether it is; else the worker opens a new connection, which also ends what the broken move may have left open.
        """
        return False

    @classmethod
    def has_scheduler(cls, options: OptionsT) -> bool:
        """Return whether a process of its own calls `schedule`, with these options."""
        return cls.needs_scheduler

    def schedule(self) -> float:
        """Do what the queue's scheduler does at its turn, and return after how many seconds it is its turn again."""
        raise NotImplementedError(f"{self.kind} has no scheduler")

    def leave(self) -> None:
        """Say goodbye, if workers are known to the queue; the connection is closed afterwards."""

    def explain(self) -> str | None:
        """Return, in one line, how the server would find the next job to claim; none if the engine cannot say."""
        return None

    @abstractmethod
    def backlog(self) -> Backlog:
        """Measure what waits in the queue, as exactly as the queue allows."""

    def depth(self) -> int:
        """Count the jobs that are ready and not claimed."""
        return self.backlog().depth

    def is_drained(self) -> bool:
        """Whether the queue holds no job at all, claimed ones included."""
        return next(iter(self.job_ids()), None) is None

    @abstractmethod
    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Go through every job that the queue still holds: its id, and whether somebody has claimed it."""
