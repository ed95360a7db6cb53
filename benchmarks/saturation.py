"""Measures the maximum throughput of a queue: a table full of jobs, workers that only claim and complete, Toxiproxy as in a run."""

from __future__ import annotations

import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.workers import MEASURED_S, Throughput, run_workers
from stallbench.engines.postgres import connect
from stallbench.processes.reaper import SCRATCH_PREFIX, start_reaper
from stallbench.processes.supervisor import Supervisor
from stallbench.queues import find_queues
from stallbench.scenario.database import Database
from stallbench.servers.cluster import Cluster, start_cluster
from stallbench.setup.components import require_postgres

CLIENTS = 8
_JOBS = 150_000
_QUEUE = "skip_locked"
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

    def run_workers(self, *, collectors: bool) -> Throughput:
        """Run `CLIENTS` workers of the bench for `MEASURED_S`, with or without its collectors."""
        self.fill()
        run = self.folder / secrets.token_hex(4)
        for part in ("events", "samples"):
            (run / part).mkdir(parents=True)
        primary = self.cluster.server("primary")
        started = []
        if collectors:
            queue = find_queues()[_QUEUE]
            document = {
                "name": "collectors",
                "run_folder": str(run),
                "interval_s": 1.0,
                "servers": [
                    {"name": "primary", "role": "primary", "endpoint": primary.direct.with_password(), "log": str(primary.log)}
                ],
                "queue": {"kind": _QUEUE, "options": {}, "tables": queue.tables, "indexes": queue.indexes},
            }
            argv = [sys.executable, "-m", "stallbench.collectors"]
            started.append(self.processes.start("collectors", "collectors", argv, log=run / "log", document=document, ready=True))
        return run_workers(self.processes, CLIENTS, primary.proxied, run, queue=_QUEUE, options={}, beside=started)

    def run_pgbench(self) -> float:
        """Run the same statements by pgbench, with as many clients. Returns jobs per second."""
        self.fill()
        script = self.folder / "pgbench.sql"
        script.write_text(_PGBENCH_SCRIPT)
        endpoint = self.cluster.server("primary").proxied
        ended = subprocess.run(
            [
                str(require_postgres().require("pgbench", "the benchmark")),
                *("--host", endpoint.host, "--port", str(endpoint.port), "--username", endpoint.user, endpoint.database),
                *("--no-vacuum", "--protocol", "prepared", "--client", str(CLIENTS), "--jobs", "2"),
                *("--time", str(int(MEASURED_S)), "--file", str(script)),
            ],
            env={"PGPASSWORD": endpoint.password.get_secret_value(), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        match = re.search(r"tps = ([\d.]+)", ended.stdout)
        assert match is not None, ended.stdout
        return float(match[1])


@contextmanager
def open_rig() -> Iterator[Rig]:
    """Start a server with the queue installed, and stop everything afterwards."""
    token = secrets.token_hex(8)
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
    with start_reaper(token, record=scratch / "run.json", scratch=scratch), tempfile.TemporaryDirectory() as folder:
        processes = Supervisor(token)
        try:
            logs = Path(folder)
            cluster = start_cluster(Database(), scratch=scratch, logs=logs, processes=processes, progress=lambda _: None)
            queue = find_queues()[_QUEUE]
            with connect(cluster.server("primary").direct, "benchmark") as connection:
                queue(connection, queue.options_type()).install()
            yield Rig(cluster, processes, logs)
        finally:
            processes.stop_all()
