"""``python -m benchmarks.observing [ENGINE ..] [--for SECONDS]``: the processor time that `stallbench observe` takes, on the server and beside it.

The server has 10 000 tables and 500 sessions. The processor time is read from /proc, so it does not matter what else the machine does: of the server,
what it used beside an observation without what it uses without one in as much time.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import psutil

from stallbench.base.ports import find_free_port
from stallbench.engines import driver_of
from stallbench.engines.database import Database
from stallbench.processes.reaper import SCRATCH_PREFIX, start_reaper
from stallbench.processes.supervisor import Supervisor
from stallbench.records.endpoint import Endpoint
from stallbench.servers.cluster import start_cluster

TABLES, SESSIONS = 10_000, 500
FOR_S = 120.0
SETTLE_S = 20.0
"""The observation reads everything at first, which is measured by itself: so long after the first report."""
_REPORTED_WITHIN_S = 120.0
"""On a machine without free processor time, Python's start alone can take longer than `SETTLE_S`."""
_SCRAPE_EVERY_S = 15.0
_TABLES_AT_ONCE = 500
_TICK_S = 1.0
_SERVED_WITHIN_S = 60.0

_SETTINGS: dict[str, dict[str, str | int | float | bool]] = {
    "postgres": {
        "fsync": False,
        "max_connections": SESSIONS + 50,
        "max_locks_per_transaction": 512,
        "autovacuum": False,  # its own work on so many tables would hide that of the observation
    },
    "mariadb": {"max_connections": SESSIONS + 50, "innodb_flush_log_at_trx_commit": 0},
    "mysql": {"max_connections": SESSIONS + 50, "innodb_flush_log_at_trx_commit": 0},
}
_POSTGRES_TABLES = """
DO $$ BEGIN FOR n IN {first}..{last} LOOP
  EXECUTE format('CREATE TABLE t_%s (id int PRIMARY KEY, a text); INSERT INTO t_%s VALUES (1), (2); DELETE FROM t_%s WHERE id = 1', n, n, n);
END LOOP; END $$
"""
_QUEUE = {
    "postgres": """
CREATE TABLE jobs (id bigserial PRIMARY KEY, queue varchar(255), payload text, attempts smallint, reserved_at int, available_at int, created_at int);
INSERT INTO jobs (queue, payload, attempts, available_at, created_at)
SELECT 'default', 'x', 0, extract(epoch FROM now())::int, extract(epoch FROM now())::int FROM generate_series(1, 50)
""",
    "innodb": """
CREATE TABLE jobs (id bigint unsigned AUTO_INCREMENT PRIMARY KEY, queue varchar(255), payload longtext, attempts tinyint unsigned,
  reserved_at int unsigned NULL, available_at int unsigned, created_at int unsigned, KEY jobs_queue_index (queue));
INSERT INTO jobs (queue, payload, attempts, available_at, created_at)
SELECT 'default', 'x', 0, unix_timestamp(), unix_timestamp() FROM information_schema.tables LIMIT 50
""",
}

OPTIONS = {
    "the report on the screen": (),
    "recorded (--report, --expect)": ("--expect", "{expect}"),
    "recorded and served (--expose)": ("--expect", "{expect}", "--expose", "127.0.0.1:{port}"),
}
"""By what is measured: options of `stallbench observe`. How a recorded observation becomes a report is not part of the measurement."""
_EXPECT = '[[expect]]\nmetric = "depth.last"\nat_most = 1000\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Processor time of an observation."""

    server: float
    """Of the server after the first seconds: the share of one core."""
    client: float
    """Of `observe` itself: the same."""
    first_server_s: float
    """Of the server until `SETTLE_S` after the first report."""
    first_client_s: float
    """Of `observe` in the same time: Python's start is most of it."""
    readings: int
    """How often it read the server after the first seconds, if it was recorded. On a machine without free processor time a reading takes longer, and
    the pause after it, too."""


@dataclass(frozen=True, slots=True)
class CrowdedServer:
    """A server with many tables and sessions, and a small queue."""

    endpoint: Endpoint
    pid: int
    folder: Path

    def measure_idle(self, for_s: float) -> float:
        """Return the share of a core that the server uses without an observation."""
        before_s = self._used_s()
        time.sleep(for_s)
        return (self._used_s() - before_s) / for_s

    def measure(self, options: Sequence[str], for_s: float, idle: float) -> Cost:
        """Observe with these options. ``idle``: what the server uses without an observation, as a share of a core."""
        expect, port = self.folder / "expect.toml", find_free_port()
        expect.write_text(_EXPECT)
        given = [option.format(expect=expect, port=port) for option in options]
        server_before_s, began_s = self._used_s(), time.monotonic()
        observation = self._start([*given, "--for", f"{_REPORTED_WITHIN_S + SETTLE_S + for_s + _SERVED_WITHIN_S + 10:.0f}s"])
        try:
            url = f"http://127.0.0.1:{port}/metrics" if "--expose" in given else ""
            self._wait_until_reported(observation)
            self._wait(observation, time.monotonic() + SETTLE_S, "")
            if url:
                self._wait_until_served(observation, url)
            server_s, client_s, measured_from_s = self._used_s(), _used_s(observation), time.monotonic()
            read_before = self._count_readings()
            first_server_s = server_s - server_before_s - idle * (measured_from_s - began_s)
            self._wait(observation, measured_from_s + for_s, url)
            took_s = time.monotonic() - measured_from_s
            return Cost(
                server=(self._used_s() - server_s) / took_s - idle,
                client=(_used_s(observation) - client_s) / took_s,
                first_server_s=first_server_s,
                first_client_s=client_s,
                readings=self._count_readings() - read_before,
            )
        finally:
            if observation.poll() is None:
                observation.kill()
                observation.wait()

    def _start(self, options: Sequence[str]) -> psutil.Popen:
        endpoint = self.endpoint
        scheme = {"postgres": "postgresql"}.get(endpoint.engine, endpoint.engine)
        address = f"{scheme}://{endpoint.user or 'observer'}@{endpoint.host}:{endpoint.port}/{endpoint.database}"
        password = endpoint.password.get_secret_value()
        with self._screen.open("wb") as screen:
            return psutil.Popen(
                [
                    sys.executable,
                    "-m",
                    "stallbench.cli",
                    "observe",
                    "--dsn",
                    address,
                    "--runs",
                    str(self.folder / "runs"),
                    *options,
                ],
                env={**os.environ, "PGPASSWORD": password, "MYSQL_PWD": password},
                stdout=screen,
            )

    @property
    def _screen(self) -> Path:
        """What the observation prints."""
        return self.folder / "screen"

    def _wait_until_reported(self, observation: psutil.Popen) -> None:
        until_s = time.monotonic() + _REPORTED_WITHIN_S
        while not self._screen.stat().st_size:
            if time.monotonic() > until_s:
                raise RuntimeError(f"observe printed no report within {_REPORTED_WITHIN_S:.0f} s")
            self._wait(observation, time.monotonic() + _TICK_S, "")

    def _wait_until_served(self, observation: psutil.Popen, url: str) -> None:
        """Wait for a machine that is so busy that the first readings take longer than `SETTLE_S`."""
        until_s = time.monotonic() + _SERVED_WITHIN_S
        while True:
            self._wait(observation, time.monotonic() + _TICK_S, "")
            try:
                with urlopen(url, timeout=30):
                    return
            except URLError:
                if time.monotonic() > until_s:
                    raise

    def _wait(self, observation: psutil.Popen, until_s: float, url: str) -> None:
        scrape_at_s = time.monotonic()
        while (left_s := until_s - time.monotonic()) > 0:
            if observation.poll() is not None:
                raise RuntimeError(f"observe ended with exit code {observation.returncode} before its time")
            if url and time.monotonic() >= scrape_at_s:
                scrape_at_s = time.monotonic() + _SCRAPE_EVERY_S
                with urlopen(url, timeout=30) as answer:
                    assert b"stallbench_" in answer.read(), "figures are served"
            time.sleep(min(_TICK_S, left_s))

    def _count_readings(self) -> int:
        """Return how often the newest recorded observation has read the server: a collector wrote a sample each time."""
        samples = self.folder / "runs" / "latest" / "samples"
        logs = [log.read_text().splitlines()[1:] for log in samples.glob("*transactions.csv")]
        return max((len({line.partition(",")[0] for line in lines}) for lines in logs), default=0)

    def _used_s(self) -> float:
        """Return the processor time of the server: of its processes, and of those that have ended."""
        server = psutil.Process(self.pid)
        times = server.cpu_times()
        return times.children_user + times.children_system + sum(_used_s(each) for each in (server, *server.children()))


@contextmanager
def open_crowded_server(engine: str) -> Iterator[CrowdedServer]:
    """Start the server and fill it, and stop everything afterwards."""
    token = secrets.token_hex(8)
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
    with (
        start_reaper(token, record=scratch / "run.json", scratch=scratch),
        tempfile.TemporaryDirectory() as folder,
        ExitStack() as sessions,
    ):
        processes = Supervisor(token, scratch=scratch)
        try:
            cluster = start_cluster(
                Database(engine=engine, settings=_SETTINGS[engine]),
                scratch=scratch,
                logs=Path(folder),
                processes=processes,
                progress=lambda _: None,
            )
            endpoint = cluster.server("primary").direct
            connect = driver_of(engine).connect
            with connect(endpoint, "fixture") as admin:
                _fill(admin, engine)
            for number in range(SESSIONS):
                sessions.enter_context(connect(endpoint, f"session-{number}"))
            (server,) = processes.of_role("server")
            yield CrowdedServer(endpoint, server.record().pid, Path(folder))
        finally:
            sessions.close()
            processes.stop_all()


def _fill(admin: Any, engine: str) -> None:
    """Make the tables, each with a live row, and on PostgreSQL with a dead one, and the queue."""
    with admin.cursor() as cursor:
        if engine == "postgres":
            for first in range(0, TABLES, _TABLES_AT_ONCE):
                cursor.execute(_POSTGRES_TABLES.format(first=first, last=first + _TABLES_AT_ONCE - 1))
        else:
            for number in range(TABLES):
                cursor.execute(f"CREATE TABLE t_{number} (id int PRIMARY KEY, a text)")
                cursor.execute(f"INSERT INTO t_{number} VALUES (1, 'a')")
        for statement in _QUEUE["postgres" if engine == "postgres" else "innodb"].split(";"):
            cursor.execute(statement)


def _used_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def main() -> None:
    """Measure each engine with each set of options, and print the shares."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.observing")
    parser.add_argument("engines", nargs="*", default=["postgres", "mariadb"], metavar="ENGINE")
    parser.add_argument("--for", dest="for_s", type=float, default=FOR_S, metavar="SECONDS")
    chosen = parser.parse_args()
    for engine in chosen.engines:
        with open_crowded_server(engine) as server:
            idle = server.measure_idle(chosen.for_s)
            print(f"{engine}, {TABLES:,} tables, {SESSIONS} sessions: {idle:.2%} of a core without an observation", flush=True)
            for name, options in OPTIONS.items():
                cost = server.measure(options, chosen.for_s, idle)
                print(
                    f"  {name}: {cost.server:.2%} of a core on the server, {cost.client:.2%} beside it; "
                    f"in the first {SETTLE_S:.0f} s {cost.first_server_s:.2f} s and {cost.first_client_s:.2f} s"
                    + (f"; {cost.readings} readings" if cost.readings else ""),
                    flush=True,
                )


if __name__ == "__main__":
    main()
