"""Runs workers of the bench at full speed and measures them."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from benchmarks.processor_time import take_snapshot
from stallbench.processes.process import Process
from stallbench.processes.supervisor import Supervisor
from stallbench.queues import find_queues
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import Event
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.records.reading import read_events, read_sample_frame
from stallbench.run.sampling.own_cost import NAME as OWN_COST
from stallbench.servers.cluster import Server

MEASURED_S = 10.0
SETTLE_S = 2.0


@dataclass(frozen=True, slots=True)
class Throughput:
    """The result of one measurement."""

    jobs_a_second: float
    claim_p50_ms: float | None = None
    """None if the clients do not record it."""
    processor_us: Mapping[str, float] = field(default_factory=dict)
    """Processor time for each job, by ``clients`` and the other groups that were measured."""
    collectors_ms: Mapping[str, float] = field(default_factory=dict)
    """Time that each collector needs for a second, by its name; empty without collectors."""


def run_workers(
    processes: Supervisor,
    count: int,
    endpoint: Endpoint,
    run: Path,
    *,
    queue: str,
    options: Mapping[str, object],
    beside: Sequence[Process] = (),
    serving: Mapping[str, Iterable[int]] = MappingProxyType({}),
) -> Throughput:
    """Measure ``count`` workers for `MEASURED_S` that claim and complete jobs without work. Stops them and the processes of ``beside`` afterwards.

    ``run``: a new folder for their events. ``serving``: pids of proxy and server, whose processor time is measured beside that of the workers.
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
    pids = {"clients": [process.record().pid for process in started[len(beside) :]], **serving}
    from_ns, before = time.time_ns(), take_snapshot(pids)
    time.sleep(MEASURED_S)
    to_ns, after = time.time_ns(), take_snapshot(pids)
    processes.stop(started, 10)
    records = [record for path in events.glob("*.csv") for record in read_events(path)]
    inside = [record for record in records if from_ns <= record.t_ns < to_ns]
    completed = sum(record.event is Event.COMPLETED for record in inside)
    claims_ms = [record.duration_ns / 1e6 for record in inside if record.event is Event.CLAIMED and record.duration_ns]
    used_s = before.until(after)
    return Throughput(
        completed / ((to_ns - from_ns) / NS_PER_S),
        statistics.median(claims_ms),
        {group: 1e6 * used / completed for group, used in used_s.items()},
        _read_cost_of_collectors(run, (from_ns, to_ns)),
    )


def start_collectors(processes: Supervisor, server: Server, run: Path, queue: str, only: Sequence[str] = ()) -> Process:
    """Start the collectors on a server, once a second: those of ``only``, or all. ``run``: a new folder, for their samples."""
    (run / "samples").mkdir(parents=True)
    kind = find_queues()[queue]
    endpoint = server.direct.with_password()
    document = {
        "name": "collectors",
        "run_folder": str(run),
        "interval_s": 1.0,
        "servers": [{"name": "primary", "role": "primary", "endpoint": endpoint, "log": str(server.log)}],
        "queue": {
            "kind": queue,
            "options": {},
            "tables": kind.tables,
            "indexes": kind.indexes,
            "claim_pattern": kind.claim_pattern,
        },
        "only": list(only),
    }
    argv = [sys.executable, "-m", "stallbench.run.sampling"]
    return processes.start("collectors", "collectors", argv, log=run / "log", document=document, ready=True)


def _read_cost_of_collectors(run: Path, between_ns: tuple[int, int]) -> dict[str, float]:
    """Return how many milliseconds each collector needed for a second."""
    table = read_sample_frame(run / "samples" / f"{OWN_COST}.csv")
    inside = table[(table["metric"] == "sample_ms") & table["t_ns"].between(*between_ns)]
    total_ms = inside.groupby("subject")["number"].sum() / ((between_ns[1] - between_ns[0]) / NS_PER_S)
    return {str(name): float(value) for name, value in total_ms.sort_values(ascending=False).items()}
