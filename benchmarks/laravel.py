"""``python -m benchmarks.laravel [ROUNDS]``: compares the bench with sysbench on Laravel's queue on MariaDB, in interleaved rounds.

Both claim by the primary key, so that no deadlock disturbs the comparison, and both connect through Toxiproxy. sysbench is Debian's
package, unpacked into the project's cache.
"""

from __future__ import annotations

import os
import re
import secrets
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from benchmarks.workers import MEASURED_S, SETTLE_S, Throughput, run_workers, start_collectors
from stallbench.base.section import SettingValue
from stallbench.engines.database import Database
from stallbench.processes.reaper import SCRATCH_PREFIX, start_reaper
from stallbench.processes.supervisor import Supervisor
from stallbench.queues import NewJob
from stallbench.queues.queue_client import opened_queue
from stallbench.servers.cluster import Cluster, start_cluster
from stallbench.setup.packages import CACHE, unpack_debian

CLIENTS = 10
_JOBS = 30_000
_QUEUE = "laravel"
_OPTIONS: dict[str, object] = {"hint": "primary", "retry_after": 90}
_SCRIPT = Path(__file__).with_name("laravel.lua")


@dataclass(frozen=True, slots=True)
class LaravelRig:
    """A MariaDB server with the queue installed."""

    cluster: Cluster
    processes: Supervisor
    folder: Path

    def fill(self) -> None:
        """Leave exactly `_JOBS` jobs in a fresh table."""
        with opened_queue(_QUEUE, _OPTIONS, self.cluster.server("primary").direct, "benchmark") as queue:
            with queue.connection.cursor() as cursor:
                cursor.execute("DROP TABLE IF EXISTS jobs")
            queue.install()
            for _ in range(0, _JOBS, 1000):
                queue.enqueue([NewJob(payload='{"n":1}')] * 1000)

    def run_workers(self, *, only: Sequence[str] = ()) -> Throughput:
        """Run `CLIENTS` workers of the bench for `MEASURED_S`, beside the collectors whose names are in ``only``."""
        self.fill()
        primary, run = self.cluster.server("primary"), self.folder / secrets.token_hex(4)
        beside = [start_collectors(self.processes, primary, run, _QUEUE, only)] if only else []
        return run_workers(self.processes, CLIENTS, primary.proxied, run, queue=_QUEUE, options=_OPTIONS, beside=beside)

    def run_sysbench(self) -> float:
        """Run the same statements by sysbench, with as many threads. Returns jobs per second."""
        self.fill()
        endpoint = self.cluster.server("primary").proxied
        root = CACHE / "sysbench"
        libraries = ":".join(str(folder) for folder in sorted(root.glob("**/lib/*-linux-gnu")))
        ended = subprocess.run(
            [
                str(root / "usr" / "bin" / "sysbench"),
                str(_SCRIPT),
                *("--db-driver=mysql", f"--mysql-host={endpoint.host}", f"--mysql-port={endpoint.port}"),
                *("--mysql-user=sysbench", f"--mysql-password={endpoint.password.get_secret_value()}"),
                *(f"--mysql-db={endpoint.database}", f"--threads={CLIENTS}", f"--warmup-time={SETTLE_S:.0f}"),
                *(f"--time={MEASURED_S:.0f}", "run"),
            ],
            env={**os.environ, "LD_LIBRARY_PATH": libraries},
            capture_output=True,
            text=True,
            check=False,
        )
        match = re.search(r"total number of events:\s+(\d+)", ended.stdout)
        assert match is not None, ended.stdout + ended.stderr
        return int(match[1]) / MEASURED_S


@contextmanager
def open_laravel_rig(settings: Mapping[str, SettingValue] = MappingProxyType({})) -> Iterator[LaravelRig]:
    """Start a MariaDB server, and stop everything afterwards. ``settings``: those that differ from a run's server."""
    token = secrets.token_hex(8)
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
    with start_reaper(token, record=scratch / "run.json", scratch=scratch), tempfile.TemporaryDirectory() as folder:
        processes = Supervisor(token, scratch=scratch)
        try:
            logs = Path(folder)
            database = Database(engine="mariadb", settings=dict(settings))
            cluster = start_cluster(database, scratch=scratch, logs=logs, processes=processes, progress=lambda _: None)
            yield LaravelRig(cluster, processes, logs)
        finally:
            processes.stop_all()


def main() -> None:
    """Measure in interleaved rounds and print the ratio with its spread."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    if not (CACHE / "sysbench" / "usr" / "bin" / "sysbench").exists():
        unpack_debian("sysbench", "sysbench")
    ratios = []
    with open_laravel_rig() as rig:
        for number in range(1, rounds + 1):
            bench, native = rig.run_workers().jobs_a_second, rig.run_sysbench()
            ratios.append(bench / native)
            print(f"round {number}: bench {bench:,.0f} jobs/s, sysbench {native:,.0f}", flush=True)
    print(
        f"\n{CLIENTS} clients, {MEASURED_S:.0f} s each, {rounds} rounds, through Toxiproxy:\n"
        f"  throughput, bench to sysbench: median {statistics.median(ratios):.3f} (from {min(ratios):.3f} to {max(ratios):.3f})"
    )


if __name__ == "__main__":
    main()
