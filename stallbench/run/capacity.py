"""The load of a scenario that asks for a share of what its workers can do: measured by a short run of its own, before the run proper.

Why a share: docs/decisions/0010-a-load-fits-the-machine.md.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path

from rich.console import Console

from stallbench.errors import NotCarriedOutError
from stallbench.external.addresses import ExternalServers
from stallbench.records.events import Event, read_events
from stallbench.run.folder import RunFolder
from stallbench.run.opening import open_run
from stallbench.run.run import Run
from stallbench.run.view import RunView
from stallbench.scenario.model import Scenario
from stallbench.scenario.sections import Collectors, Phase, Producers

MEASURING = "measuring"
"""What its run is called in the place of a variant; it is there for as long as it lasts, or to be looked at if it failed, and never ``latest``."""
_FAILED = "what the workers can do could not be measured"
_LOOK_S = 4.0
_WARM_UP_S = 1.0
"""Of the look: connections prepare their statements, and pages come into memory."""
_QUICKEST_JOB_S = 0.0005
_FEWEST_JOBS = 5
"""That each worker must complete after the warm-up."""
_MOST_JOBS = 50_000
_A_FEW_LINES_BYTES = 4096
_MOST_BYTES = 64 * 1024**2


def with_measured_load(
    scenario: Scenario, say: Callable[[str], None], runs: Path, external_servers: ExternalServers | None = None
) -> Scenario:
    """Return ``scenario`` with a rate: as it is if it has one, else changed as ``--set producers.rate=...`` would have.

    ``say`` is called with a sentence at a time. Raises as `measure_capacity` does.
    """
    if not scenario.producers.wants_rate:
        return scenario
    rated = scenario.with_capacity(measure_capacity(scenario, say, runs, external_servers))
    say(describe_load(scenario, rated))
    return rated


def describe_load(scenario: Scenario, rated: Scenario) -> str:
    """Return, in a sentence, what became of a scenario's share of the capacity; ``rated``: the same, with a rate."""
    return f"the load is {scenario.producers.capacity_share:.0%} of that: {', '.join(rated.changes[len(scenario.changes) :])}"


def measure_capacity(
    scenario: Scenario, say: Callable[[str], None], runs: Path, external_servers: ExternalServers | None = None
) -> float:
    """Return the jobs a second that a scenario's workers complete while the queue always has some and nothing is wrong.

    On servers like the run's own, which are gone afterwards, or on ``external_servers``. Its records are below ``runs`` meanwhile, and stay there
    if it fails. Raises `NotCarriedOutError`.
    """
    say(f"measuring what {scenario.workers.count} workers can do: {_LOOK_S:.0f} s on a full queue")
    view = _Listening()
    folder: RunFolder | None = None
    try:
        with open_run(_fill_and_look(scenario), runs, view, external_servers, is_latest=False) as run:
            folder = run.folder
            capacity = _look(run)
            said = len(view.said)
    except NotCarriedOutError as error:
        raise NotCarriedOutError(f"{_FAILED}: {error}") from error
    except KeyboardInterrupt:
        if folder:
            shutil.rmtree(folder.path)
        raise
    if owed := view.said[said:]:
        raise NotCarriedOutError(f"{_FAILED}: {'; '.join(owed)}\nits records: {folder.path}")
    shutil.rmtree(folder.path)
    say(f"they complete {capacity:,.0f} jobs/s")
    return capacity


def _look(run: Run) -> float:
    run.carry_out()
    if run.died:
        raise NotCarriedOutError(f"{', '.join(run.died)} exited unexpectedly")
    return read_capacity(run.folder, run.scenario.workers.count)


def read_capacity(folder: RunFolder, workers: int) -> float:
    """Return the completions a second of all workers together, from when they were warm until the queue was first empty.

    Each worker's rate is taken by itself: workers that begin together keep step for a while. It is over all of its time, also that in which
    it completed nothing. Raises `NotCarriedOutError` if one of them completed too few.
    """
    names = [f"worker-{number}" for number in range(1, workers + 1)]
    logs = {name: [(record.t_ns, record.event) for record in read_events(folder.events / f"{name}.csv")] for name in names}
    began_ns = min((t_ns for log in logs.values() for t_ns, _ in log), default=0)
    # Where jobs are left, a worker that found none did not find the queue empty: all were locked, or a mover had not brought them yet.
    empties = [] if _holds_jobs(folder) else [t_ns for log in logs.values() for t_ns, event in log if event == Event.EMPTY]
    empty_ns = min(empties, default=math.inf)
    ended_ns = min(empty_ns, max((t_ns for log in logs.values() for t_ns, _ in log), default=0))
    rate = 0.0
    for name, log in logs.items():
        warm = [t_ns for t_ns, event in log if event == Event.COMPLETED and began_ns + _WARM_UP_S * 1e9 <= t_ns < empty_ns]
        if len(warm) < _FEWEST_JOBS:
            until = (
                f"until {(empty_ns - began_ns) / 1e9:.1f} s, when the queue was empty"
                if empty_ns < math.inf
                else "and that was all"
            )
            raise NotCarriedOutError(
                f"{name} completed {len(warm)} jobs after its first second, {until}; expected {_FEWEST_JOBS} or more: "
                "give a rate, like --set producers.rate=10"
            )
        rate += (len(warm) - 1) * 1e9 / (ended_ns - warm[0])
    return rate


class _Listening(RunView):
    """Shows nothing, and keeps what is said."""

    def __init__(self) -> None:
        super().__init__(Console(file=StringIO()))
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


def _fill_and_look(scenario: Scenario) -> Scenario:
    """Return the scenario with more jobs than its workers can do, and nothing else."""
    payload_bytes, work_s = scenario.producers.payload_bytes, max(scenario.workers.work_s, _QUICKEST_JOB_S)
    jobs = int(_LOOK_S * scenario.workers.count / work_s) + scenario.workers.count
    return scenario.model_copy(
        update={
            "variant": MEASURING,
            "producers": Producers(
                rate=0, backlog=min(jobs, _MOST_JOBS, _MOST_BYTES // payload_bytes), payload_bytes=payload_bytes
            ),
            "phases": (Phase.model_validate({"name": "full", "duration": f"{_LOOK_S}s"}),),
            "collectors": Collectors(enabled=False),
            "external_processes": False,
            "expect": (),
        }
    )


def _holds_jobs(folder: RunFolder) -> bool:
    """Whether the queue held any job in the end."""
    if not folder.final_snapshot.exists():
        return False
    with folder.final_snapshot.open() as file:
        return len(file.readlines(_A_FEW_LINES_BYTES)) > 1
