"""``python -m benchmarks.settling [JOBS]``: measures the claim time over a backlog just after loading, and after the server has settled.

One client of each queue on a private PostgreSQL makes a hundred claims and completions before the tables are vacuumed and analysed, and a
hundred after.
"""

from __future__ import annotations

import secrets
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from stallbench.engines import driver_of
from stallbench.engines.database import Database
from stallbench.processes.reaper import SCRATCH_PREFIX, start_reaper
from stallbench.processes.supervisor import Supervisor
from stallbench.queues import NewJob, Queue
from stallbench.queues.queue_client import opened_queue
from stallbench.scenario.sections import Producers
from stallbench.servers.cluster import start_cluster

_QUEUES = ("laravel_optimistic", "postgrestue", "que", "skip_locked")
_CLAIMS = 100
_JOBS_A_CALL = 10_000


def main() -> None:
    """Measure each queue and print a line for it."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    payload = '{"filling":"' + "." * (Producers(rate=0).payload_bytes - 14) + '"}'
    print(f"{jobs:,} jobs, median of {_CLAIMS} claims by one client, ms:\n  {'queue':20} as loaded  settled")
    for kind in _QUEUES:
        token, scratch = secrets.token_hex(8), Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
        with start_reaper(token, record=scratch / "run.json", scratch=scratch), tempfile.TemporaryDirectory() as logs:
            processes = Supervisor(token, scratch=scratch)
            try:
                cluster = start_cluster(
                    Database(engine="postgres"), scratch=scratch, logs=Path(logs), processes=processes, progress=lambda _: None
                )
                with opened_queue(kind, {}, cluster.server("primary").direct, "benchmark") as queue:
                    queue.install()
                    for begin in range(0, jobs, _JOBS_A_CALL):
                        queue.load([NewJob(payload=payload)] * min(_JOBS_A_CALL, jobs - begin))
                    measure_claims(queue)  # the first ones prepare their statements and warm caches
                    loaded_ms = measure_claims(queue)
                    driver_of("postgres").vacuum_and_analyze(queue.connection, queue.tables)
                    print(f"  {kind:20} {loaded_ms:9.2f} {measure_claims(queue):8.2f}", flush=True)
            finally:
                processes.stop_all()


def measure_claims(queue: Queue[Any]) -> float:
    """Claim and complete `_CLAIMS` jobs. Returns the median claim time in milliseconds."""
    took_ms = []
    for _ in range(_CLAIMS):
        began_s = time.perf_counter()
        (claim,) = queue.claim()
        took_ms.append((time.perf_counter() - began_s) * 1000)
        queue.complete(claim)
    return statistics.median(took_ms)


if __name__ == "__main__":
    main()
