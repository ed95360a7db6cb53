"""The queue into which Locust enqueues, and the rate over time. The bench, a run that Locust joins, or a scenario defines them."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from pydantic import Field

from producers.enqueuer import EnqueuerDocument
from stallbench.base.storage.private import Trust
from stallbench.engines import driver_of
from stallbench.errors import BadInputError
from stallbench.injection.faults import find_faults
from stallbench.processes.role import CannotContinueError, Stop
from stallbench.queues import find_queue
from stallbench.queues.queue_client import opened_queue
from stallbench.queues.registration import join_run_folder, read_join_instructions, watch_for_stop
from stallbench.records.endpoint import Endpoint
from stallbench.scenario.locust_bounds import LOCUST_FOLDER, LocustBounds, bounds_of
from stallbench.scenario.model import Scenario


class LocustDocument(EnqueuerDocument):
    """The JSON document that the bench starts a Locust process with."""

    rate: float = Field(gt=0, description="jobs per second, of all users of this process together")
    users: int = Field(ge=1, description="number of users that share the rate, with a connection each")
    bounds: LocustBounds = LocustBounds()
    result: Path = Field(description="file for Locust's own pass or fail; its folder exists")


class NoQueueError(CannotContinueError):
    """The server can be reached, but the queue cannot be read there; the message says why."""


class Target(ABC):
    """A queue and its intended load."""

    rate: float
    """Base rate in jobs per second."""
    users: int | None = None
    """Connections that share the base rate, if the target defines them."""
    bounds: LocustBounds = LocustBounds()
    result: Path | None = None
    """File for Locust's own pass or fail, if it is part of a run."""

    @abstractmethod
    def opened_document(self, stop: Stop) -> AbstractContextManager[EnqueuerDocument]:
        """Give the block the document of a process that enqueues, for as long as the block lasts."""

    def extra_rate_at(self, elapsed_s: float) -> float | None:
        """Return the rate on top of the base rate, in jobs per second; None if the test is over."""
        return 0.0

    @abstractmethod
    def lead(self, stop: Stop) -> None:
        """Prepare a master process, which enqueues nothing itself."""


class GivenDocument(Target):
    """One process of a run. The bench starts another for a burst, and ends both."""

    def __init__(self, document: LocustDocument) -> None:
        """Use ``document``."""
        self._document = document
        self.rate = document.rate
        self.users = document.users
        self.bounds = document.bounds
        self.result = document.result

    @contextmanager
    def opened_document(self, stop: Stop) -> Iterator[EnqueuerDocument]:
        """Give the block the document."""
        yield self._document

    def lead(self, stop: Stop) -> None:
        """Do nothing: the bench starts no master."""


class RunTarget(Target):
    """A run that accepts external processes; the load lasts until the run ends it."""

    def __init__(self, folder: Path, trust: Trust) -> None:
        """Read the join instructions in ``folder``. Raises `CannotContinueError` if it cannot be read, or is not in ``trust``."""
        self._folder = folder
        self._trust = trust
        self.rate = read_join_instructions(folder, trust).producer.rate
        self.result = folder.parent / LOCUST_FOLDER / f"master-{socket.gethostname()}.json"

    @contextmanager
    def opened_document(self, stop: Stop) -> Iterator[EnqueuerDocument]:
        """Register as a producer."""
        with join_run_folder(EnqueuerDocument, "producer", self._folder, stop, self._trust) as document:
            self.result = self._folder.parent / LOCUST_FOLDER / f"{document.name}.json"
            yield document

    def lead(self, stop: Stop) -> None:
        """Set ``stop`` when the run ends the load; the worker processes register themselves."""
        watch_for_stop("producer", self._folder, stop)


class ScenarioAlone(Target):
    """The queue and the phases of a scenario, without the bench: bursts are applied, other faults are not."""

    def __init__(self, scenario: Scenario, endpoint: Endpoint) -> None:
        """Enqueue into the scenario's queue at ``endpoint``. Raises `BadInputError` if a burst enqueues jobs at once, which no user does."""
        self._scenario = scenario
        self._endpoint = endpoint
        self.rate = scenario.producers.rate
        self.bounds = bounds_of(scenario)
        self._bursts: list[tuple[float, float, float]] = []
        begin_s = 0.0
        for phase_number, phase in enumerate(scenario.phases):
            for number, fault in enumerate(phase.faults):
                kind = find_faults()[fault.kind]
                load = kind.find_added_load(kind.options_type.model_validate(fault.options))
                if load is None:
                    continue
                if load.at_once:
                    raise BadInputError(
                        f"{scenario.file}: phases[{phase_number}].faults[{number}] enqueues {load.at_once} jobs at once, which Locust does "
                        "only in a run; expected a burst with a rate only, or --join and a run of this scenario"
                    )
                for_s = phase.duration_s - fault.after_s if fault.for_s is None else fault.for_s
                from_s = begin_s + fault.after_s
                self._bursts.append((from_s, from_s + for_s, load.rate))
            begin_s += phase.duration_s

    @contextmanager
    def opened_document(self, stop: Stop) -> Iterator[EnqueuerDocument]:
        """Enqueue without an event log, because there is no run."""
        queue = find_queue(self._scenario.queue.kind)
        options = queue.options_type.model_validate(self._scenario.queue.options)
        yield EnqueuerDocument(
            name="locust",
            endpoint=self._endpoint,
            queue=self._scenario.queue.kind,
            queue_options=queue.resolve_options(options, workers=self._scenario.workers.count).model_dump(),
            events=Path("/dev/null"),
            payload_bytes=self._scenario.producers.payload_bytes,
            payload_content=self._scenario.producers.payload_content,
            seed=self._scenario.seed,
        )

    def lead(self, stop: Stop) -> None:
        """Check that the queue exists."""
        with self.opened_document(stop) as document:
            require_queue(document)

    def extra_rate_at(self, elapsed_s: float) -> float | None:
        """Return the summed rate of the bursts that are due; None when all phases are over."""
        if elapsed_s >= self._scenario.duration_s:
            return None
        return sum(rate for from_s, until_s, rate in self._bursts if from_s <= elapsed_s < until_s)


def require_queue(document: EnqueuerDocument, *, install: bool = False) -> None:
    """Check that the queue exists, or create it. Raises an error of the driver, and `NoQueueError` if the server has no such queue."""
    driver = driver_of(document.endpoint.engine)
    with opened_queue(document.queue, document.queue_options, document.endpoint, document.name) as queue:
        if install:
            queue.install()
        try:
            queue.depth()
        except driver.errors as error:
            raise NoQueueError(driver.describe(error)) from error
