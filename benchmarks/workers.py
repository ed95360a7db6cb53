"""Runs workers of the bench at full speed and measures them."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stallbench.processes.process import Process
from stallbench.processes.supervisor import Supervisor
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event, read_events

MEASURED_S = 10.0
SETTLE_S = 2.0


@dataclass(frozen=True, slots=True)
class Throughput:
    """The result of one measurement."""

    jobs_a_second: float
    claim_p50_ms: float


def run_workers(
    processes: Supervisor,
    count: int,
    endpoint: Endpoint,
    run: Path,
    *,
    queue: str,
    options: Mapping[str, object],
    beside: Sequence[Process] = (),
) -> Throughput:
    """Measure ``count`` workers for `MEASURED_S` that claim and complete jobs without work. Stops them and the processes of ``beside`` afterwards.

    ``run``: a new folder for their events.
    """
    events = run / "events"
    events.mkdir(parents=True, exist_ok=True)
    started = list(beside)
    for number in range(count):
        name = f"worker-{number}"
        document = {
            "name": name,
            "endpoint": endpoint.with_password(),
            "queue": queue,
            "queue_options": dict(options),
            "events": str(events / f"{name}.csv"),
            "work_s": 0,
        }
        argv = [sys.executable, "-m", "workers"]
        started.append(processes.start(name, "worker", argv, log=run / "log", document=document, ready=True))
    for process in started:
        process.wait_ready(30)
    time.sleep(SETTLE_S)
    from_ns = time.time_ns()
    time.sleep(MEASURED_S)
    to_ns = time.time_ns()
    processes.stop(started, 10)
    records = [record for path in events.glob("*.csv") for record in read_events(path)]
    inside = [record for record in records if from_ns <= record.t_ns < to_ns]
    completed = sum(record.event is Event.COMPLETED for record in inside)
    claims_ms = [record.duration_ns / 1e6 for record in inside if record.event is Event.CLAIMED and record.duration_ns]
    return Throughput(completed / MEASURED_S, statistics.median(claims_ms))
