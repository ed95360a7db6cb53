"""The load of a run: starts and stops its backlog, workers, scheduler and producers, each a separate process."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench.errors import NotCarriedOutError
from stallbench.injection.worker_clocks import WorkerClocks, are_changed
from stallbench.processes.process import ROLE_READY_S, ROLE_STOP_S, Process
from stallbench.processes.role_command import LOCUST, role_command
from stallbench.processes.supervisor import Supervisor
from stallbench.queues import find_queue
from stallbench.queues.record import QueueRecord
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import EventLog
from stallbench.run.folder import RunFolder
from stallbench.scenario.locust_bounds import LOCUST_FAILS, bounds_of
from stallbench.scenario.model import Scenario

_SUSPEND_S = 30.0
_BACKLOG = "backlog"
LOCUST_OPTIONS = ("--headless", "--only-summary", "--document", "-")
"""A Locust producer reads its document from standard input, like every producer."""
_USERS = "users"
"""A key that only the documents of Locust processes have."""
_MARK = "mark"
"""A key that only the documents of producers that a fault has started have."""
_SEED_OF_BACKLOG = 999
_SEED_OF_PRODUCERS = 1000


class Load:
    """The processes that enqueue and complete jobs. All of them reach the database through the proxy."""

    def __init__(
        self, scenario: Scenario, queue: QueueRecord, endpoint: Endpoint, *, processes: Supervisor, folder: RunFolder
    ) -> None:
        """Start nothing yet. ``endpoint``: the primary, as clients reach it."""
        self.is_upgraded = False
        """Whether workers that start from now on are of the newer version of a library."""
        self._scenario = scenario
        self._queue = queue
        self._endpoint = endpoint
        self._processes = processes
        self._folder = folder
        self._documents: dict[str, dict[str, object]] = {}
        """The document of each process, by its name."""
        self._generations: dict[str, int] = {}
        self._clocks = (
            WorkerClocks(folder.clocks, folder.job_faults) if are_changed(scenario.queue.kind, scenario.faults) else None
        )
        self._met: dict[str, set[str]] = {}
        """The workers that have reported each job fault, by its name."""

    @property
    def waits_for_go(self) -> bool:
        """Whether the workers start together with the first phase, and not each as soon as it is connected."""
        return self._scenario.producers.backlog > 0

    def go(self) -> None:
        """Start the workers that wait for the first phase."""
        if self.waits_for_go:
            for process in self.running("worker"):
                process.signal(signal.SIGUSR1)

    def fill(self) -> int:
        """Enqueue the backlog by a producer that ends before the first worker starts. Returns the number of jobs."""
        producers = self._scenario.producers
        if producers.backlog:
            self._start(
                "producer",
                {
                    _BACKLOG: {
                        "rate": 0,
                        "backlog": producers.backlog,
                        "payload_bytes": producers.payload_bytes,
                        "payload_content": producers.payload_content,
                        "seed": self._scenario.seed + _SEED_OF_BACKLOG,
                    }
                },
                ready_s=ROLE_READY_S + producers.backlog / find_queue(self._queue.kind).slowest_load_per_s,
            )
            self._processes.stop([process for process in self.running("producer") if process.name == _BACKLOG], ROLE_STOP_S)
        return producers.backlog

    def start_workers(self) -> None:
        """Start all workers and wait until each is connected."""
        workers = self._scenario.workers
        self._start(
            "worker",
            {
                f"worker-{number}": {
                    "work_s": workers.work_s,
                    "poll_s": workers.poll_s,
                    "max_poll_s": workers.max_poll_s,
                    "seed": self._scenario.seed + number,
                    "wait_for_go": self.waits_for_go,
                }
                for number in range(1, workers.count + 1)
            },
        )

    def start_scheduler(self) -> None:
        """Start the queue's scheduler, if it has one, and wait until it is connected."""
        queue = find_queue(self._queue.kind)
        if queue.has_scheduler(queue.options_type.model_validate(self._queue.options)):
            self._start("scheduler", {"scheduler": {}})

    def start_producers(self) -> None:
        """Start all producers and wait until each is connected. Each starts its schedule when it is connected."""
        producers = self._scenario.producers
        if producers.rate:
            self._start(
                "producer",
                {
                    f"producer-{number}": {
                        "rate": producers.rate / producers.count,
                        **self._describe_producer(number),
                        **({} if producers.by_locust else {"offset_s": (number - 1) / producers.rate}),
                    }
                    for number in range(1, producers.count + 1)
                },
            )

    def _describe_producer(self, number: int, *, by_locust: bool | None = None) -> dict[str, object]:
        """Return the part of the ``number``-th producer's document that does not depend on its rate."""
        producers = self._scenario.producers
        document: dict[str, object] = {
            "payload_bytes": producers.payload_bytes,
            "payload_content": producers.payload_content,
            "seed": self._scenario.seed + _SEED_OF_PRODUCERS + number,
        }
        if producers.by_locust if by_locust is None else by_locust:
            return {**document, _USERS: producers.users, "bounds": bounds_of(self._scenario).model_dump()}
        own = {"max_batch": producers.max_batch, "linger_s": producers.linger_s, "key_every_s": producers.key_every_s}
        return {**document, **own, "connection_per_call": producers.connection_per_call}

    def start_extra_producer(
        self,
        *,
        rate: float = 0,
        backlog: int = 0,
        mark: str | None = None,
        queue: str | None = None,
        payload_bytes: int | None = None,
    ) -> Process:
        """Start another producer that enqueues ``backlog`` jobs at once, then ``rate`` jobs per second, and that no fault affects. Returns after the backlog.

        ``mark``: identifies its jobs in their payload. ``queue``, ``payload_bytes``: of its jobs; the default one, and the scenario's, if none. It is a
        Locust process if the scenario's producers are and ``backlog`` is 0: Locust does not support a backlog.
        """
        number = 1 + sum(name.startswith("producer-") for name in self._documents)
        by_locust = self._scenario.producers.by_locust and backlog == 0
        initial: dict[str, object] = {_MARK: mark, "job_faults": None} | ({} if by_locust else {"backlog": backlog})
        own = {"job_queue": queue, "payload_bytes": payload_bytes}
        document = {
            "rate": rate,
            **initial,
            **self._describe_producer(number, by_locust=by_locust),
            **{key: value for key, value in own.items() if value},
        }
        self._start("producer", {f"producer-{number}": document})
        return self._processes.of_role("producer")[-1]

    def end(self, process: Process) -> None:
        """Stop one process of the load after its current operation."""
        self._processes.stop([process], ROLE_STOP_S)

    def workers_that_met(self, job_fault: str) -> set[str]:
        """Return the workers that have reported a job fault so far."""
        for process in self._processes.of_role("worker"):
            for message in process.messages():
                if isinstance(message.get("met"), str):
                    self._met.setdefault(message["met"], set()).add(process.name)
        return self._met.get(job_fault, set())

    def set_clocks(self, on: str) -> None:
        """Set the clocks of the workers ``on`` to what the active faults want; the bench's own workers do that themselves."""
        if self._clocks is not None:
            for process in self.named(on):
                self._clocks.set(process.name)

    def running(self, role: str) -> list[Process]:
        """Return the processes of a role that have not ended."""
        return [process for process in self._processes.of_role(role) if process.poll() is None]

    def named(self, on: str) -> list[Process]:
        """Return the running processes that ``on`` of a scenario refers to: ``workers``, or ``worker-3`` and its replacements; none of a fault."""
        if on in ("workers", "producers"):
            return [each for each in self.running(on.removesuffix("s")) if _MARK not in self._documents.get(each.name, {})]
        return [
            process for process in self.running(on.partition("-")[0]) if process.name == on or process.name.startswith(f"{on}-")
        ]

    def at_work(self, on: str) -> list[Process]:
        """Return the processes of `named` that have recorded an operation. A scheduler records only errors: it is included if it is ready."""
        return [
            process
            for process in self.named(on)
            if process.is_ready and (process.role == "scheduler" or self._has_recorded(process))
        ]

    def _has_recorded(self, process: Process) -> bool:
        try:
            return self._log_of(process.name).stat().st_size > 0
        except FileNotFoundError:
            return False

    def _make_log(self, name: str) -> None:
        """Make the log of a worker that opens it by its path: a link of a member of ``--group`` would lead it elsewhere.

        In the folder, which has the sticky bit, nobody else replaces what this user has made. Raises `NotCarriedOutError` for what is no file of this user.
        """
        try:
            EventLog(self._log_of(name), name).close()
        except OSError as error:
            raise NotCarriedOutError(
                f"{self._log_of(name)}: the log of {name} cannot be made: {error.strerror or error}"
            ) from error

    def _log_of(self, name: str) -> Path:
        return self._folder.events / f"{name}.csv"

    def replace(self, process: Process, **changes: object) -> Process:
        """Start a replacement of a process that has ended, under a new name: ``worker-3-2`` replaces ``worker-3``.

        Does not wait until it is ready. A new worker starts at once, even if the others waited for the first phase. ``changes``: values
        that replace those in its document.
        """
        first = next(name for name in self._documents if process.name == name or process.name.startswith(f"{name}-"))
        return self._start_replacement(
            process.role, first, **({"wait_for_go": False} if process.role == "worker" else {}), **changes
        )

    def _start_replacement(self, role: str, first: str, **changes: object) -> Process:
        self._generations[first] = self._generations.get(first, 1) + 1
        return self._start_one(role, f"{first}-{self._generations[first]}", self._documents[first] | changes)

    def stop(self) -> None:
        """Stop the producers, then the workers, then the scheduler, each after its current operation."""
        for role in ("producer", "worker", "scheduler"):
            self._processes.stop(self._processes.of_role(role), ROLE_STOP_S)

    def suspend(self, longest_job_s: float) -> None:
        """Suspend the producers, then the workers: each finishes its operation, closes its log and waits. Stops the scheduler.

        ``longest_job_s``: how long a job may take. Raises `NotCarriedOutError` if one is not suspended in time: its records could not be separated.
        """
        for role in ("producer", "worker"):
            suspended = self.running(role)
            for process in suspended:
                process.require_ready(ROLE_READY_S)
                process.signal(signal.SIGUSR2)
            for process in suspended:
                process.wait_suspended(_SUSPEND_S + longest_job_s)
        self._processes.stop(self.running("scheduler"), ROLE_STOP_S)

    def resume(self) -> list[str]:
        """Resume the workers, then the producers, as at the start of a run. Returns the names of replacements of processes that have ended."""
        producers = self._scenario.producers
        planned = {f"worker-{number}": "worker" for number in range(1, self._scenario.workers.count + 1)}
        if producers.rate:
            planned |= {f"producer-{number}": "producer" for number in range(1, producers.count + 1)}
        self.start_scheduler()
        suspended = {role: self.running(role) for role in ("worker", "producer")}
        replacements = [self._start_replacement(role, name) for name, role in planned.items() if not self.named(name)]
        for process in replacements:
            process.wait_ready(ROLE_READY_S)
        for role, processes in suspended.items():
            if role == "producer" or not self.waits_for_go:
                for process in processes:
                    process.signal(signal.SIGUSR1)
        return [process.name for process in replacements]

    def _start(self, role: str, documents: Mapping[str, dict[str, object]], *, ready_s: float = ROLE_READY_S) -> None:
        """Start ``python -m <role>s`` for each of ``documents`` and wait until each is connected."""
        self._documents |= documents
        started = [self._start_one(role, name, document) for name, document in documents.items()]
        for process in started:
            process.wait_ready(ready_s)

    def _start_one(self, role: str, name: str, document: Mapping[str, object]) -> Process:
        common = {
            "name": name,
            "endpoint": self._endpoint.with_password(),
            "queue": self._queue.kind,
            "queue_options": self._queue.options,
            "events": str(self._log_of(name)),
            "job_faults": str(self._folder.job_faults),
        }
        command: Sequence[str] = role_command(f"{role}s")
        orderly_exit_codes: tuple[int, ...] = (0,)
        if _USERS in document:
            self._folder.locust.mkdir(exist_ok=True)
            common["result"] = str(self._folder.locust / f"{name}.json")
            command, orderly_exit_codes = role_command(LOCUST, *LOCUST_OPTIONS), (0, LOCUST_FAILS)
        environment: Mapping[str, str] | None = None
        if role == "worker" and (own := find_queue(self._queue.kind).worker_command()):
            self._make_log(name)
            command, environment, orderly_exit_codes = own.argv, own.environment_for(name), own.orderly_exit_codes
            document = {**document, "upgraded": self.is_upgraded}
            if self._clocks is not None:
                of_clock, about_clock = self._clocks.prepare(name)
                environment, document = {**environment, **of_clock}, {**document, **about_clock}
        return self._processes.start(
            name,
            role,
            command,
            document={**common, **document},
            environment=environment,
            log=self._folder.logs / f"{name}.log",
            ready=True,
            orderly_exit_codes=orderly_exit_codes,
        )
