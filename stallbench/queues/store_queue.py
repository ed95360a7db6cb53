"""Base of the three queues of "Concurrent Queues with Aerospike": their jobs are in a store that has no concept of a queue.

The queue's `claim` shows which operations reserve a job; the store carries them out. None of the
article's algorithms recovers the job of a dead worker.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from stallbench.queues.queue import Backlog, Claim, NewJob, OptionsT, Promise, Queue

SOURCE = "'Wrong Tool For The Job: Concurrent Queues with Aerospike', in our own words"
_STORES = {
    "redis": "{kind}_redis",
    "psycopg": "{kind}_sql",
    "pymysql": "{kind}_sql",
    "stallbench.engines.aerospike.driver": "aerospike.{kind}",
}
"""By the client library of a connection: the module with the queue's store, loaded when it is used."""


class JobStore(ABC):
    """Jobs in a store, with every operation except reserving one."""

    def __init__(self, connection: Any) -> None:
        """Serve ``connection``."""
        self.connection = connection

    def observe_answers(self, call: Callable[[], None]) -> None:  # noqa: B027 - a store that cannot report answers need not
        """Call ``call`` from now on when the server has answered a command."""

    @abstractmethod
    def install(self) -> None:
        """Create what must be there before the first job; on an empty database, once."""

    @abstractmethod
    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Add all jobs or none, and return their ids in order; raises `RefusedError` if the store is full."""

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Add many jobs by the store's quickest way in; as `enqueue` in everything else."""
        return self.enqueue(jobs)

    @abstractmethod
    def complete(self, claim: Claim) -> None:
        """Remove the job."""

    @abstractmethod
    def release(self, claim: Claim) -> None:
        """Make a failed job available again."""

    @abstractmethod
    def is_usable_after(self, error: Exception) -> bool:
        """Make the connection usable for another operation, if possible, and return whether it is."""

    @abstractmethod
    def backlog(self) -> Backlog:
        """Measure what waits."""

    @abstractmethod
    def is_drained(self) -> bool:
        """Whether there is no job at all."""

    @abstractmethod
    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Iterate over all jobs: id, and whether it is reserved."""

    def explain(self) -> str | None:
        """Return the server's plan for the next claim in one line; None if it has none."""
        return None


StoreT = TypeVar("StoreT", bound=JobStore)


class StoreQueue(Queue[OptionsT], Generic[OptionsT, StoreT]):
    """A queue on a store; subclasses define how a job is reserved."""

    source = SOURCE
    promise = Promise.AT_MOST_ONCE
    ordered = True
    claims_survive_connection = True
    rescues_jobs = False
    puts_off_failed = False
    indexes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, connection: Any, options: OptionsT) -> None:
        """Serve ``connection`` with the store of its client library."""
        super().__init__(connection, options)
        self.store: StoreT = self._open_store()

    def _open_store(self) -> StoreT:
        library = type(self.connection).__module__
        store_of = _STORES.get(library) or _STORES[library.split(".")[0]]
        module = importlib.import_module(f"stallbench.queues.{store_of.format(kind=self.kind)}")
        store: StoreT = module.STORE(self.connection, self.options)
        return store

    def observe_answers(self, call: Callable[[], None]) -> None:
        """Observe the store."""
        self.store.observe_answers(call)

    def install(self) -> None:
        """Create what must be there before the first job."""
        self.store.install()

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Add all jobs or none."""
        return self.store.enqueue(jobs)

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Add all jobs or none, by the quickest way in."""
        return self.store.load(jobs)

    def complete(self, claim: Claim) -> None:
        """Remove the job."""
        self.store.complete(claim)

    def fail(self, claim: Claim, error: str) -> None:
        """Make the job available again. The article does not provide for this; only a live worker can do it."""
        self.store.release(claim)

    def recover(self, error: Exception) -> bool:
        """Continue after an error of the server, if the connection still works."""
        return self.store.is_usable_after(error)

    def explain(self) -> str | None:
        """Ask the store."""
        return self.store.explain()

    def backlog(self) -> Backlog:
        """Count the jobs that are not reserved."""
        return self.store.backlog()

    def is_drained(self) -> bool:
        """Whether the store has no job at all; a job lost with its worker stays in it."""
        return self.store.is_drained()

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Iterate over the store; a reserved job is claimed, whether its worker is alive or not."""
        return self.store.job_ids()
