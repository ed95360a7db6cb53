"""Measures the maximum throughput of a queue: a table full of jobs, workers that only claim and complete, Toxiproxy as in a run."""

from __future__ import annotations

import re
import secrets
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from benchmarks.processor_time import take_snapshot
from benchmarks.workers import MEASURED_S, SETTLE_S, Throughput, run_workers, start_collectors
from stallbench.base.section import SettingValue
from stallbench.engines.database import Database
from stallbench.engines.postgres.driver import connect
from stallbench.processes.reaper import SCRATCH_PREFIX, start_reaper
from stallbench.processes.supervisor import Supervisor
from stallbench.queues import find_queues
from stallbench.servers.cluster import Cluster, start_cluster
from stallbench.setup.components import require_postgres

CLIENTS = 8
_JOBS = 150_000
_QUEUE = "skip_locked"
_MARGIN_S = 2
"""pgbench ends after the measurement, as workers do."""
_PROGRESS = re.compile(r"progress: [\d.]+ s, ([\d.]+) tps")
_PGBENCH_SCRIPT = """BEGIN;
SELECT job_id, attempts, payload FROM skip_locked_jobs WHERE run_at <= now() ORDER BY job_id LIMIT 1 FOR UPDATE SKIP LOCKED
\\gset
DELETE FROM skip_locked_jobs WHERE job_id = :job_id;
COMMIT;
"""


@dataclass(frozen=True, slots=True)
class Rig:
    """A server with an installed queue."""

    cluster: Cluster
    processes: Supervisor
    folder: Path

    def fill(self) -> None:
        """Leave exactly `_JOBS` jobs and no dead row in the table."""
        with connect(self.cluster.server("primary").direct, "benchmark") as connection:
            connection.execute("TRUNCATE skip_locked_jobs")
            connection.execute("INSERT INTO skip_locked_jobs (payload) SELECT '{\"n\":1}' FROM generate_series(1, %s)", (_JOBS,))
            connection.execute("VACUUM ANALYZE skip_locked_jobs")
            connection.execute("CHECKPOINT")

    def run_workers(self, *, collectors: bool, only: Sequence[str] = ()) -> Throughput:
        """Run `CLIENTS` workers of the bench for `MEASURED_S`, with or without its collectors; ``only`` names some of them."""
        self.fill()
        run, primary = self.folder / secrets.token_hex(4), self.cluster.server("primary")
        beside = [start_collectors(self.processes, primary, run, _QUEUE, only)] if collectors else []
        return run_workers(
            self.processes, CLIENTS, primary.proxied, run, queue=_QUEUE, options={}, beside=beside, serving=self._serving()
        )

    def run_pgbench(self, *, processes: int) -> Throughput:
        """Run the same statements by pgbench for `MEASURED_S`, with `CLIENTS` clients in so many ``processes``, each with one thread for each client
        or, if it is the only one, with two.
        """
        self.fill()
        script = self.folder / "pgbench.sql"
        script.write_text(_PGBENCH_SCRIPT)
        endpoint = self.cluster.server("primary").proxied
        clients = CLIENTS // processes
        command = [
            str(require_postgres().require("pgbench", "the benchmark")),
            *("--host", endpoint.host, "--port", str(endpoint.port), "--username", endpoint.user, endpoint.database),
            *("--no-vacuum", "--protocol", "prepared", "--client", str(clients), "--jobs", str(min(clients, 2))),
            *("--time", str(int(SETTLE_S + MEASURED_S + _MARGIN_S)), "--file", str(script), "--progress", "1"),
        ]
        environment = {"PGPASSWORD": endpoint.password.get_secret_value(), "PATH": "/usr/bin:/bin"}
        started = [
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(processes)
        ]
        pids = {"clients": [process.pid for process in started], **self._serving()}
        time.sleep(SETTLE_S)
        before = take_snapshot(pids)
        time.sleep(MEASURED_S)
        used_s = before.until(take_snapshot(pids))
        ended = [process.communicate() for process in started]
        # One figure a second, as the seconds that count are those in which the bench's workers are measured too.
        inside = slice(int(SETTLE_S), int(SETTLE_S + MEASURED_S))
        rates = [statistics.mean(float(rate) for rate in _PROGRESS.findall(said)[inside]) for _, said in ended]
        rate = sum(rates)
        return Throughput(rate, processor_us={group: 1e6 * used / (rate * MEASURED_S) for group, used in used_s.items()})

    def _serving(self) -> dict[str, list[int]]:
        return {role: [process.record().pid for process in self.processes.of_role(role)] for role in ("toxiproxy", "server")}


@contextmanager
def open_rig(settings: Mapping[str, SettingValue] = MappingProxyType({})) -> Iterator[Rig]:
    """Start a server with the queue installed, and stop everything afterwards. ``settings``: those that differ from a run's server."""
    token = secrets.token_hex(8)
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
    with start_reaper(token, record=scratch / "run.json", scratch=scratch), tempfile.TemporaryDirectory() as folder:
        processes = Supervisor(token, scratch=scratch)
        try:
            logs = Path(folder)
            cluster = start_cluster(
                Database(settings=dict(settings)), scratch=scratch, logs=logs, processes=processes, progress=lambda _: None
            )
            queue = find_queues()[_QUEUE]
            with connect(cluster.server("primary").direct, "benchmark") as connection:
                queue(connection, queue.options_type()).install()
            yield Rig(cluster, processes, logs)
        finally:
            processes.stop_all()
