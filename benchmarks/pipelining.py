"""``python -m benchmarks.pipelining [ROUNDS]``: measures the cost of pipelining without network latency.

One client of Postgrestue enqueues, claims and completes. Each operation is sent in each way, in interleaved rounds, directly to a private
server whose commits do not wait for the disk. The remaining cost is the CPU time of client and server, and their waits for each other.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import psutil
from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor

from stallbench.engines.database import Database
from stallbench.engines.postgres.driver import connect
from stallbench.processes.reaper import SCRATCH_PREFIX, start_reaper
from stallbench.processes.supervisor import Supervisor
from stallbench.queues import NewJob, Queue
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from stallbench.servers.cluster import start_cluster

_OPERATIONS = 1500
_WARM_UP = 100
_JOB = NewJob(payload='{"n":1}')
_STATEMENTS = ("BEGIN", "SELECT 1", "SELECT 2", "COMMIT")
_CALLS = ("sendto", "poll", "recvfrom")
_WAYS: dict[str, dict[str, object]] = {
    "libpq, one by one": {"client": "libpq"},
    "libpq, at once": {"client": "libpq", "pipeline": True},
    "psycopg's cursors, one by one": {"client": "cursor"},
    "psycopg's cursors, its pipeline": {"client": "cursor", "pipeline": True},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one operation."""

    wall_us: float
    client_us: float
    """CPU time of this process."""
    server_us: float
    """CPU time of the session's backend."""
    client_waits: float
    """Voluntary context switches of this process."""
    server_waits: float
    """Voluntary context switches of the backend."""


Operation = Callable[[], object]


def main() -> None:
    """Measure in interleaved rounds and print the medians of each way, with the range of the wall time."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    costs: dict[tuple[str, str], list[Cost]] = {}
    with _server() as endpoint:
        calls = {way: _count_calls(endpoint, options) for way, options in _WAYS.items()} if shutil.which("strace") else {}
        for _ in range(rounds):
            for what, way, cost in _measure_operations(endpoint):
                costs.setdefault((what, way), []).append(cost)
            for way, cost in _measure_empty_transactions(endpoint):
                costs.setdefault((", ".join(_STATEMENTS), way), []).append(cost)
    print(f"{rounds} rounds of {_OPERATIONS} operations each; medians, µs per operation:")
    print("  wall (from .. to)   CPU: client  server   waits: client  server")
    for way, counts in calls.items():
        print(f"enqueue, {way}: " + ", ".join(f"{count:.1f} {name}" for name, count in counts.items()) + " per operation")
    titles = dict.fromkeys(what for what, _ in costs)
    for title in titles:
        print(title)
        for (what, way), measured in costs.items():
            if what == title:
                wall, client, server, client_waits, server_waits = map(
                    statistics.median, zip(*map(astuple, measured), strict=True)
                )
                walls = [cost.wall_us for cost in measured]
                print(
                    f"  {wall:6.0f} ({min(walls):.0f} .. {max(walls):.0f})  {client:6.0f} {server:6.0f}  {client_waits:6.1f} {server_waits:6.1f}  {way}"
                )


def _measure_operations(endpoint: Endpoint) -> Iterator[tuple[str, str, Cost]]:
    for way, options in _WAYS.items():
        with opened_queue("postgrestue", options, endpoint, "benchmark") as queue:
            backend = psutil.Process(queue.connection.info.backend_pid)
            for what, operation in (("enqueue", lambda: queue.enqueue([_JOB])), ("claim, complete", lambda: _work_one(queue))):
                yield what, way, _measure(operation, backend)


def _count_calls(endpoint: Endpoint, options: dict[str, object]) -> dict[str, float]:
    """Return how often this process makes each of `_CALLS` for one enqueue, as strace counts them."""
    with opened_queue("postgrestue", options, endpoint, "benchmark") as queue, tempfile.NamedTemporaryFile("r") as counted:
        for _ in range(_WARM_UP):
            queue.enqueue([_JOB])
        argv = ["strace", "-c", "-o", counted.name, "-e", f"trace={','.join(_CALLS)}", "-p", str(os.getpid())]
        tracer = subprocess.Popen(argv, stderr=subprocess.PIPE)
        assert tracer.stderr is not None
        tracer.stderr.readline()  # the message that strace is attached
        for _ in range(_WARM_UP):
            queue.enqueue([_JOB])
        tracer.send_signal(signal.SIGINT)
        tracer.communicate()
        rows = [line.split() for line in counted.read().splitlines()]
    return {row[-1]: int(row[3]) / _WARM_UP for row in rows if row and row[-1] in _CALLS}


def _work_one(queue: Queue[Any]) -> None:
    (claim,) = queue.claim()
    queue.complete(claim)


def _measure_empty_transactions(endpoint: Endpoint) -> Iterator[tuple[str, Cost]]:
    """Measure statements that cost the server almost nothing, also on psycopg's asynchronous connection, which the source of the claim uses."""
    with connect(endpoint, "benchmark") as connection:
        backend = psutil.Process(connection.info.backend_pid)
        yield "psycopg's cursors, one by one", _measure(lambda: _send(connection), backend)
        yield "psycopg's cursors, its pipeline", _measure(lambda: _send_in_pipeline(connection), backend)
    with asyncio.Runner() as runner:
        parameters = {"host": endpoint.host, "port": endpoint.port, "user": endpoint.user, "dbname": endpoint.database}
        secret = endpoint.password.get_secret_value()
        asynchronous = runner.run(AsyncConnection.connect(**parameters, password=secret, autocommit=True))
        backend = psutil.Process(asynchronous.info.backend_pid)
        yield "asyncio, one by one", _measure(lambda: runner.run(_send_asynchronously(asynchronous)), backend)
        yield "asyncio, its pipeline", _measure(lambda: runner.run(_send_asynchronously_in_pipeline(asynchronous)), backend)
        runner.run(asynchronous.close())


def _send(connection: Connection[Any]) -> None:
    for statement in _STATEMENTS:
        RawCursor(connection).execute(statement, prepare=True)


def _send_in_pipeline(connection: Connection[Any]) -> None:
    with connection.pipeline():
        _send(connection)


async def _send_asynchronously(connection: AsyncConnection[Any]) -> None:
    for statement in _STATEMENTS:
        await AsyncRawCursor(connection).execute(statement, prepare=True)


async def _send_asynchronously_in_pipeline(connection: AsyncConnection[Any]) -> None:
    async with connection.pipeline():
        await _send_asynchronously(connection)


def _measure(operation: Operation, backend: psutil.Process) -> Cost:
    for _ in range(_WARM_UP):
        operation()
    client = psutil.Process()
    before = _read(client), _read(backend)
    began_s = time.perf_counter()
    for _ in range(_OPERATIONS):
        operation()
    wall_s = time.perf_counter() - began_s
    (client_s, client_waits), (server_s, server_waits) = (
        (cpu_s - cpu_before_s, waits - waits_before)
        for (cpu_s, waits), (cpu_before_s, waits_before) in zip((_read(client), _read(backend)), before, strict=True)
    )
    return Cost(
        wall_us=wall_s / _OPERATIONS * 1e6,
        client_us=client_s / _OPERATIONS * 1e6,
        server_us=server_s / _OPERATIONS * 1e6,
        client_waits=client_waits / _OPERATIONS,
        server_waits=server_waits / _OPERATIONS,
    )


def _read(process: psutil.Process) -> tuple[float, int]:
    times = process.cpu_times()
    return times.user + times.system, process.num_ctx_switches().voluntary


@contextmanager
def _server() -> Iterator[Endpoint]:
    """A private server with the queue installed."""
    token, scratch = secrets.token_hex(8), Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
    with ExitStack() as stack:
        stack.enter_context(start_reaper(token, record=scratch / "run.json", scratch=scratch))
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        processes = Supervisor(token, scratch=scratch)
        stack.callback(processes.stop_all)
        database = Database(settings={"synchronous_commit": "off"})
        cluster = start_cluster(database, scratch=scratch, logs=logs, processes=processes, progress=lambda _: None)
        endpoint = cluster.server("primary").direct
        with opened_queue("postgrestue", {}, endpoint, "benchmark") as queue:
            queue.install()
        yield endpoint


if __name__ == "__main__":
    main()
