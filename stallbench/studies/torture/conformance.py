"""Tries every promise of one queue: its operations, one promise after the other, and then a load at every crash point (`stallbench.studies.torture`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stallbench.engines.database import Database
from stallbench.errors import NotCarriedOutError, StallbenchError
from stallbench.queues import Queue, find_queue
from stallbench.queues.queue_client import close_queue, open_queue
from stallbench.run.folder import create_folder
from stallbench.run.view import RunView
from stallbench.scenario.model import Scenario
from stallbench.servers.empty_databases import EmptyDatabases, empty_databases
from stallbench.studies.study import Runner
from stallbench.studies.torture.kind import KIND
from stallbench.studies.torture.outcome import TortureOutcome
from stallbench.studies.torture.plan import ACTIONS, TorturePlan, name_queue, plan_torture, read_first_scenario
from stallbench.studies.torture.promise import BrokenPromiseError, OpenQueue, QueuePromise, take_turns
from stallbench.studies.torture.promise_outcome import PromiseOutcome, not_all_tried, summarise_torture, write_record
from stallbench.studies.torture.promises import PROMISES
from stallbench.studies.torture.torture import carry_out_torture
from stallbench.studies.torture.worker_deaths import PHASES as WORKER_DEATHS
from stallbench.studies.torture.worker_deaths import try_worker_deaths

_TIME_LIMITS: dict[str, dict[str, str | int]] = {
    "postgres": {"lock_timeout": "30s", "statement_timeout": "60s"},
    "mariadb": {"innodb_lock_wait_timeout": 30},
    "mysql": {"innodb_lock_wait_timeout": 30},
}
"""Settings of the server. Without them, a claim that waits for another connection of the same process would wait for ever."""
_REPETITIONS = 2
"""How often the points that no process passed are tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformancePlan:
    """What is tried on one queue."""

    torture: TorturePlan
    scenario: Scenario
    """One of those of the torture, for the engine and the options."""
    with_crash_points: bool


def plan_conformance(kind: str, *, seed: int, overrides: Sequence[str], with_crash_points: bool) -> ConformancePlan:
    """Plan it; raises `BadInputError` if there is no such queue or a change is invalid."""
    plan = plan_torture(kind, seed=seed, overrides=overrides, points=(), action=None)
    return ConformancePlan(torture=plan, scenario=read_first_scenario(plan), with_crash_points=with_crash_points)


def try_promises(plan: ConformancePlan, runs: Path, view: RunView, show: Callable[[PromiseOutcome], None]) -> Path:
    """Carry the plan out in a new folder below ``runs``, which is returned; ``show`` is called with each promise as soon as its outcome is known.

    Raises `NotCarriedOutError` when a server does not start or a run cannot be carried out. In that case, and if it is interrupted, the record
    contains the promises that were tried, and that the others were not.
    """
    kind, engine = plan.torture.kind, plan.scenario.database.engine
    find_queue(kind).require_programs(view.say)
    folder = create_folder(runs, "conform", name_queue(kind))
    found: list[PromiseOutcome] = []

    def keep(outcome: PromiseOutcome) -> None:
        found.append(outcome)
        show(outcome)

    try:
        for each in _try_operations(plan.scenario, folder):
            keep(each)
        if plan.with_crash_points:
            for each in _try_under_load(plan, folder, view):
                keep(each)
    except BaseException as error:
        keep(not_all_tried("interrupted" if isinstance(error, KeyboardInterrupt) else str(error) or type(error).__name__))
        with suppress(OSError):  # the first error is what the user has to know
            write_record(folder, kind, engine, plan.torture.seed, found)
        raise
    write_record(folder, kind, engine, plan.torture.seed, found)
    return folder


def _try_under_load(plan: ConformancePlan, folder: Path, view: RunView) -> Iterator[PromiseOutcome]:
    kind = plan.torture.kind
    yield from summarise_torture(try_crash_points(plan.torture, lambda part: carry_out_part(part, folder, view)))
    if find_queue(kind).worker_command() is not None:
        engine, overrides = plan.scenario.database.engine, plan.torture.select_overrides(WORKER_DEATHS)
        yield from try_worker_deaths(kind, engine, overrides, seed=plan.torture.seed, folder=folder, view=view)


def carry_out_part(plan: TorturePlan, folder: Path, view: RunView, runner: Runner | None = None) -> TortureOutcome:
    """Carry the plan out in a folder of its own below ``folder``. Raises `NotCarriedOutError` if a run cannot be carried out, and `KeyboardInterrupt`."""
    of_torture, record = carry_out_torture(plan, folder, view, runner)
    KIND.conclude(of_torture.path)
    if record.status == "aborted":
        raise KeyboardInterrupt
    if record.status != "completed":
        raise NotCarriedOutError(record.reason)
    return record.outcome


def try_crash_points(plan: TorturePlan, carry_out: Callable[[TorturePlan], TortureOutcome]) -> TortureOutcome:
    """Carry the plan out, then repeat the trials of points that no process passed in time, for example because the machine stalled."""
    outcome = carry_out(plan)
    for _ in range(_REPETITIONS):
        untried = [each.trial for each in outcome.trials if not each.hits]
        if not untried:
            break
        by_action = (tuple(trial for trial in untried if trial.action == action) for action in ACTIONS)
        again = carry_out(replace(plan, runs=tuple(trials for trials in by_action if trials)))
        tried = {each.trial: each for each in again.trials}
        outcome = TortureOutcome(
            trials=[tried.get(each.trial, each) for each in outcome.trials],
            elsewhere=[*outcome.elsewhere, *again.elsewhere],
            undecided=list(dict.fromkeys([*outcome.undecided, *again.undecided])),
        )
    return outcome


def _try_operations(scenario: Scenario, folder: Path) -> Iterator[PromiseOutcome]:
    queue = find_queue(scenario.queue.kind)
    with empty_databases(_with_time_limits(scenario.database), queue.second_engine, folder / "logs") as databases:
        for promise in PROMISES:
            obstacle = promise.find_obstacle(queue)
            if obstacle is not None:
                yield PromiseOutcome(name=promise.name, result="info", reason=obstacle)
            else:
                yield _try(promise, scenario, databases)


def _with_time_limits(database: Database) -> Database:
    """Return the section with a limit for each wait that it does not limit itself."""
    return database.model_copy(update={"settings": {**_TIME_LIMITS.get(database.engine, {}), **database.settings}})


def _try(promise: QueuePromise, scenario: Scenario, databases: EmptyDatabases) -> PromiseOutcome:
    opened: list[Queue[Any]] = []
    try:
        open_one = _opener(scenario, databases, opened)
        open_one().install()
        promise.check(open_one)
    except BrokenPromiseError as error:
        databases.check()
        return PromiseOutcome(name=promise.name, result="fail", reason=str(error))
    except StallbenchError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's queue may raise anything, and that is what is to be known of it
        databases.check()
        return PromiseOutcome(name=promise.name, result="fail", reason=f"{type(error).__name__}: {str(error).strip()}")
    finally:
        for queue in opened:
            close_queue(queue, scenario.database.engine)
    return PromiseOutcome(name=promise.name, result="pass")


def _opener(scenario: Scenario, databases: EmptyDatabases, opened: list[Queue[Any]]) -> OpenQueue:
    endpoint = databases.give()

    def open_another(**options: object) -> Queue[Any]:
        queue = open_queue(scenario.queue.kind, {**scenario.queue.options, **options}, endpoint, f"conformance-{len(opened)}")
        opened.append(queue)
        if queue.claims_after_schedule:
            take_turns(queue)
        return queue

    return open_another
