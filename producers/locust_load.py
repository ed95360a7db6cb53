"""State shared by the users of one Locust process: the target, the event log, the common start, and the end."""

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
from stallbench.engines.error_kinds import CONNECT
from stallbench.engines.reconnection import reconnect
from stallbench.processes.event_figures import offered_rate
from stallbench.processes.exposure import make_event_figures, serve
from stallbench.processes.role import EXIT_CANNOT_CONTINUE, CannotContinueError, Stop, send_message
from stallbench.records.events import Event, EventLog, format_error

_SPREAD = 0.618034
"""The golden ratio's fraction: its multiples spread evenly over 0 to 1 for any number of users, so that users start evenly spaced."""


class LocustLoad:
    """One Locust process: local, master, or worker."""

    environment: Environment

    def __init__(self) -> None:
        """Prepare; nothing is read or opened yet. Locust sets its environment later."""
        self.stop = Stop(by=())
        self.log: EventLog | None = None
        self.numbers = itertools.count()
        self._document: EnqueuerDocument | None = None
        self._stack = ExitStack()
        self._positions = itertools.count()
        self._begin = Gate()
        self._waiting = 0
        self._users = 0
        self._all_spawned = False
        self._gave_up = False
        self._offered = offered_rate()

    @property
    def options(self) -> Any:
        """Locust's options, including those from the web page and from the master."""
        return self.environment.parsed_options

    @cached_property
    def target(self) -> Target:
        """The queue that is enqueued into. Raises `BadInputError` if the options name none."""
        target = find_target(self.options, self.stop)
        if target is None:
            sys.exit(0)
        return target

    @property
    def document(self) -> EnqueuerDocument:
        """The document of this process, once the target is open."""
        assert self._document is not None, "nothing was opened"
        return self._document

    def shape(self, elapsed_s: float) -> int | None:
        """Return the wanted number of users, None if the test is over. Sets the rate of each user."""
        extra_rate = None if self.stop.asked else self.target.extra_rate_at(elapsed_s)
        if extra_rate is None or elapsed_s >= (self.options.run_time or math.inf):
            return None
        rate = read_rate(self.options.rate, self.target.rate)
        each = rate / int(self.options.num_users)
        self._offered.set(rate + extra_rate)
        self.options.jobs_a_second_each = each  # Locust sends all options from the master to the workers
        return round((rate + extra_rate) / each)

    def open(self) -> None:
        """Join the target if not done yet. Raises `CannotContinueError`, or an error of the driver, if the queue cannot be reached."""
        if self._document is not None:
            return
        with ExitStack() as stack:
            document = stack.enter_context(self.target.opened_document(self.stop))
            require_queue(document)
            figures = make_event_figures(document.expose)
            observe = figures.observe if figures else None
            self.log = stack.enter_context(EventLog(document.events, document.name, observe))
            self._exposed = serve(document.expose, figures, self._offered)
            self._document = document
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Leave the target; the next test joins it again."""
        with suppress(CannotContinueError), self._stack.pop_all():
            if self._gave_up:  # its registration in the run reports the end
                raise CannotContinueError
        self._document = None
        self._begin.clear()
        self._waiting = 0
        self._all_spawned = False

    def connect(self) -> tuple[Enqueuer, float]:
        """Return a new user's own connection, and the share of its period, 0 to 1, that it waits before its first job.

        Waits until all users that start together are connected. Raises an error of the driver if the server refuses one of them;
        later, `CannotContinueError` if the server stays unreachable.
        """
        position = next(self._positions)
        worker = getattr(self.environment.runner, "worker_index", 0)
        part = (position * _SPREAD + worker * _SPREAD / 2) % 1
        document = self.document.model_copy(update={"seed": self.document.seed + position})
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
            raise StopUser  # the test was cancelled
        self._users += 1
        return enqueuer, part

    def leave(self) -> None:
        """Note that a user has ended. A worker's last user reports to the master, which waits for no report after the users have ended."""
        self._users -= 1
        runner = self.environment.runner
        if isinstance(runner, WorkerRunner) and self._users == 0:
            report: dict[str, Any] = {}
            self.environment.events.report_to_master.fire(client_id=runner.client_id, data=report)
            runner.send_message("stats", report)

    def all_are_spawned(self) -> None:
        """Start the users as soon as all are connected."""
        self._all_spawned = True
        self._begin_if_all_are_there()

    def release_users(self) -> None:
        """Release users that wait for others to connect: the test was cancelled."""
        self._all_spawned = False
        self._begin.set()

    def give_up(self, reason: object) -> None:
        """End the test: this process cannot continue."""
        if not self.stop.asked:  # otherwise the process was asked to end
            print(f"cannot continue: {' '.join(str(reason).split())}", file=sys.stderr, flush=True)
            self.environment.process_exit_code = EXIT_CANNOT_CONTINUE
            self._gave_up = True
            self.stop.event.set()
            self.release_users()
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
        self.log.write(Event.ERROR, detail=format_error(driver.code(error), CONNECT, driver.describe(error)))
