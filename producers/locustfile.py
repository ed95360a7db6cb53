"""Locust's users of the queue under test: ``locust -f producers/locustfile.py``, with its web page, headless, or distributed.

A scenario with ``producers.kind = "locust"`` starts it. docs/locust.md shows how to use it.
"""

from __future__ import annotations

import os
import sys

if sys.flags.safe_path:
    sys.path.remove(os.getcwd())  # noqa: PTH109 - what Locust has put first; what follows is not imported from there

import time
from collections.abc import Callable, Sequence

import gevent
from gevent.event import Event
from locust import LoadTestShape, User, constant_throughput, events, task
from locust.env import Environment
from locust.exception import StopUser
from locust.runners import MasterRunner
from locust.user.task import LOCUST_STATE_STOPPING

from producers.enqueuer import EnqueueOperation
from producers.locust_load import LocustLoad
from producers.locust_process import LocustProcess
from stallbench.engines import driver_of
from stallbench.engines.role_errors import is_expected
from stallbench.errors import StallbenchError
from stallbench.processes.role import CannotContinueError
from stallbench.queues import NewJob, RefusedError
from stallbench.records.nanoseconds import NS_PER_S

_load = LocustLoad()
LocustProcess(_load).listen(events)


class EnqueueingUser(User):
    """Enqueues job after job, as evenly as `constant_throughput` can."""

    def __init__(self, environment: Environment) -> None:
        """Do nothing yet."""
        super().__init__(environment)
        self._asked_to_stop = Event()

    def on_start(self) -> None:
        """Connect, wait for the other users, then for this user's start offset."""
        try:
            self._enqueuer, part = _load.connect()
        except Exception as error:
            if not is_expected(error):
                raise
            _load.give_up(error)
            raise StopUser from None
        each = _load.options.jobs_a_second_each
        self._period_ns = round(NS_PER_S / each)
        self._pause_s: Callable[[User], float] = constant_throughput(each)
        self._asked_to_stop.wait(part / each)
        self._cp_last_run = time.perf_counter()  # the schedule starts here, not before the connection
        self._wanted_ns = self._paced_ns = time.time_ns()

    def wait_time(self) -> float:
        """Pause, and set when the next job is due: one period after this one, or after its start if it was late."""
        pause_s = self._pause_s(self)
        next_ns = time.time_ns() + round(pause_s * NS_PER_S)
        self._wanted_ns = next_ns if pause_s else self._paced_ns + self._period_ns
        self._paced_ns = next_ns
        self._asked_to_stop.wait(pause_s)
        return 0.0

    def stop(self, force: bool = False) -> bool:
        """End after the current call, or at once if there is none.

        Locust itself would kill a user that pauses. A user whose pause had just ended would be killed during its call, and it would be unknown
        whether the job was enqueued.
        """
        if force:
            return bool(super().stop(force=True))
        self._state = LOCUST_STATE_STOPPING
        self._asked_to_stop.set()
        return False

    @task
    def enqueue(self) -> None:
        """Enqueue one job. It is in the event log before Locust counts it."""
        number = next(_load.numbers)
        client = self._enqueuer.client
        failure: Exception | None = None
        try:
            self._enqueuer.enqueue(range(number, number + 1), [self._wanted_ns], by=_call)
        except RefusedError as error:
            failure = error
        except client.errors as error:
            failure = error
        except OSError as error:
            _load.give_up(error)
            return
        document = _load.document
        self.environment.events.request.fire(
            request_type="enqueue",
            name=document.queue,
            response_time=self._enqueuer.duration_ns / 1e6,
            response_length=document.payload_bytes,
            exception=failure,
            context={},
        )
        if failure is not None and not isinstance(failure, RefusedError):
            try:
                client.recover_connection(failure)
            except CannotContinueError as error:
                _load.give_up(error)

    def on_stop(self) -> None:
        """Close the connection."""
        if hasattr(self, "_enqueuer"):
            self._enqueuer.client.close()
            _load.leave()


class PhasesShape(LoadTestShape):
    """Runs as many users as the target's current rate needs."""

    use_common_options = True

    def tick(self) -> tuple[int, float] | None:
        """Return the number of users and the spawn rate; None when the test is over."""
        try:
            users = _load.shape(time.perf_counter() - self.start_time)
        except StallbenchError as error:  # a rate from the web page
            print(error, file=sys.stderr, flush=True)
            users = None
        if users is None and isinstance(self.runner, MasterRunner) and self.runner.user_count:
            users = 0  # a master that quits does not wait for the calls that its workers' users still make
        return None if users is None else (users, _load.options.spawn_rate)


def _call(operation: EnqueueOperation, jobs: Sequence[NewJob]) -> Sequence[int]:
    """Make a call while other users keep running."""
    if driver_of(_load.document.endpoint.engine).yields_to_greenlets:
        return operation(jobs)
    ids: Sequence[int] = gevent.get_hub().threadpool.apply(operation, (jobs,))
    return ids
