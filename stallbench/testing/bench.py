"""The fixture: starts the command line for a run and returns its verdict. What the runs of a session share is in `BenchSession`.

Each run is a process of its own, as a user starts it. By default it starts its own servers: nothing of a run is left for the next one, and a crash
of the server in one test cannot change another. Spark, whose start takes longer than that of the servers, is kept for all runs of a test process.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

from stallbench.errors import EXIT_BAD_INPUT, EXIT_FAIL, EXIT_PASS, BadInputError, NotCarriedOutError
from stallbench.pipeline.service import SERVICE_VARIABLE
from stallbench.processes.parent_death import die_with_parent
from stallbench.python_command import python_command
from stallbench.testing.arguments import (
    describe_against,
    describe_changes,
    find_queue_file,
    find_scenario_file,
    name_folder,
    require_types,
)
from stallbench.testing.outcome import Conformance, RunOutcome, read_conformance, read_outcome
from stallbench.testing.session_server import Answer, Request
from stallbench.waiting import wait_until

_COMMAND = tuple(python_command("stallbench.cli"))
_END_S = 60.0
_START_S = 60.0
_LAST_LINES = 8


class BenchSession:
    """What the runs of one test process share: the folder of the reports, one Spark that makes their tables and, if asked for, one server."""

    def __init__(self, reports: Path, root: Path, *, shares_server: bool = False) -> None:
        """Start nothing yet. ``root``: the folder from which paths count that are not below the working directory."""
        self.reports = reports
        self.root = root
        self._shares_server = shares_server
        self._server: subprocess.Popen[str] | None = None
        self._service: subprocess.Popen[bytes] | None = None
        self._socket = Path(tempfile.gettempdir()) / f"stallbench-tests-{secrets.token_hex(8)}"

    def __enter__(self) -> BenchSession:
        """Return it."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End Spark and the server."""
        if self._service is not None:
            _end(self._service)
        self._end_server()

    def bench(self, test: str, defaults: Mapping[str, Any], keep: Callable[[Path], None]) -> Bench:
        """Return what a test uses. ``defaults``: arguments of `Bench.run`. ``keep``: called with the folder of each run."""
        return Bench(self, test, defaults, keep)

    def find_server(self, request: Request) -> Answer:
        """Return the database that a run uses on the server that the runs share, if they share one and this run can."""
        if not self._shares_server:
            return Answer(own_because="each run has its own server")
        if self._server is None:
            self._server = subprocess.Popen(
                python_command("stallbench.testing.session_server", str(name_folder(self.reports, "shared-server"))),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,  # Ctrl-C is for the session, which ends it
                preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509 - only a system call
            )
        try:
            answer = _ask(self._server, request)
        except BaseException:  # the time limit of a test, for example: the answer would be read for the next run
            self._end_server()
            raise
        if answer is None:
            self._end_server()
            answer = Answer(own_because="the shared server ended unexpectedly")
        if answer.own_because:
            print(f"this run has its own servers: {answer.own_because}")
        return answer

    def _end_server(self) -> None:
        """End the shared server; SIGTERM stops what it has started."""
        server, self._server = self._server, None
        if server is not None:
            _end(server)
            for pipe in (server.stdin, server.stdout):
                assert pipe
                with suppress(BrokenPipeError):
                    pipe.close()

    def environment(self) -> dict[str, str]:
        """Return the environment of a command, which names the service that makes the tables; it is started when it is first needed."""
        if os.environ.get(SERVICE_VARIABLE):
            return dict(os.environ)
        if self._service is None:
            self._service = subprocess.Popen(
                python_command("stallbench.pipeline.service", str(self._socket)),
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the session, which ends it
                preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509 - only a system call
            )
            service = self._service
            wait_until(lambda: self._socket.exists() or service.poll() is not None, within_s=_START_S, every_s=0.05)
        return {**os.environ, SERVICE_VARIABLE: str(self._socket)}  # without the service, a command makes its tables itself


class Bench:
    """The fixture ``stallbench`` of one test."""

    def __init__(self, session: BenchSession, test: str, defaults: Mapping[str, Any], keep: Callable[[Path], None]) -> None:
        """Belong to ``test``."""
        self._session = session
        self._test = test
        self._defaults = defaults
        self._keep = keep

    def run(self, scenario: str | os.PathLike[str] | None = None, **arguments: Any) -> RunOutcome:
        """Run a scenario and return its verdict.

        ``scenario``: a name from `stallbench list`, or a path. Paths count from the working directory or, if they do not exist there, from
        pytest's root folder. By name:

        ``queue``: a kind, ``path/to/file.py:ClassName`` or ``library:NAME``. ``variant``: a variant of the scenario. ``phases``: the duration of
        phases by their names, like ``{"longtx": "20s"}``, or a dictionary of their keys. ``set``: other changes, by key path, like
        ``{"workers.count": 8}``. ``expect``: the expectations, which replace those of the scenario. ``require``: what the queue must
        survive, like ``"survives"``. ``judge``: ``"reproduced"`` or ``"survives"``, as ``--judge``. ``against``: a baseline file.
        ``tolerance``: how much worse a metric may be, like ``"30%"``, or a list of what ``--tolerance`` takes.

        The marker ``stallbench`` gives defaults for all of them; those of ``phases`` and ``set`` are merged. Raises `BadInputError` for what
        `stallbench run` refuses, `NotCarriedOutError` if the run could not be carried out; an expectation or requirement that does not hold raises nothing.
        """
        require_types(**self._defaults)
        require_types(scenario=scenario, **arguments)
        merged = {**self._defaults, **arguments}
        for name in ("phases", "set"):
            merged[name] = {**(self._defaults.get(name) or {}), **(arguments.get(name) or {})}
        chosen = scenario if scenario is not None else merged.pop("scenario", None)
        merged.pop("scenario", None)
        if chosen is None:
            raise BadInputError("run: which scenario? Expected a name or a path, here or as `scenario` in the marker")
        variant = merged.pop("variant", None)
        if merged.get("queue"):
            merged["queue"] = find_queue_file(merged["queue"], self._session.root)
        against = describe_against(merged.pop("against", None), merged.pop("tolerance", None), self._session.root)
        changes = describe_changes(**merged)
        name = find_scenario_file(os.fspath(chosen), self._session.root)
        server = self._session.find_server(
            Request(scenario=name, variant=variant, overrides=changes[1::2], folder=str(Path.cwd()))
        )
        options = [*(["--variant", variant] if variant else []), *changes, *against, *server.options]
        folder = self._make_folder()
        verdict = self._carry_out(
            ["run", name, *options, "--runs", str(folder)], folder, "latest/verdict.json", server.environment
        )
        run = verdict.parent.resolve()
        self._keep(run)
        return read_outcome(run)

    def conform(self, queue: str, *, set: Mapping[str, object] | None = None) -> Conformance:  # noqa: A002 - the name of the option
        """Try every promise of a queue, at every crash point, as `stallbench conform` does. Takes minutes. Raises as `run` does."""
        require_types(queue=queue, set=set)
        folder = self._make_folder()
        named = find_queue_file(queue, self._session.root)
        arguments = ["conform", named, *describe_changes(set=set or {}), "--runs", str(folder)]
        found = self._carry_out(arguments, folder, "*/study.json").parent
        self._keep(found)
        return read_conformance(found)

    def _make_folder(self) -> Path:
        return name_folder(self._session.reports, self._test)

    def _carry_out(
        self, arguments: Sequence[str], folder: Path, result: str, environment: Mapping[str, str] = MappingProxyType({})
    ) -> Path:
        """Run the command to its end and return its ``result``, a pattern below ``folder``; what it prints is the test's output. Raises for exit codes that
        are not those of a verdict, and if there is no result: Python's exit code after an unforeseen error is that of a verdict that fails.
        """
        with tempfile.TemporaryFile("w+") as printed:
            process = subprocess.Popen(
                [*_COMMAND, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                env={**self._session.environment(), **environment},
                start_new_session=True,  # Ctrl-C is for the session, which ends it
                preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509 - only a system call
            )
            try:
                code = process.wait()
            finally:
                if process.poll() is None:
                    _end(process)
                printed.seek(0)
                output = printed.read()
                print(output)
        found = next(folder.glob(result), None)
        if code not in (EXIT_PASS, EXIT_FAIL) or found is None:
            with suppress(OSError):
                folder.rmdir()  # if there are no records
            last = "\n".join([line for line in output.splitlines() if line.strip()][-_LAST_LINES:])
            raise (BadInputError if code == EXIT_BAD_INPUT else NotCarriedOutError)(last or f"exit code {code}")
        return found


def _ask(server: subprocess.Popen[str], request: Request) -> Answer | None:
    """Send a line and read one; none if the process has ended."""
    assert server.stdin
    assert server.stdout
    with suppress(BrokenPipeError):
        server.stdin.write(f"{request.write()}\n")
        server.stdin.flush()
    line = server.stdout.readline()
    return Answer.read(line) if line else None


def _end(process: subprocess.Popen[Any]) -> None:
    """Ask a process to end, which takes down what it has started; kill it if it does not."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)
    process.kill()
    process.wait()
