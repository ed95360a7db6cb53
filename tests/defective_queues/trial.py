"""One short run of a queue, on servers of its own and through the whole bench, and what the verdict says of it."""

from __future__ import annotations

import inspect
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from stallbench.errors import NotCarriedOutError
from stallbench.queues import find_queues
from stallbench.queues.laravel import Laravel
from stallbench.queues.queue import Queue
from stallbench.queues.status_column import StatusColumn
from stallbench.run.opening import open_run
from stallbench.run.view import RunView
from stallbench.scenario.file import read_scenario
from stallbench.verdicts import RunTables, judge
from tests.defective_queues import SeededDefect, find_defects

_SCENARIO = Path(__file__).with_name("trial.toml")
_ATTEMPTS = 3
_EXPIRING = ("queue.retry_after=5", "phases.after.duration=9s")
"""A second of the five may be all but over when a claim is made: a worker that stands still for three must find its claim valid."""
_OPTIONS = {
    (Laravel, SeededDefect.tried_under): _EXPIRING,
    (Laravel, "deaths"): _EXPIRING,
    (Laravel, "deadlocks"): ("queue.hint=queue_index",),
    (StatusColumn, "crash_in_work"): ("queue.expire_after=5",),
    (StatusColumn, "pause_in_work"): ("queue.expire_after=5",),
    (StatusColumn, "restarts"): ("queue.expire_after=3",),
    (StatusColumn, "crash_before_completion"): ("queue.expire_after=3",),
    (StatusColumn, "crash_at_every_job"): ("queue.expire_after=2",),
}
"""What a queue needs under a load: that its claims end within a trial, or that it deadlocks as it did in 2017."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A queue to be tried: a defective one, or the sound one that it was made from."""

    name: str
    queue: type[Queue[Any]]
    load: str
    caught_by: str | None
    """The check that must fail; none if the queue is sound."""

    @property
    def kind(self) -> str:
        """How a scenario names it."""
        return f"{inspect.getfile(self.queue)}:{self.queue.__name__}" if self.caught_by else self.queue.kind

    @property
    def overrides(self) -> list[str]:
        """What is set in the scenario."""
        options = [
            each
            for (base, load), settings in _OPTIONS.items()
            if issubclass(self.queue, base) and load == self.load
            for each in settings
        ]
        return [f"queue.kind={self.kind}", *options]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the verdict says."""

    failed: dict[str, str]
    """The checks that failed, with their reasons."""
    unknown: dict[str, str]
    """Those that could not decide."""

    def is_right(self, subject: Subject) -> bool:
        """Whether a sound queue passed, or a defective one failed by the check that it should."""
        if subject.caught_by is None:
            return not self.failed and not self.unknown
        return subject.caught_by in self.failed

    def describe(self) -> str:
        """Say it in a line."""
        told = [f"{check}: {reason}" for check, reason in self.failed.items()]
        told += [f"{check} (unknown): {reason}" for check, reason in self.unknown.items()]
        return "; ".join(told) or "it passed"


def find_subjects() -> list[Subject]:
    """Return every defective queue, and once each sound one that they were made from, under the same load."""
    subjects = []
    for name, defect in find_defects().items():
        assert issubclass(defect, Queue)
        subjects.append(Subject(name=name, queue=defect, load=defect.tried_under, caught_by=defect.caught_by))
    made_from = {(_sound(subject.queue), subject.load) for subject in subjects}
    subjects += [
        Subject(name=f"{queue.kind}, {load}", queue=queue, load=load, caught_by=None)
        for queue, load in sorted(made_from, key=lambda each: (each[0].kind, each[1]))
    ]
    return subjects


def run_trial(subject: Subject, runs: Path, *, seed: int = 1) -> Path:
    """Run it to its end and return the run's folder; raises `stallbench.errors.NotCarriedOutError`.

    One that cannot be carried out shows nothing of the queue, and is begun anew: phases are so short that on a machine which stands still for
    a second one may be over before its fault could begin.
    """
    variant = None if subject.load == SeededDefect.tried_under else subject.load
    scenario = read_scenario(str(_SCENARIO), variant=variant, overrides=[*subject.overrides, f"seed={seed}"])
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with open_run(scenario, runs, RunView(Console(file=StringIO()))) as run:
                run.carry_out()
                return run.folder.path
        except NotCarriedOutError:
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def run_trials(subjects: Sequence[Subject], runs: Path, *, at_once: int, seed: int = 1) -> Iterator[tuple[Subject, Path]]:
    """Run each, several at once, and yield it with its run's folder.

    Each is in a process of its own, for Toxiproxy's client knows one Toxiproxy only.
    """
    with ProcessPoolExecutor(at_once, mp_context=multiprocessing.get_context("spawn")) as pool:
        started = [pool.submit(run_trial, subject, runs / subject.name, seed=seed) for subject in subjects]
        for subject, future in zip(subjects, started, strict=True):
            yield subject, future.result()


def judge_trial(folder: Path, make_tables: Callable[[Path], None]) -> Outcome:
    """Make the tables of a trial by ``make_tables`` and judge it."""
    make_tables(folder)
    verdict = judge(RunTables(folder))
    of_result = {
        result: {finding.check: finding.reason for finding in verdict.findings if finding.result == result}
        for result in ("fail", "unknown")
    }
    return Outcome(failed=of_result["fail"], unknown=of_result["unknown"])


def _sound(defect: type[Queue[Any]]) -> type[Queue[Any]]:
    """Return the queue of the bench's own that a defective one was made from."""
    own = set(find_queues().values())
    return next(base for base in defect.__mro__ if base in own)
