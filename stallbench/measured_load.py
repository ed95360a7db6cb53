"""The rate of a scenario that asks for a share of what its workers can do: measured by a short run of its own, before the run proper.

Why a share: docs/decisions/0010-a-load-fits-the-machine.md.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable
from io import StringIO
from pathlib import Path

from rich.console import Console

from stallbench.errors import NotCarriedOutError
from stallbench.joined import JoinedServers
from stallbench.records.events import EVENT_COLUMNS, Event
from stallbench.run import open_run
from stallbench.run_folder import RunFolder
from stallbench.scenario import Collectors, Phase, Producers, Scenario
from stallbench.terminal import RunView

_LOOK_S = 4.0
_WARM_UP_S = 1.0
"""Of the look: connections prepare their statements, and pages come into memory."""
_QUICKEST_JOB_S = 0.0005
_FEWEST_JOBS = 20


def with_measured_load(scenario: Scenario, say: Callable[[str], None], joined: JoinedServers | None = None) -> Scenario:
    """Return ``scenario`` with a rate: as it is if it has one, else changed as ``--set producers.rate=...`` would have.

    ``say`` is called with a sentence at a time. Raises `NotCarriedOutError` if the capacity could not be measured.
    """
    share = scenario.producers.capacity_share
    if not scenario.producers.wants_rate or share is None:
        return scenario
    say(f"measuring what {scenario.workers.count} workers can do, by {_LOOK_S:.0f} s on a queue that is full")
    capacity = measure_capacity(scenario, joined)
    rated = scenario.with_rate(share * capacity)
    say(f"they complete {capacity:,.0f} jobs/s; {share:.0%} of that is the load ({rated.changes[-1]})")
    return rated


def measure_capacity(scenario: Scenario, joined: JoinedServers | None = None) -> float:
    """Return the jobs a second that a scenario's workers complete while the queue always has some and nothing is wrong.

    On servers like the run's own, which are gone afterwards, or on ``joined``. Raises `NotCarriedOutError`.
    """
    try:
        with open_run(_fill_and_look(scenario), None, RunView(Console(file=StringIO())), joined) as run:
            run.carry_out()
            return _read_rate(run.folder, scenario)
    except NotCarriedOutError as error:
        raise NotCarriedOutError(f"what the workers can do could not be measured: {error.__cause__ or error}") from error


def _fill_and_look(scenario: Scenario) -> Scenario:
    """Return the scenario with more jobs than its workers can do, and nothing else."""
    work_s = max(scenario.workers.work_s, _QUICKEST_JOB_S)
    jobs = int(_LOOK_S * scenario.workers.count / work_s) + scenario.workers.count
    return scenario.model_copy(
        update={
            "producers": Producers(rate=0, backlog=jobs, payload_bytes=scenario.producers.payload_bytes),
            "phases": (Phase.model_validate({"name": "full", "duration": f"{_LOOK_S}s"}),),
            "collectors": Collectors(enabled=False),
            "outside": False,
            "expect": (),
        }
    )


def _read_rate(folder: RunFolder, scenario: Scenario) -> float:
    """Return the completions a second, from when the workers were warm to the last."""
    completed_ns = sorted(itertools.chain.from_iterable(_read_completions(path) for path in folder.events.glob("worker-*.csv")))
    warm_ns = completed_ns[0] + _WARM_UP_S * 1e9 if completed_ns else 0
    counted = [t_ns for t_ns in completed_ns if t_ns >= warm_ns]
    if len(counted) < _FEWEST_JOBS:
        raise NotCarriedOutError(
            f"{scenario.file}: {scenario.workers.count} workers completed {len(completed_ns)} jobs in {_LOOK_S:.0f} s, too few to say "
            "what they can do; give a rate, like --set producers.rate=10"
        )
    return (len(counted) - 1) * 1e9 / (counted[-1] - counted[0])


def _read_completions(path: Path) -> list[int]:
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file) if len(row) == len(EVENT_COLUMNS)]
    return [int(row[0]) for row in rows if row[3] == Event.COMPLETED]
