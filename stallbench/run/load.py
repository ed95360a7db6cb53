"""The load of a run: the backlog, the workers and the producers, as processes of their own."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench import PROJECT
from stallbench.processes.process import Process
from stallbench.processes.supervisor import Supervisor
from stallbench.queues import find_queue
from stallbench.records.endpoint import Endpoint
from stallbench.run.folder import RunFolder
from stallbench.run.record import QueueRecord
from stallbench.scenario.locust_bounds import LOCUST_FAILS, bounds_of
from stallbench.scenario.model import Scenario

_READY_S = 30.0
_STOP_S = 15.0
_REST_S = 30.0
_SLOWEST_FILL = 2000
"""Jobs a second that a queue takes at the least when it is filled; one that is slower is given up."""
_BACKLOG = "backlog"
LOCUST = (
    *(sys.executable, "-m", "locust", "-f", str(PROJECT / "producers" / "locustfile.py")),
    *("--headless", "--only-summary", "--document", "-"),
)
"""How a producer is started that is Locust; its document comes by standard input, as every producer's does."""
_USERS = "users"
"""What only the document of a Locust process has."""
_SEED_OF_BACKLOG = 999
_SEED_OF_PRODUCERS = 1000


class Load:
    """What puts jobs into the queue and takes them out; every process of it is a client, and so goes through the proxy."""

    def __init__(
        self, scenario: Scenario, queue: QueueRecord, endpoint: Endpoint, *, processes: Supervisor, folder: RunFolder
    ) -> None:
        """Prepare; nothing is started. ``endpoint``: the primary, as clients reach it."""
        self._scenario = scenario
        self._queue = queue
        self._endpoint = endpoint
        self._processes = processes
        self._folder = folder
        self._documents: dict[str, dict[str, object]] = {}
        """By name of the process."""
        self._generations: dict[str, int] = {}
        self._met: dict[str, set[str]] = {}
        """By name of a job_fault: the workers that have said that they met it."""

    @property
    def waits_for_go(self) -> bool:
        """Whether workers begin with the first phase, all at once, and not as soon as they are there."""
        return self._scenario.producers.backlog > 0

    def go(self) -> None:
        """Let workers that wait begin."""
        if self.waits_for_go:
            for process in self.running("worker"):
                process.signal(signal.SIGUSR1)

    def fill(self) -> int:
        """Enqueue the backlog by a producer that is gone before the first worker comes; returns how many jobs that are."""
        producers = self._scenario.producers
        if producers.backlog:
            self._start(
                "producer",
                {
                    _BACKLOG: {
                        "rate": 0,
                        "backlog": producers.backlog,
                        "payload_bytes": producers.payload_bytes,
                        "seed": self._scenario.seed + _SEED_OF_BACKLOG,
                    }
                },
                ready_s=_READY_S + producers.backlog / _SLOWEST_FILL,
            )
            self._processes.stop([process for process in self.running("producer") if process.name == _BACKLOG], _STOP_S)
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
                    "seed": self._scenario.seed + number,
                    "wait_for_go": self.waits_for_go,
                    "job_faults": str(self._folder.job_faults),
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
        """Start all producers and wait until each is connected: each begins with its schedule when it is."""
        producers = self._scenario.producers
        if producers.rate:
            self._start(
                "producer",
                {
                    f"producer-{number}": {
                        "rate": producers.rate / producers.count,
                        **self._describe_producer(number),
                        **({} if self._is_locust else {"offset_s": (number - 1) / producers.rate}),
                    }
                    for number in range(1, producers.count + 1)
                },
            )

    @property
    def _is_locust(self) -> bool:
        return self._scenario.producers.kind == "locust"

    def _describe_producer(self, number: int, *, by_locust: bool | None = None) -> dict[str, object]:
        """Return what the document of the ``number``-th producer has in any case."""
        producers = self._scenario.producers
        document: dict[str, object] = {
            "payload_bytes": producers.payload_bytes,
            "seed": self._scenario.seed + _SEED_OF_PRODUCERS + number,
        }
        if self._is_locust if by_locust is None else by_locust:
            return {**document, _USERS: producers.users, "bounds": bounds_of(self._scenario).model_dump()}
        return {**document, "max_batch": producers.max_batch}

    def start_extra_producer(self, *, rate: float = 0, backlog: int = 0, mark: str | None = None) -> Process:
        """Start one producer more, at ``rate`` jobs a second, after it has enqueued ``backlog`` jobs at once; wait until it has.

        ``mark``: what its jobs are known by. It is Locust if the scenario's are and it has no heap of jobs, which Locust has no word for.
        """
        number = 1 + sum(name.startswith("producer-") for name in self._documents)
        by_locust = self._is_locust and backlog == 0
        heap = {} if by_locust else {"backlog": backlog}
        document = {"rate": rate, "mark": mark, **heap, **self._describe_producer(number, by_locust=by_locust)}
        self._start("producer", {f"producer-{number}": document})
        return self._processes.of_role("producer")[-1]

    def end(self, process: Process) -> None:
        """Stop one process of the load after the move that it is making."""
        self._processes.stop([process], _STOP_S)

    def workers_that_met(self, job_fault: str) -> set[str]:
        """Return the workers that have said by now that they met a job_fault."""
        for process in self._processes.of_role("worker"):
            for message in process.messages():
                if "met" in message:
                    self._met.setdefault(message["met"], set()).add(process.name)
        return self._met.get(job_fault, set())

    def running(self, role: str) -> list[Process]:
        """Return the processes of a role that have not ended."""
        return [process for process in self._processes.of_role(role) if process.poll() is None]

    def named(self, on: str) -> list[Process]:
        """Return the running processes that a scenario means by ``on``: ``workers``, or ``worker-3`` and whoever came in its place."""
        if on in ("workers", "producers"):
            return self.running(on.removesuffix("s"))
        return [
            process for process in self.running(on.partition("-")[0]) if process.name == on or process.name.startswith(f"{on}-")
        ]

    def at_work(self, on: str) -> list[Process]:
        """Return those of `named` that have made, and recorded, a move already; a scheduler, which records only errors, if it is ready."""
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

    def _log_of(self, name: str) -> Path:
        return self._folder.events / f"{name}.csv"

    def replace(self, process: Process, **changes: object) -> Process:
        """Start a process that does what one that has ended did, under a name of its own: ``worker-3-2`` comes after ``worker-3``.

        It does not wait until the new one is ready. A worker that comes later than the others waits for nothing. ``changes``: what is
        otherwise in its document.
        """
        first = next(name for name in self._documents if process.name == name or process.name.startswith(f"{name}-"))
        return self._start_anew(process.role, first, **({"wait_for_go": False} if process.role == "worker" else {}), **changes)

    def _start_anew(self, role: str, first: str, **changes: object) -> Process:
        self._generations[first] = self._generations.get(first, 1) + 1
        return self._start_one(role, f"{first}-{self._generations[first]}", self._documents[first] | changes)

    def stop(self) -> None:
        """Stop the producers, then the workers, then the scheduler, each after the move that it is making."""
        for role in ("producer", "worker", "scheduler"):
            self._processes.stop(self._processes.of_role(role), _STOP_S)

    def suspend(self) -> None:
        """Let the producers, then the workers, finish the move that they are making, close their logs and wait; stop the scheduler.

        Raises `NotCarriedOutError` if one does not come to rest: its records could not be told from later ones.
        """
        for role in ("producer", "worker"):
            resting = self.running(role)
            for process in resting:
                process.require_ready(_READY_S)
                process.signal(signal.SIGUSR2)
            for process in resting:
                process.wait_suspended(_REST_S + self._scenario.workers.work_s)
        self._processes.stop(self.running("scheduler"), _STOP_S)

    def resume(self) -> list[str]:
        """End the rest: workers, then producers, begin as they did at the start. Returns the names of those that were started for lost ones."""
        producers = self._scenario.producers
        planned = {f"worker-{number}": "worker" for number in range(1, self._scenario.workers.count + 1)}
        if producers.rate:
            planned |= {f"producer-{number}": "producer" for number in range(1, producers.count + 1)}
        self.start_scheduler()
        resting = {role: self.running(role) for role in ("worker", "producer")}
        fresh = [self._start_anew(role, name) for name, role in planned.items() if not self.named(name)]
        for process in fresh:
            process.wait_ready(_READY_S)
        for role, processes in resting.items():
            if role == "producer" or not self.waits_for_go:
                for process in processes:
                    process.signal(signal.SIGUSR1)
        return [process.name for process in fresh]

    def _start(self, role: str, documents: Mapping[str, dict[str, object]], *, ready_s: float = _READY_S) -> None:
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
        }
        command: Sequence[str] = [sys.executable, "-m", f"{role}s"]
        orderly_exit_codes: tuple[int, ...] = (0,)
        if _USERS in document:
            self._folder.locust.mkdir(exist_ok=True)
            common["result"] = str(self._folder.locust / f"{name}.json")
            command, orderly_exit_codes = LOCUST, (0, LOCUST_FAILS)
        return self._processes.start(
            name,
            role,
            command,
            document={**common, **document},
            log=self._folder.logs / f"{name}.log",
            ready=True,
            orderly_exit_codes=orderly_exit_codes,
        )
