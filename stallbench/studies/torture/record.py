"""The record of a torture: what is tried on the queue, and what each run has shown of it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from stallbench.report.outcome_text import VerdictWords, word_promises
from stallbench.run.folder import create_folder
from stallbench.run.record import describe_bench
from stallbench.studies.study import StudyFolder, StudyRecord, StudyRun
from stallbench.studies.torture.outcome import TortureOutcome
from stallbench.studies.torture.plan import TorturePlan, Trial, name_queue


class TortureRun(StudyRun):
    """A run whose trials have one action."""

    trials: tuple[Trial, ...] = ()
    outcome: TortureOutcome | None = None
    """None until the run is completed."""

    @property
    def title(self) -> str:
        """What a message calls it."""
        return (
            f"the run with action {self.trials[0].action}" if self.trials else "the run in which workers are killed at any moment"
        )


class TortureRecord(StudyRecord):
    """The whole file."""

    kind: Literal["torture"] = "torture"
    plan: TorturePlan
    runs: tuple[TortureRun, ...] = ()

    @property
    def outcome(self) -> TortureOutcome:
        """What the completed runs have shown together."""
        return TortureOutcome.merge(run.outcome for run in self.runs if run.outcome)

    @property
    def verdict(self) -> Literal["pass", "fail", "unknown"]:
        """Whether every promise holds at every point."""
        return self.outcome.verdict

    def word_verdict(self) -> VerdictWords:
        """Return which promises the queue kept or broke, and where."""
        return word_promises(self.outcome.verdict, self.outcome.list_promises())


class TortureFolder(StudyFolder[TortureRecord]):
    """A torture's folder; it has the scenario of each run, too."""

    model = TortureRecord


def begin_torture(plan: TorturePlan, runs: Path) -> tuple[TortureFolder, TortureRecord]:
    """Create the folder of a torture below ``runs``, and its record. Raises `NotCarriedOutError` if ``runs`` cannot be written."""
    folder = TortureFolder(create_folder(runs, "torture", name_queue(plan.kind)))
    record = TortureRecord(
        id=folder.path.name,
        bench=describe_bench(),
        plan=plan,
        runs=tuple(TortureRun(number=number, trials=trials) for number, trials in enumerate(plan.runs, 1)),
    )
    folder.write(record)
    return folder, record
