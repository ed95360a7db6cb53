"""One server that the runs of a test session share: a process of its own, which gives each run an empty database.

It reads a line for each run, a `Request` in JSON, and answers with a line: an `Answer`. It ends, with its servers, when its standard input ends, and
so also when pytest is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import ExitStack, chdir
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from stallbench.engines import ENGINES
from stallbench.errors import EXIT_INTERRUPTED, NotCarriedOutError, StallbenchError
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint
from stallbench.scenario.file import read_scenario
from stallbench.scenario.model import Scenario
from stallbench.scenario.validation.external import require_fit_for_external
from stallbench.servers.addresses import ExternalServers
from stallbench.servers.empty_databases import EmptyDatabases, empty_databases
from stallbench.servers.join import open_adapter
from stallbench.waiting import wait_until

_LEAVE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A run, as the command line names it."""

    scenario: str
    variant: str | None
    overrides: list[str]
    folder: str
    """The working directory, from which paths count."""

    @classmethod
    def read(cls, line: str) -> Self:
        """Read one from JSON."""
        return cls(**json.loads(line))

    def write(self) -> str:
        """Return it in JSON, in one line."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The database that a run uses, or why it needs servers of its own."""

    address: str = ""
    """For ``--dsn``; empty if the run starts its own servers."""
    database: str = ""
    password: str = ""
    own_because: str = ""

    @property
    def options(self) -> list[str]:
        """The options of `stallbench run`. The server is the bench's own, so a run may change it."""
        return ["--dsn", self.address, "--database", self.database, "--allow-server-changes"] if self.address else []

    @property
    def environment(self) -> dict[str, str]:
        """The password, for the run's environment."""
        return {PASSWORD_VARIABLE: self.password} if self.address else {}

    @classmethod
    def read(cls, line: str) -> Self:
        """Read one from JSON."""
        return cls(**json.loads(line))

    def write(self) -> str:
        """Return it in JSON, in one line."""
        return json.dumps(asdict(self))


class SessionServer:
    """The server, which starts with the first run that can use it."""

    def __init__(self, logs: Path) -> None:
        """Start nothing yet."""
        self._logs = logs
        self._running = ExitStack()
        self._databases: EmptyDatabases | None = None
        self._section = ""
        self._endpoint: Endpoint | None = None

    def give(self, request: Request) -> Answer:
        """Return an empty database on the server for a run.

        A run whose section ``[database]`` differs from that of the run before gets another server, with its settings, and the former is stopped.
        """
        try:
            with chdir(request.folder):
                scenario = read_scenario(request.scenario, variant=request.variant, overrides=request.overrides)
            if reason := _find_reason_against(scenario):
                return Answer(own_because=reason)
            endpoint = self._endpoint = self._start(scenario).give()
            ENGINES[endpoint.engine].count_statements_anew(endpoint)
        except StallbenchError as error:  # the run itself reports what is wrong with its scenario
            return Answer(own_because=str(error).partition("\n")[0])
        except Exception as error:  # noqa: BLE001 - a server that was killed, for example: the next run gets another one
            self.stop()
            return Answer(own_because=f"the shared server could not be used: {str(error).strip() or type(error).__name__}")
        user = f"{endpoint.user}@" if endpoint.user else "@"
        address = f"primary={ENGINES[endpoint.engine].schemes[0]}://{user}{endpoint.host}:{endpoint.port}/{endpoint.database}"
        return Answer(address=address, database=endpoint.database, password=endpoint.password.get_secret_value())

    def wait_for_clients(self) -> None:
        """Wait until the last run has left the server, if it is still there."""
        if (endpoint := self._endpoint) is not None:
            wait_until(lambda: not _has_clients(endpoint), within_s=_LEAVE_S, every_s=0.2)

    def stop(self) -> None:
        """Stop the server, if there is one."""
        self._running.close()
        self._databases = self._endpoint = None

    def _start(self, scenario: Scenario) -> EmptyDatabases:
        section = scenario.database.model_dump_json()
        if self._databases is None or section != self._section:
            self.stop()
            self._databases = self._running.enter_context(empty_databases(scenario.database, None, self._logs))
            self._section = section
        return self._databases


def _find_reason_against(scenario: Scenario) -> str:
    """Return why a run cannot share a server; empty if it can."""
    if not ENGINES[scenario.database.engine].schemes:
        return f"{scenario.database.engine} cannot be shared"
    if scenario.database.replicas:
        return "it has replicas"
    try:
        require_fit_for_external(scenario, ExternalServers(servers={}, may_change_servers=True))
    except StallbenchError as error:
        return str(error).partition("\n")[0].partition("; leave")[0]
    return ""


def _has_clients(endpoint: Endpoint) -> bool:
    """Whether a run is still connected: its processes end by themselves when pytest was killed, and undo what they changed."""
    try:
        with open_adapter("session", endpoint) as adapter:
            return adapter.count_other_sessions() > 0
    except NotCarriedOutError:
        return False


def main(logs: Path) -> None:
    """Answer until standard input ends, or until SIGTERM; then stop the server."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_INTERRUPTED))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a user's queue file prints is no answer
    server = SessionServer(logs)
    try:
        for line in sys.stdin:
            print(server.give(Request.read(line)).write(), file=answers, flush=True)
    except KeyboardInterrupt:
        pass
    finally:
        server.wait_for_clients()
        server.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
