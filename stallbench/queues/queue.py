"""The interface of every queue under test, and what a queue declares about itself."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from stallbench.queues.worker_command import WorkerCommand


class Promise(StrEnum):
    """How often a queue promises to execute a job when workers may die."""

    AT_LEAST_ONCE = "at_least_once"
    """Never lost; re-executed only after an attempt that died, failed or expired."""
    AT_MOST_ONCE = "at_most_once"
    """Never re-executed; lost with the worker that had it."""


class OptionRole(StrEnum):
    """What an option means to the rest of the bench, declared beside its type: ``tries: Annotated[int, OptionRole.ATTEMPT_LIMIT] = Field(default=0)``."""

    ATTEMPT_LIMIT = "attempt_limit"
    """Attempts after which a job is not offered again; 0: no limit."""
    EXPIRY = "expiry"
    """Seconds after which a claim expires."""
    BATCH = "batch"
    """Number of jobs, at most, that a worker takes from the server at once and returns one by one; 1: one."""
    WINDOW = "window"
    """Number of available jobs that a worker chooses from, at most `LARGEST_WINDOW`; 1: it takes the first."""


DEFAULT_QUEUE = "default"
LARGEST_WINDOW = 100_000  # Spark can remember so many picks for each job, to find in which round it is claimed
_WITHOUT_EFFECT = {
    OptionRole.ATTEMPT_LIMIT: 0,
    OptionRole.BATCH: 1,
    OptionRole.WINDOW: 1,
}  # values with which an option has no effect


class QueueOptions(BaseModel):
    """Options of a queue, reachable as ``queue.<option>`` in a scenario. Subclass, with a description on every field."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    @classmethod
    def find_option(cls, role: OptionRole) -> str | None:
        """Return the key by which a scenario sets the option that declares ``role``; none if no option has it."""
        return next((field.alias or name for name, field in cls.model_fields.items() if role in field.metadata), None)

    def value_of(self, role: OptionRole) -> int | None:
        """Return the value of the option that declares ``role``, after `Queue.resolve_options`; none without such an option, or without effect."""
        value: int | None = self.model_dump(by_alias=True).get(self.find_option(role) or "")
        return None if value == _WITHOUT_EFFECT.get(role) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to be enqueued."""

    payload: str
    """The job's arguments: a JSON document."""
    queue: str = DEFAULT_QUEUE
    """The queue, or tenant, that it belongs to."""
    key: str = ""
    """What the job is for. A queue of unique jobs accepts one job for each key; empty: any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Precondition:
    """What a job waits for before it may be claimed, or what distinguishes it from other jobs."""

    kind: Literal["fifo", "due", "after", "alone", "queue", "key"]
    """The jobs before it in a FIFO queue that runs one job at a time; a due time; another job's success; any job with the same limit, of which one is
    executed at a time; its queue, if not the default; its key."""
    subject: str
    """The FIFO queue's name; nanoseconds since 1970, UTC; the other job's id; the limit's key; the queue's name; the key."""

    def __str__(self) -> str:
        """Return its form in the event log."""
        return f"{self.kind}:{self.subject}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A job that a worker owns until it completes, fails or loses it."""

    job_id: int
    attempt: int | None
    """1 for the first execution; None if the queue does not count."""
    payload: str
    handle: Any = field(default=None, repr=False)
    """What the queue needs to find the job again (its key columns); opaque to others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The ready jobs of a queue."""

    depth: int
    """Jobs ready and not claimed."""
    oldest_job_s: float | None
    """Age of the oldest ready job, from its due time; None if there is none."""


class LostRaceError(Exception):
    """The queue selected a job and then found it taken or gone; the worker should claim again at once."""

    def __init__(self, job_id: int) -> None:
        """Name the job that was lost."""
        super().__init__(f"job {job_id} was taken or gone at the re-check")
        self.job_id = job_id


class ClaimExpiredError(Exception):
    """A claim expired before its job was completed, and the queue has released the job: it will be, or is, re-executed."""

    def __init__(self, job_id: int) -> None:
        """Name the job whose claim it was."""
        super().__init__(f"the claim of job {job_id} had expired before its completion")
        self.job_id = job_id


class RefusedError(Exception):
    """The queue is full and accepts no more jobs: it contains none of the jobs of this call."""


OptionsT = TypeVar("OptionsT", bound=QueueOptions)


class Queue(ABC, Generic[OptionsT]):
    """A job queue under test. One instance serves one connection of one process."""

    kind: ClassVar[str]
    """Its name in scenarios."""
    summary: ClassVar[str]
    """One sentence on how it claims a job."""
    source: ClassVar[str]
    """Source of the statements. `engines`: those on which it runs: ``postgres``, ``mariadb``, ..."""
    engines: ClassVar[frozenset[str]]
    options_type: ClassVar[type[QueueOptions]]
    used_job_fields: ClassVar[frozenset[Literal["queue", "key"]]] = frozenset()
    """Which of these fields of a `NewJob` its `enqueue` uses; a scenario that sets another one is refused."""
    promise: ClassVar[Promise]
    ordered: ClassVar[bool]
    """Whether jobs of one priority are claimed in the order of their enqueueing (up to concurrency)."""
    claims_survive_connection: ClassVar[bool] = False
    """Whether a claim survives the end of its worker's connection and only expires; else the job is free again at once."""
    claims_in_batches: ClassVar[bool] = False
    """Whether `claim` takes several jobs from the server and returns them one by one, so that a claim may be older than its record."""
    rescues_jobs: ClassVar[bool] = True
    """Whether the job of a dead worker is ever given to another one. If not, it is lost, although the store may still have its record."""
    no_job_age: ClassVar[str] = ""
    """Why it does not know since when a ready job waits; empty if it does."""
    shows_failed_as_claimed: ClassVar[bool] = False
    """Whether `job_ids` calls a failed job claimed until it is claimed again, because the server does not tell the two apart."""
    puts_off_failed: ClassVar[bool] = True
    """Whether a failed job is delayed before it can be claimed again."""
    needs_scheduler: ClassVar[bool] = False
    """Whether a scheduler process calls `schedule` repeatedly during the load."""
    claims_after_schedule: ClassVar[bool] = False
    """Whether an enqueued job can be claimed only after an iteration of the scheduler."""
    second_engine: ClassVar[str | None] = None
    """The engine of a second server that it needs; `attach` provides the connection to it."""
    tables: ClassVar[tuple[str, ...]]
    """Tables that collectors watch; ready jobs are in the first. `creates`: what else `install` creates, see docs/add-a-queue.md."""
    creates: ClassVar[tuple[str, ...]] = ()
    indexes: ClassVar[tuple[str, ...]]
    jobs_per_load: ClassVar[int] = 10_000
    slowest_load_per_s: ClassVar[int] = 2000
    """How many jobs one call of `load` is given at most, and how many it adds per second at least."""
    claim_pattern: ClassVar[str] = ""
    """Regular expression that finds the claim statement, in any case, as a server reports it: ``$1`` or ``?`` for constants, no quotation marks,
    single spaces; empty if the queue claims without SQL."""

    def __init__(self, connection: Any, options: OptionsT) -> None:
        """Serve ``connection`` (the engine's driver connection, in autocommit)."""
        self.connection = connection
        self.second: Any = None  # the connection to the second server, if it needs one
        self.options = options
        self.unconfirmed_ids: Sequence[int] = ()  # after a failed enqueue: its jobs, which may be stored, if ids came first
        self.random = random.Random()  # the source of the queue's random choices; a worker seeds it
        self.on_retry: Callable[[Exception], None] = lambda _: None
        """Called with an error of the driver before the queue's own policy retries."""
        self.clock: Callable[[], float] = time.time  # seconds since 1970; for queues that do not use the server's

    def attach(self, second: Any) -> None:
        """Accept the connection to the server of `second_engine`, before any operation."""
        self.second = second

    def introduce(self, endpoint: Any, name: str) -> None:
        """Accept the address of the server (`stallbench.records.endpoint.Endpoint`) and the process's name, for a queue that starts processes."""

    def observe_answers(self, call: Callable[[], None]) -> None:
        """Call ``call`` when a server has answered a statement, before the queue acts on it; not necessary if an operation is one statement."""

    @classmethod
    def rescues_jobs_by(cls, options: OptionsT) -> bool:
        """Whether it gives the job of a dead worker to another one with these ``options``: `rescues_jobs`, unless they decide it."""
        return cls.rescues_jobs

    @classmethod
    def resolve_options(cls, options: OptionsT, *, workers: int) -> OptionsT:
        """Return ``options`` with values that depend on the scenario resolved to numbers. ``workers``: number of workers."""
        return options

    @classmethod
    def count_advisory_locks(cls, options: OptionsT) -> int:
        """Return the maximum of PostgreSQL's advisory locks that a session holds at once; a session with more has leaked some."""
        return 0

    @classmethod
    def find_option_issue(cls, options: OptionsT, engine: str) -> tuple[str, str] | None:
        """Find an option that does not fit the engine or another option: its name, and the rest of the sentence after the name."""
        return None

    @classmethod
    def find_crash_point_issue(cls, point: str) -> str | None:
        """Find that its own worker does not pass a crash point: the rest of the sentence after the key that names the point."""
        return None

    @classmethod
    def require_programs(cls, say: Callable[[str], None]) -> None:
        """Install missing programs that it needs beside its server; ``say`` takes a line. Raises `stallbench.errors.NotCarriedOutError`."""

    @classmethod
    def worker_command(cls) -> WorkerCommand | None:
        """Return the command of its own worker; none if the bench's worker calls `claim` and `complete`."""
        return None

    @abstractmethod
    def install(self) -> None:
        """Create the tables and indexes; on an empty database, once."""

    def prepare_to_enqueue(self) -> None:
        """Prepare what `enqueue` needs, if that takes time which would delay the first jobs."""

    @abstractmethod
    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Add ``jobs`` in one transaction and return their ids, in the same order. Raises `RefusedError` if the queue is full."""

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Bulk-load many jobs, with the same result as `enqueue`, and return their ids in the same order."""
        return self.enqueue(jobs)

    @property
    def preconditions(self) -> Mapping[int, Precondition]:
        """Preconditions of the jobs of the latest `enqueue` or `load`, by id; jobs that may be claimed at once have none."""
        return {}

    @abstractmethod
    def claim(self) -> Sequence[Claim]:
        """Take one job; empty if there is none. Raises `LostRaceError` if a re-check found the job gone."""

    def wait_for_jobs(self, timeout_s: float, pause: Callable[[float], bool]) -> bool:
        """Wait after a claim that found no job; whether the queue was notified of one meanwhile. ``pause`` returns early, true, to end."""
        pause(timeout_s)
        return False

    @abstractmethod
    def complete(self, claim: Claim) -> None:
        """Report that the job is done; it must not be re-executed. Raises `ClaimExpiredError` if the queue finds that it will be."""

    @abstractmethod
    def fail(self, claim: Claim, error: str) -> None:
        """Report that the job failed; the queue decides what follows."""

    def recover(self, error: Exception) -> bool:
        """After an error of the driver: make the connection usable if possible; returns whether it is. Else the worker opens a new one."""
        return False

    @classmethod
    def has_scheduler(cls, options: OptionsT) -> bool:
        """Return whether a scheduler process calls `schedule`, with these options."""
        return cls.needs_scheduler

    def schedule(self) -> float:
        """Run one iteration of the queue's scheduler, and return the seconds until the next one."""
        raise NotImplementedError(f"{self.kind} has no scheduler")

    def deregister(self) -> None:
        """Deregister the worker, if the queue knows its workers; the connection is closed afterwards."""

    def close(self) -> None:
        """End the processes that it has started, if any; the connection is closed afterwards."""

    def explain(self) -> str | None:
        """Return, in one line, the server's plan for the next claim; None if the engine has none."""
        return None

    @abstractmethod
    def backlog(self) -> Backlog:
        """Count the ready jobs, as exactly as the queue allows."""

    def depth(self) -> int:
        """Count the jobs that are ready and not claimed."""
        return self.backlog().depth

    def is_drained(self) -> bool:
        """Whether the queue holds no job at all, claimed ones included."""
        return next(iter(self.job_ids()), None) is None

    @abstractmethod
    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Iterate over every job that the queue still holds: its id, and whether it is claimed."""
