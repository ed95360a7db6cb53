"""What the users of one Locust process share: the target, the job log, the moment at which they all begin, and the end."""

from __future__ import annotations

import itertools
import math
import sys
from contextlib import ExitStack, suppress
from functools import cached_property
from typing import Any

import gevent
from gevent.event import Event as Gate
from locust.env import Environment
from locust.exception import StopUser
from locust.runners import WorkerRunner

from producers.enqueuer import Enqueuer, EnqueuerDocument
from producers.locust_options import find_target, read_rate
from producers.locust_target import GivenDocument, Target, require_queue
from stallbench.engines import driver_of
from stallbench.exposition import EventFigures, offered_rate, serve
from stallbench.processes.reconnection import reconnect
from stallbench.processes.role import EXIT_CANNOT_GO_ON, CannotGoOnError, Stop, send_message
from stallbench.records.events import Event, EventLog

_SPREAD = 0.618034
"""The golden ratio's fraction: its multiples spread evenly over 0 to 1, however many there are, so that users take turns."""


class LocustLoad:
    """One Locust process: local, master, or worker."""

    environment: Environment

    def __init__(self) -> None:
        """Read nothing and open nothing yet; Locust's environment comes when it has one."""
        self.stop = Stop(by=())
        self.log: EventLog | None = None
        self.numbers = itertools.count()
        self._document: EnqueuerDocument | None = None
        self._stack = ExitStack()
        self._places = itertools.count()
        self._begin = Gate()
        self._waiting = 0
        self._users = 0
        self._all_spawned = False
        self._gave_up = False
        self._offered = offered_rate()

    @property
    def options(self) -> Any:
        """Locust's options, those of the web page and of the master among them."""
        return self.environment.parsed_options

    @cached_property
    def target(self) -> Target:
        """What is enqueued into; raises `BadInputError` if the options name nothing."""
        target = find_target(self.options, self.stop)
        if target is None:
            sys.exit(0)
        return target

    @property
    def document(self) -> EnqueuerDocument:
        """What this process must know to enqueue, once it is open."""
        assert self._document is not None, "nothing was opened"
        return self._document

    def shape(self, elapsed_s: float) -> int | None:
        """Return how many users there are to be; none if the test is over. Sets what each of them does in a second."""
        on_top = None if self.stop.asked else self.target.on_top_at(elapsed_s)
        if on_top is None or elapsed_s >= (self.options.run_time or math.inf):
            return None
        rate = read_rate(self.options.rate, self.target.rate)
        each = rate / int(self.options.num_users)
        self._offered.set(rate + on_top)
        self.options.jobs_a_second_each = each  # which goes from the master to the workers with all options
        return round((rate + on_top) / each)

    def open(self) -> None:
        """Take part, if it does not yet: raises `CannotGoOnError`, or an error of the driver, if the queue is not there."""
        if self._document is not None:
            return
        with ExitStack() as stack:
            document = stack.enter_context(self.target.taken_part(self.stop))
            require_queue(document)
            figures = EventFigures()
            observe = figures.observe if document.expose else None
            self.log = stack.enter_context(EventLog(document.events, document.name, observe))
            self._exposed = serve(document.expose, figures, self._offered)
            self._document = document
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Take part no longer; the next test opens it anew."""
        with suppress(CannotGoOnError), self._stack.pop_all():
            if self._gave_up:  # a seat in somebody's run is to say so
                raise CannotGoOnError
        self._document = None
        self._begin.clear()
        self._waiting = 0
        self._all_spawned = False

    def connect(self) -> tuple[Enqueuer, float]:
        """Return a connection of a new user's own, and which part of its period, 0 to 1, it lets pass before its first job.

        Waits until all the users that begin together are there. Raises an error of the driver if the server does not take them all;
        later, `CannotGoOnError` if it stays away.
        """
        place = next(self._places)
        worker = getattr(self.environment.runner, "worker_index", 0)
        part = (place * _SPREAD + worker * _SPREAD / 2) % 1
        document = self.document.model_copy(update={"seed": self.document.seed + place})
        log = self.log
        assert log is not None, "nothing was opened"
        if self._begin.is_set():
            enqueuer = reconnect(lambda: Enqueuer(document, log, self.stop), self.stop, self._record_refusal)
            self._users += 1
            return enqueuer, part
        enqueuer = Enqueuer(document, log, self.stop)
        self._waiting += 1
        self._begin_if_all_are_there()
        self._begin.wait()
        if not self._all_spawned:
            raise StopUser  # there is to be no test
        self._users += 1
        return enqueuer, part

    def leave(self) -> None:
        """Say that a user is done; a worker's last one reports to the master, which waits for no report once the users are gone."""
        self._users -= 1
        runner = self.environment.runner
        if isinstance(runner, WorkerRunner) and self._users == 0:
            report: dict[str, Any] = {}
            self.environment.events.report_to_master.fire(client_id=runner.client_id, data=report)
            runner.send_message("stats", report)

    def all_are_spawned(self) -> None:
        """Let the users begin as soon as each is connected."""
        self._all_spawned = True
        self._begin_if_all_are_there()

    def let_go(self) -> None:
        """Let users go that wait for others to come: there is to be no test."""
        self._all_spawned = False
        self._begin.set()

    def give_up(self, reason: object) -> None:
        """End the test: this process cannot go on."""
        if not self.stop.asked:  # else it is because it was asked to end
            print(f"cannot go on: {' '.join(str(reason).split())}", file=sys.stderr, flush=True)
            self.environment.process_exit_code = EXIT_CANNOT_GO_ON
            self._gave_up = True
            self.stop.event.set()
            self.let_go()
            if isinstance(self.environment.runner, WorkerRunner):
                gevent.spawn(self.environment.runner.quit)

    def _begin_if_all_are_there(self) -> None:
        runner = self.environment.runner
        if self._all_spawned and not self._begin.is_set() and runner and self._waiting >= runner.user_count:
            self._begin.set()
            if isinstance(self.target, GivenDocument):
                send_message(ready=self._exposed)

    def _record_refusal(self, error: Exception) -> None:
        driver = driver_of(self.document.endpoint.engine)
        assert self.log is not None, "nothing was opened"
        self.log.write(Event.ERROR, detail=f"{driver.code(error)} in connect: {driver.describe(error)}")
