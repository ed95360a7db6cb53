"""``python -m benchmarks.loading [JOBS] [QUEUE@ENGINE ..]``: measures how long a run takes to load a backlog.

The jobs are loaded by a producer, through Toxiproxy. The time includes the start of the producer and the record of each job. Measures every
queue on every engine that this machine has, each on a new server.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from stallbench.engines import ENGINES
from stallbench.engines.database import Database
from stallbench.processes.reaper import SCRATCH_PREFIX, start_reaper
from stallbench.processes.supervisor import Supervisor
from stallbench.queues import find_queue, find_queues
from stallbench.queues.queue_client import opened_queue
from stallbench.scenario.sections import Producers
from stallbench.servers.cluster import start_cluster
from stallbench.setup.components import MissingComponentError

_LONGEST_S = 600.0


def main() -> None:
    """Load each queue and print a line for it."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    chosen = sys.argv[2:] or list(_every_queue())
    print(f"{jobs:,} jobs of {Producers(rate=0).payload_bytes} bytes, through Toxiproxy:")
    for kind, engine in (name.split("@") for name in chosen):
        try:
            took_s = load(kind, engine, jobs)  # type: ignore[arg-type] # the model rejects a wrong engine
        except MissingComponentError as error:
            print(f"  {kind} on {engine}: not run: {error}")
            continue
        print(f"  {kind} on {engine}: {took_s:.1f} s, {jobs / took_s:,.0f} jobs/s", flush=True)


def load(kind: str, engine: str, jobs: int) -> float:
    """Start a server, install the queue, and load it. Returns the seconds from the start of the producer until it is ready."""
    token, scratch = secrets.token_hex(8), Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
    with start_reaper(token, record=scratch / "run.json", scratch=scratch), tempfile.TemporaryDirectory() as logs:
        processes = Supervisor(token, scratch=scratch)
        try:
            cluster = start_cluster(
                Database(engine=engine),
                scratch=scratch,
                logs=Path(logs),
                processes=processes,
                progress=lambda _: None,
                second_engine=find_queue(kind).second_engine,
            )
            primary = cluster.server("primary")
            with opened_queue(kind, {}, primary.direct, "benchmark") as queue:
                queue.install()
            document = {
                "name": "backlog",
                "endpoint": primary.proxied.with_password(),
                "queue": kind,
                "events": f"{logs}/backlog.csv",
                "rate": 0,
                "backlog": jobs,
            }
            began_s = time.monotonic()
            argv = [sys.executable, "-m", "producers"]
            producer = processes.start("backlog", "producer", argv, log=Path(logs) / "backlog.log", document=document, ready=True)
            producer.wait_ready(_LONGEST_S)
            took_s = time.monotonic() - began_s
            with Path(logs, "backlog.csv").open("rb") as events:
                recorded = sum(1 for _ in events)
            if recorded != jobs:
                raise SystemExit(f"{kind} on {engine}: {recorded} events instead of {jobs}")
            return took_s
        finally:
            processes.stop_all()


def _every_queue() -> Iterator[str]:
    for engine in ENGINES:
        yield from (f"{kind}@{engine}" for kind, queue in find_queues().items() if engine in queue.engines)


if __name__ == "__main__":
    main()
