"""Carries out a test of conformance: first the promises of the queue's operations, one by one, then runs in which its processes are killed or paused."""

from __future__ import annotations

from pathlib import Path

from stallbench.queues import find_queue
from stallbench.run.folder import RunFolder
from stallbench.run.view import RunView
from stallbench.scenario.model import Scenario
from stallbench.studies.conformance.operations import try_operations
from stallbench.studies.conformance.promise_outcome import describe_promise
from stallbench.studies.conformance.record import ConformanceFolder, ConformanceRecord, ConformanceRun, begin_conformance
from stallbench.studies.conformance.worker_deaths import read_worker_deaths, summarise_verdict
from stallbench.studies.study import Runner, Say
from stallbench.studies.torture.plan import TorturePlan, read_first_scenario
from stallbench.studies.torture.torture import CrashStudy, run_with
from stallbench.verdicts import Verdict


class Conformance(CrashStudy[ConformanceRecord, ConformanceRun]):
    """Runs at every crash point; points that no process passed are tried again; then a library's own workers are killed at any moment."""

    def __init__(self, folder: ConformanceFolder, record: ConformanceRecord, runner: Runner, say: Say) -> None:
        """Start nothing yet."""
        super().__init__(folder, record, runner, say)
        self._said = 0

    def prepare(self) -> None:
        """Try the promises of the operations that were not tried yet."""
        find_queue(self.record.plan.kind).require_programs(self.say)
        scenario = read_first_scenario(self.record.plan)
        for outcome in try_operations(scenario, self.folder.path / "logs", tried=[each.name for each in self.record.operations]):
            self.record = self.record.model_copy(update={"operations": (*self.record.operations, outcome)})
            self.folder.write(self.record)
            self._say_promises()

    def next_run(self) -> ConformanceRun | None:
        """Say which promises are decided, and return the next run."""
        self._say_promises()
        return self.record.find_next_run()

    def scenario_of(self, run: ConformanceRun) -> Scenario:
        """Write the scenario of the run into the folder, where the user can find it, and return it."""
        plan = self.record.plan
        if run.trials:
            return plan.read(run.trials, self.folder.path, f"{run.trials[0].action}-{run.number}")
        return read_worker_deaths(plan, self.folder.path)

    def attribute(self, run: ConformanceRun, folder: RunFolder, verdict: Verdict) -> dict[str, object]:
        """Attribute what the checks of the run found to its points, or to the deaths of workers."""
        return super().attribute(run, folder, verdict) if run.trials else {"promises": tuple(summarise_verdict(verdict))}

    def _say_promises(self) -> None:
        """Say each promise as soon as it is decided."""
        promises = list(self.record.list_promises())
        for promise in promises[self._said :]:
            self.say(describe_promise(promise))
        self._said = len(promises)


def carry_out_conformance(
    plan: TorturePlan, runs: Path, view: RunView, *, with_crash_points: bool, runner: Runner | None = None
) -> tuple[ConformanceFolder, ConformanceRecord]:
    """Carry the plan out in a new folder below ``runs``; returns the folder and its record, which has the outcome of each promise.

    ``with_crash_points``: whether there are runs, too, or only the operations. ``runner``: carries out the single runs;
    `stallbench.studies.study.SeparateRuns` if none. Raises `NotCarriedOutError` if the folder cannot be created.
    """
    folder, record = begin_conformance(plan, runs, with_crash_points=with_crash_points)
    return folder, Conformance(folder, record, runner or run_with(view), view.say).carry_out()


def continue_conformance(folder: ConformanceFolder, view: RunView, runner: Runner | None = None) -> ConformanceRecord:
    """Try what a test lacks. Raises `BadInputError` if it lacks nothing, or if a process carries it out."""
    record = folder.read_to_continue()
    record.require_lacking(folder.path)
    record = record.continued().model_copy(update={"promises": ()})
    return Conformance(folder, record, runner or run_with(view), view.say).carry_out()
