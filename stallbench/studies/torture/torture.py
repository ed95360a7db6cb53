"""Carries out the torture of one queue: one run with kills and one with pauses, each judged when it has ended."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TypeVar

from stallbench.run.folder import RunFolder
from stallbench.run.view import RunView
from stallbench.scenario.model import Scenario
from stallbench.studies.study import Runner, SeparateRuns, Study, StudyRecord
from stallbench.studies.torture.judgement import judge_run
from stallbench.studies.torture.plan import TorturePlan
from stallbench.studies.torture.record import TortureFolder, TortureRecord, TortureRun, begin_torture
from stallbench.verdicts import RunTables, Verdict

RecordT = TypeVar("RecordT", bound=StudyRecord)
RunT = TypeVar("RunT", bound=TortureRun)


class CrashStudy(Study[RecordT, RunT]):
    """Runs in which the processes of a queue are killed or paused."""

    def judge(self, run: RunT, folder: RunFolder) -> RunT:
        """Make the tables and the verdict, and attribute what the checks of the run found."""
        self.say(f"making the tables and the verdict of {folder.path.name}")
        verdict = self.runner.conclude(folder)
        return run.model_copy(update={"reason": verdict.reason, **self.attribute(run, folder, verdict)})

    def attribute(self, run: RunT, folder: RunFolder, verdict: Verdict) -> dict[str, object]:
        """Return what the record of the run has of its outcome: which points the checks' findings belong to."""
        return {"outcome": judge_run(RunTables(folder.path), verdict, run.trials)}

    def title_of(self, run: RunT) -> str:
        """Return what happens to the processes in the run."""
        return run.title


class Torture(CrashStudy[TortureRecord, TortureRun]):
    """The planned runs of a torture."""

    def next_run(self) -> TortureRun | None:
        """Return the first run that is not completed."""
        return next((run for run in self.record.runs if run.status != "completed"), None)

    def scenario_of(self, run: TortureRun) -> Scenario:
        """Write the scenario of the run into the torture's folder, where the user can find it, and return it."""
        return self.record.plan.read(run.trials, self.folder.path)


def carry_out_torture(
    plan: TorturePlan, runs: Path, view: RunView, runner: Runner | None = None
) -> tuple[TortureFolder, TortureRecord]:
    """Carry the plan out in a new folder below ``runs``; returns the folder and its record, which has the outcome of each run.

    ``runner``: carries out the single runs; `SeparateRuns` if none. Raises `NotCarriedOutError` if the folder cannot be created.
    """
    folder, record = begin_torture(plan, runs)
    return folder, Torture(folder, record, runner or run_with(view), view.say).carry_out()


def continue_torture(folder: TortureFolder, view: RunView, runner: Runner | None = None) -> TortureRecord:
    """Carry out the runs that a torture lacks. Raises `BadInputError` if there is none, or if a process carries them out."""
    record = folder.read_to_continue()
    record.require_lacking(folder.path)
    return Torture(folder, record.continued(), runner or run_with(view), view.say).carry_out()


def run_with(view: RunView) -> SeparateRuns:
    """Return what carries the runs out, which print to ``view``."""
    return SeparateRuns(lambda: nullcontext(view), is_latest=False)
