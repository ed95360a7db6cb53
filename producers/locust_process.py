"""One Locust process (local, master or worker) from its options to its exit code, driven by Locust's events."""

from __future__ import annotations

import signal
import socket
import sys
from typing import Any

import gevent
from locust.env import Environment
from locust.event import Events
from locust.runners import STATE_STOPPED, LocalRunner, MasterRunner, WorkerRunner

from producers.locust_load import LocustLoad
from producers.locust_options import add_options, read_bounds, read_rate
from producers.locust_target import NoQueueError, require_queue
from producers.locust_verdict import judge, keep_fractions_of_ms
from stallbench.engines.role_errors import is_expected
from stallbench.errors import EXIT_BAD_INPUT, BadInputError, StallbenchError
from stallbench.processes.role import EXIT_CANNOT_CONTINUE

USERS = 50
"""Default number of connections that share the rate."""
SPAWN_A_SECOND = 100.0
FINISH_S = 10.0
"""Time for a user to finish its current call: the outcome of an aborted call is unknown."""


class LocustProcess:
    """Handles the events of one Locust process."""

    def __init__(self, load: LocustLoad) -> None:
        """Serve ``load``."""
        self._load = load

    def listen(self, events: Events) -> None:
        """Subscribe to Locust's events."""
        events.init_command_line_parser.add_listener(add_options)
        events.init.add_listener(self._prepare)
        events.test_start.add_listener(self._begin)
        events.spawning_complete.add_listener(lambda **_: self._load.all_are_spawned())
        events.test_stopping.add_listener(lambda **_: self._load.release_users())
        events.test_stop.add_listener(self._end)
        events.quitting.add_listener(self._judge)

    def _prepare(self, environment: Environment, runner: Any, web_ui: Any, **_: Any) -> None:
        """Check the options, and end the process with one message if they are invalid."""
        self._load.environment = environment
        keep_fractions_of_ms()
        environment.stop_timeout = environment.stop_timeout or FINISH_S
        if isinstance(runner, WorkerRunner):
            return  # the master sends its options when it starts the test
        options = self._load.options
        if options.headless:
            gevent.signal_handler(signal.SIGTERM, self._ask_to_stop)  # Locust itself does so only when a shape has ended
        try:
            _require_free_port(web_ui)
            target = self._load.target
            read_rate(options.rate, target.rate)
            self._bounds = read_bounds(options, target.bounds)
            options.num_users = target.users or options.num_users or USERS
            options.spawn_rate = options.spawn_rate or SPAWN_A_SECOND
            if options.install:
                with target.opened_document(self._load.stop) as document:
                    require_queue(document, install=True)
            if isinstance(runner, LocalRunner):
                self._load.open()
            else:
                target.lead(self._load.stop)
        except KeyboardInterrupt:
            sys.exit(0)
        except StallbenchError as error:
            print(error, file=sys.stderr)
            sys.exit(EXIT_BAD_INPUT)
        except Exception as error:
            if not is_expected(error):
                raise
            hint = "; --install creates the queue's tables" if options.scenario and isinstance(error, NoQueueError) else ""
            print(f"cannot continue: {' '.join(str(error).split())}{hint}", file=sys.stderr)
            sys.exit(EXIT_CANNOT_CONTINUE)

    def _ask_to_stop(self) -> None:
        self._load.stop.event.set()
        runner = self._load.environment.runner
        if isinstance(runner, LocalRunner) and runner.shape_greenlet is not None:
            runner.shape_greenlet.kill(block=False)  # the shape is polled once a second, and Locust ends when it returns none

    def _begin(self, environment: Environment, **_: Any) -> None:
        if isinstance(environment.runner, MasterRunner):
            return
        try:
            self._load.open()
        except Exception as error:
            if not is_expected(error) and not isinstance(error, StallbenchError):
                raise
            self._load.give_up(error)

    def _end(self, environment: Environment, **_: Any) -> None:
        runner = environment.runner
        if not isinstance(runner, MasterRunner):
            self._load.close()

    def _judge(self, environment: Environment, **_: Any) -> None:
        """Stop the users, then report whether Locust's own bounds hold: in the exit code and in the run's folder."""
        runner = environment.runner
        assert runner is not None, "Locust creates a runner first"
        if runner.state != STATE_STOPPED and runner.user_count:
            runner.stop()
        self._load.close()
        if isinstance(runner, WorkerRunner):
            environment.process_exit_code = environment.process_exit_code or 0  # the master has all the figures
            return
        exceptions = sum(one["count"] for one in runner.exceptions.values())
        judgement = judge(environment.stats.total, self._bounds, exceptions)
        print(judgement.describe(), file=sys.stderr, flush=True)
        if self._load.target.result is not None:
            judgement.write(self._load.target.result)
        if environment.process_exit_code is None:
            environment.process_exit_code = self._load.options.exit_code_on_error if judgement.reasons else 0


def _require_free_port(web_ui: Any) -> None:
    if web_ui is None:
        return
    try:
        socket.create_server((web_ui.host or "", web_ui.port)).close()
    except OSError as error:
        raise BadInputError(
            f"the web page cannot use port {web_ui.port}: {error.strerror}; choose another with --web-port, or none with --headless"
        ) from error
