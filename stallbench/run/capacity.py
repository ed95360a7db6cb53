"""Measures the capacity of a scenario's workers in a short run before it, if the scenario's load is a share of that capacity.

docs/decisions/0010-a-load-fits-the-machine.md explains why the load is a share.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path

from stallbench.console import VisibleConsole
from stallbench.errors import NotCarriedOutError
from stallbench.queues import find_queue
from stallbench.records.events import Event
from stallbench.records.layouts import EVENTS
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.records.reading import read_table
from stallbench.run.folder import RunFolder
from stallbench.run.opening import open_run
from stallbench.run.run import Run
from stallbench.run.view import RunView
from stallbench.scenario.model import Scenario
from stallbench.scenario.sections import Bystander, Collectors, Phase, Producers
from stallbench.servers.addresses import ExternalServers

MEASURING = "measuring"
"""The name of the measurement, used instead of a variant's. Its run folder is removed afterwards, unless it failed, and is never ``latest``."""
_FAILED = "what the workers can do could not be measured"
_MEASURED_S = 4.0
_MEASURED_FROM_START_S = 12.0
"""The same for workers of a library's own: some need seconds from their start until they claim."""
_WARM_UP_S = 1.0
"""The part of the measurement that does not count: connections prepare statements, and pages are read into memory."""
_QUICKEST_JOB_S = 0.0005
"""Assumed time of a job that does no work."""
_FEWEST_JOBS = 5
"""Jobs that each worker must complete after the warm-up."""
_MOST_JOBS = 50_000
"""Upper bound of the jobs that the queue is filled with; `_MOST_BYTES` is that of their payloads."""
_A_FEW_LINES_BYTES = 4096
_MOST_BYTES = 64 * 1024**2
_MOST_REPEATS = 2
_SPARE = 1.5
"""How many times the jobs of `_MEASURED_S` a repeated measurement has, because the second half of a backlog is often executed more quickly."""


def with_measured_load(
    scenario: Scenario, say: Callable[[str], None], runs: Path, external_servers: ExternalServers | None = None
) -> Scenario:
    """Return ``scenario`` with a rate: unchanged if it has one, else changed as by ``--set producers.rate=...``.

    ``say`` takes messages for the screen. Raises `NotCarriedOutError` as `measure_capacity` does.
    """
    if not scenario.producers.wants_rate:
        return scenario
    rated = scenario.with_capacity(measure_capacity(scenario, say, runs, external_servers))
    say(describe_load(scenario, rated))
    return rated


def describe_load(scenario: Scenario, rated: Scenario) -> str:
    """Return a sentence about the load that a share of the capacity results in. ``rated``: the same scenario, with a rate."""
    return f"the load is {scenario.producers.capacity_share:.0%} of that: {', '.join(rated.changes[len(scenario.changes) :])}"


def measure_capacity(
    scenario: Scenario, say: Callable[[str], None], runs: Path, external_servers: ExternalServers | None = None
) -> float:
    """Return the jobs per second that a scenario's workers complete while the queue always has jobs and no fault is active.

    Uses servers like those of the run, which are stopped afterwards, or ``external_servers``. The records are kept below ``runs`` during the
    measurement, and afterwards only if it fails. Raises `NotCarriedOutError`.
    """
    # The measurement shows nothing on the screen, but an installation may take minutes and is not a part of it.
    find_queue(scenario.queue.kind).require_programs(say)
    say(f"measuring what {scenario.workers.count} workers can do: {count_measured_s(scenario):.0f} s on a full queue")
    jobs = count_jobs_at_first(scenario)
    for repeats_left in range(_MOST_REPEATS, -1, -1):
        lasted_s, capacity = _measure_with(jobs, scenario, runs, external_servers, may_be_too_short=repeats_left > 0)
        if capacity is not None:
            say(f"they complete {capacity:,.0f} jobs/s")
            return capacity
        more = find_larger_backlog(jobs, lasted_s, _most_jobs(scenario))
        say(f"the queue was empty after {lasted_s:.1f} s; measuring again with {more:,} jobs instead of {jobs:,}")
        jobs = more
    raise AssertionError("the last measurement returns or raises")


def _measure_with(
    jobs: int, scenario: Scenario, runs: Path, external_servers: ExternalServers | None, *, may_be_too_short: bool
) -> tuple[float, float | None]:
    """Measure with a backlog of ``jobs``; return how long the queue had jobs (s), and the capacity.

    The capacity is none if the queue was empty too early and may be filled with more jobs, and if ``may_be_too_short``.
    """
    view = _CapturedView()
    folder: RunFolder | None = None
    try:
        with open_run(_make_measuring_scenario(scenario, jobs), runs, view, external_servers, is_latest=False) as run:
            folder = run.folder
            _carry_out(run)
            lasted_s = find_backlog_s(folder)
            is_too_short = may_be_too_short and lasted_s < _MEASURED_S and jobs < _most_jobs(scenario)
            capacity = None if is_too_short else read_capacity(folder, scenario.workers.count)
            before_end = len(view.messages)
    except NotCarriedOutError as error:
        raise NotCarriedOutError(f"{_FAILED}: {error}") from error
    except KeyboardInterrupt:
        if folder:
            shutil.rmtree(folder.path)
        raise
    if problems := view.messages[before_end:]:
        raise NotCarriedOutError(f"{_FAILED}: {'; '.join(problems)}\nits records: {folder.path}")
    shutil.rmtree(folder.path)
    return lasted_s, capacity


def _carry_out(run: Run) -> None:
    run.carry_out()
    if run.unexpected_exits:
        raise NotCarriedOutError(f"{', '.join(run.unexpected_exits)} exited unexpectedly")


def find_backlog_s(folder: RunFolder) -> float:
    """Return from the first event of a worker until a worker first found the queue empty, or the last job was completed; infinite if jobs are left."""
    if _holds_jobs(folder):
        return math.inf
    records = [record for path in folder.events.glob("worker-*.csv") for record in _read_times(path)]
    began_ns = min((t_ns for t_ns, _ in records), default=0)
    last_ns = max((t_ns for t_ns, _ in records), default=0)
    return (min((t_ns for t_ns, event in records if event == Event.EMPTY), default=last_ns) - began_ns) / NS_PER_S


def find_larger_backlog(jobs: int, lasted_s: float, most: int) -> int:
    """Return how many jobs last for the measurement and its warm-up, by how long ``jobs`` lasted; at most ``most``, at least twice as many."""
    wanted = _SPARE * jobs * (_WARM_UP_S + _MEASURED_S) / max(lasted_s, 0.1)
    return min(most, max(2 * jobs, int(wanted)))


def read_capacity(folder: RunFolder, workers: int) -> float:
    """Return the completions per second of all workers together, from the end of the warm-up until the queue was first empty.

    The rate is computed for each worker separately, because workers that start together complete jobs at the same moments for a while. It
    includes the time in which a worker completed nothing. Raises `NotCarriedOutError` if a worker completed too few jobs.
    """
    names = [f"worker-{number}" for number in range(1, workers + 1)]
    logs = {name: _read_times(folder.events / f"{name}.csv") for name in names}
    began_ns = min((t_ns for log in logs.values() for t_ns, _ in log), default=0)
    # If jobs are left at the end, a worker that found none did not find an empty queue: all jobs were locked, or not yet available.
    empties = [] if _holds_jobs(folder) else [t_ns for log in logs.values() for t_ns, event in log if event == Event.EMPTY]
    empty_ns = min(empties, default=math.inf)
    ended_ns = min(empty_ns, max((t_ns for log in logs.values() for t_ns, _ in log), default=0))
    rate = 0.0
    for name, log in logs.items():
        warm = [t_ns for t_ns, event in log if event == Event.COMPLETED and began_ns + _WARM_UP_S * NS_PER_S <= t_ns < empty_ns]
        if len(warm) < _FEWEST_JOBS:
            until = f", until the queue was empty at {(empty_ns - began_ns) / NS_PER_S:.1f} s" if empty_ns < math.inf else ""
            raise NotCarriedOutError(
                f"{name} completed {len(warm)} jobs after its first second{until}; expected {_FEWEST_JOBS} or more: "
                "give a rate, like --set producers.rate=10"
            )
        rate += (len(warm) - 1) * NS_PER_S / (ended_ns - warm[0])
    return rate


def _read_times(log: Path) -> list[tuple[int, str]]:
    """Return the time and the event of each record of a log."""
    records = read_table(log, EVENTS)
    return list(zip(records["t_ns"].to_pylist(), records["event"].to_pylist(), strict=True))


def count_measured_s(scenario: Scenario) -> float:
    """Return how long the workers are measured, without the start of the servers."""
    return _MEASURED_S if find_queue(scenario.queue.kind).worker_command() is None else _MEASURED_FROM_START_S


class _CapturedView(RunView):
    """Shows nothing, and keeps the messages."""

    def __init__(self) -> None:
        super().__init__(VisibleConsole(file=StringIO()))
        self.messages: list[str] = []

    def say(self, sentence: str) -> None:
        self.messages.append(sentence)


def count_jobs_at_first(scenario: Scenario) -> int:
    """Return with how many jobs a first measurement fills the queue: enough for workers that execute one job after the other."""
    work_s = max(scenario.workers.work_s, _QUICKEST_JOB_S)
    return min(_most_jobs(scenario), int(_MEASURED_S * scenario.workers.count / work_s) + scenario.workers.count)


def _most_jobs(scenario: Scenario) -> int:
    return min(_MOST_JOBS, _MOST_BYTES // scenario.producers.payload_bytes)


def _make_measuring_scenario(scenario: Scenario, jobs: int) -> Scenario:
    """Return the scenario of a measurement with a backlog of ``jobs``, and with no fault, collector, bystander or expectation."""
    return scenario.model_copy(
        update={
            "variant": MEASURING,
            "producers": Producers(rate=0, backlog=jobs, payload_bytes=scenario.producers.payload_bytes),
            "phases": (Phase.model_validate({"name": "full", "duration": f"{count_measured_s(scenario)}s"}),),
            "collectors": Collectors(enabled=False),
            "bystander": Bystander(enabled=False),
            "external_processes": False,
            "expect": (),
        }
    )


def _holds_jobs(folder: RunFolder) -> bool:
    """Whether the queue held any job at the end."""
    if not folder.final_snapshot.exists():
        return False
    with folder.final_snapshot.open() as file:
        return len(file.readlines(_A_FEW_LINES_BYTES)) > 1
