"""What a run cost for each job, and what a larger load would need: ``python -m benchmarks.sizing RUN [--jobs-per-s 50000] [--workers 1000]``.

RUN is the folder of a run that the bench has made on its own servers, such as `stallbench run baseline`. Processor time is that of the run's
processes as its collectors sampled it, so a figure for a role holds for the machine of the run.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from stallbench.errors import BadInputError
from stallbench.records.events import Event
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.records.reading import read_events, read_samples
from stallbench.run.record import read_record


@dataclass(frozen=True, slots=True)
class RoleCost:
    """What the processes of one role cost."""

    processes: int
    cpu_ms_per_job: float
    """For each enqueued job of a producer, and for each completed job of any other role."""
    memory_bytes: float
    """Private memory of one process."""


@dataclass(frozen=True, slots=True)
class RunCost:
    """What a run cost."""

    jobs_per_s: float
    events_per_job: float
    record_bytes_per_job: float
    roles: dict[str, RoleCost]


def read_cost(run: Path) -> RunCost:
    """Return what the measured phases of the run in ``run`` cost for each completed job; raises `BadInputError` for a run that does not show it."""
    if not (run / "run.json").is_file():
        raise BadInputError(f"{run}: expected the folder of a run; it has no run.json")
    record = read_record(run / "run.json")
    phases = [phase for phase in record.phases if phase.measured and phase.start_ns and phase.end_ns]
    if not phases:
        raise BadInputError(f"{run}: no measured phase has ended")
    start_ns, end_ns = phases[0].start_ns or 0, phases[-1].end_ns or 0
    logs = sorted((run / "events").glob("*.csv"))
    duration_s = (end_ns - start_ns) / NS_PER_S
    in_all: Counter[Event] = Counter()
    in_phases: Counter[Event] = Counter()
    for log in logs:
        for event in read_events(log):
            in_all[event.event] += 1
            in_phases[event.event] += start_ns <= event.t_ns < end_ns
    if not in_phases[Event.COMPLETED] or not in_phases[Event.ENQUEUED]:
        raise BadInputError(
            f"{run}: expected a run that enqueues and completes jobs in its measured phases, like `stallbench run baseline`"
        )
    jobs = in_all[Event.COMPLETED]
    jobs_per_s = in_phases[Event.COMPLETED] / duration_s
    roles = {process.name: process.role for process in record.processes}
    found: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for sample in read_samples(run / "samples" / "host.csv"):
        name = sample.subject.removeprefix("process:")
        if name in roles and start_ns <= sample.t_ns < end_ns and sample.metric in ("cpu_percent", "private_bytes"):
            found[roles[name]][name][sample.metric].append(float(sample.value))
    return RunCost(
        jobs_per_s,
        in_all.total() / jobs,
        sum(log.stat().st_size for log in logs) / jobs,
        {
            role: _cost_of(of_role, in_phases[Event.ENQUEUED] / duration_s if role == "producer" else jobs_per_s)
            for role, of_role in found.items()
        },
    )


def _cost_of(processes: dict[str, dict[str, list[float]]], jobs_per_s: float) -> RoleCost:
    cpu_percent = sum(_mean(metrics["cpu_percent"]) for metrics in processes.values())
    memory_bytes = _mean([_mean(metrics["private_bytes"]) for metrics in processes.values()])
    return RoleCost(len(processes), cpu_percent * 10 / jobs_per_s, memory_bytes)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def main() -> None:
    """Print a table of the roles, then what the larger load needs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizing")
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("--jobs-per-s", type=int, default=50_000)
    parser.add_argument("--workers", type=int, default=1000)
    options = parser.parse_args()
    try:
        cost = read_cost(options.run)
    except BadInputError as error:
        parser.error(str(error))
    print(f"measured at {cost.jobs_per_s:,.0f} jobs/s; needed for {options.jobs_per_s:,} jobs/s by {options.workers:,} workers")
    print("| role | processes | CPU ms per job | private MB per process | cores needed |\n|---|---|---|---|---|")
    for role, of_role in cost.roles.items():
        cores = of_role.cpu_ms_per_job * options.jobs_per_s / 1000
        print(f"| {role} | {of_role.processes} | {of_role.cpu_ms_per_job:.2f} | {of_role.memory_bytes / 1e6:.0f} | {cores:.0f} |")
    if "worker" in cost.roles:
        print(f"memory of the workers: {cost.roles['worker'].memory_bytes * options.workers / 1e9:.0f} GB")
    record_mb_per_s = cost.record_bytes_per_job * options.jobs_per_s / 1e6
    print(
        f"records: {cost.record_bytes_per_job:.0f} bytes and {cost.events_per_job:.2f} events per job: {record_mb_per_s:.1f} MB/s, "
        f"{cost.events_per_job * options.jobs_per_s:,.0f} events/s"
    )


if __name__ == "__main__":
    main()
