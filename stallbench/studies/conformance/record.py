"""The record of a test of conformance: what each promise of the queue's operations, and each run under load, has shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from stallbench.queues import find_queue
from stallbench.report.outcome_text import VerdictWords, word_promises
from stallbench.run.folder import create_folder
from stallbench.run.record import describe_bench
from stallbench.shell_command import format_shell_command
from stallbench.studies.conformance.promise_outcome import PromiseOutcome, not_all_tried, summarise_torture
from stallbench.studies.study import StudyFolder, StudyRecord
from stallbench.studies.torture.outcome import TortureOutcome
from stallbench.studies.torture.plan import TorturePlan, Trial, name_queue
from stallbench.studies.torture.record import TortureRun

_REPETITIONS = 2
"""How often the points that no process passed in time are tried again, for example because the machine stalled."""


class ConformanceRun(TortureRun):
    """A run whose trials have one action; without trials, one in which workers are killed at any moment."""

    promises: tuple[PromiseOutcome, ...] = ()
    """What a run without trials has shown."""


class ConformanceRecord(StudyRecord):
    """The whole file."""

    kind: Literal["conformance"] = "conformance"
    plan: TorturePlan
    with_crash_points: bool
    operations: tuple[PromiseOutcome, ...] = ()
    """Those that were tried."""
    runs: tuple[ConformanceRun, ...] = ()
    promises: tuple[PromiseOutcome, ...] = ()
    """As `list_promises` returns them; empty until the test has ended."""

    @property
    def outcome(self) -> TortureOutcome:
        """What the completed runs have shown of the crash points together."""
        return TortureOutcome.merge(run.outcome for run in self.runs if run.outcome)

    def find_next_run(self) -> ConformanceRun | None:
        """Return the run that is to be carried out next; none if all were."""
        if not self.with_crash_points:
            return None
        lacking = next((run for run in self.runs if run.status != "completed"), None)
        if lacking is not None:
            return lacking
        number = len(self.runs) + 1
        if trials := self._find_untried():
            return ConformanceRun(number=number, trials=trials)
        if self._has_own_workers and all(run.trials for run in self.runs):
            return ConformanceRun(number=number)
        return None

    @property
    def _has_own_workers(self) -> bool:
        """Whether the workers are a library's, inside which there is no crash point."""
        return find_queue(self.plan.kind).worker_command() is not None

    def _find_untried(self) -> tuple[Trial, ...]:
        """Return the trials of the next run at crash points; none if all were tried, or often enough."""
        tried = [trial for run in self.runs for trial in run.trials]
        hit = {each.trial for each in self.outcome.trials if each.hits}
        for repetition in range(1 + _REPETITIONS):
            for trials in self.plan.runs:
                if untried := tuple(trial for trial in trials if tried.count(trial) == repetition and trial not in hit):
                    return untried
        return ()

    def list_promises(self) -> Iterator[PromiseOutcome]:
        """Yield the outcome of each promise, as far as it is known."""
        yield from self.operations
        if any(run.trials for run in self.runs) and not self._find_untried():
            yield from summarise_torture(self.outcome)
        yield from (promise for run in self.runs for promise in run.promises)
        if self.status in ("failed", "aborted"):
            yield not_all_tried(self.reason)

    @property
    def verdict(self) -> Literal["pass", "fail", "unknown"]:
        """Whether every promise holds, or is not given; unknown if none was shown to hold."""
        results = {promise.result for promise in self.list_promises()}
        return "fail" if "fail" in results else "unknown" if "unknown" in results or "pass" not in results else "pass"

    def word_verdict(self) -> VerdictWords:
        """Return how many promises the queue kept, or which it broke."""
        return word_promises(self.verdict, {promise.name: promise.result for promise in self.list_promises()})

    @property
    def command(self) -> str:
        """The command that repeats the test with the same seed."""
        changes = [part for change in self.plan.overrides for part in ("--set", change)]
        without = [] if self.with_crash_points else ["--no-crash-points"]
        return format_shell_command(["stallbench", "conform", self.plan.kind, *changes, "--seed", str(self.plan.seed), *without])


class ConformanceFolder(StudyFolder[ConformanceRecord]):
    """The folder of a test; it has the scenario of each run, too."""

    model = ConformanceRecord


def begin_conformance(plan: TorturePlan, runs: Path, *, with_crash_points: bool) -> tuple[ConformanceFolder, ConformanceRecord]:
    """Create the folder of a test below ``runs``, and its record. Raises `NotCarriedOutError` if ``runs`` cannot be written."""
    folder = ConformanceFolder(create_folder(runs, "conform", name_queue(plan.kind)))
    record = ConformanceRecord(id=folder.path.name, bench=describe_bench(), plan=plan, with_crash_points=with_crash_points)
    folder.write(record)
    return folder, record
