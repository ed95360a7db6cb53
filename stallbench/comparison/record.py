"""``comparison.json``: what was to be compared, which runs that came to, what each of them measured, and what follows from it.

Written before the first run and replaced whole after each, so that an interrupted comparison is still one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from stallbench.atomic_file import replace_file
from stallbench.comparison.plan import Plan, PlannedRun
from stallbench.comparison.subject import Subject, find_baseline, subject_of
from stallbench.errors import EXIT_FAIL, EXIT_INTERRUPTED, EXIT_NOT_CARRIED_OUT, EXIT_PASS, BadInputError
from stallbench.run.folder import COMPARISON, create_folder
from stallbench.run.record import describe_bench
from stallbench.scenario.model import CONTROL

RunStatus = Literal["planned", "completed", "failed", "aborted"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ComparedScenario(_Part):
    """Which scenario it is."""

    name: str
    file: str
    summary: str
    changes: tuple[str, ...]
    """What the command line changed in every run, as ``key=value``."""
    measured: tuple[str, ...] = ()
    """The load of every run, as ``key=value``, if it was measured before the first."""
    phases: Mapping[str, float] = {}
    """Length of each phase, in seconds."""


class ComparedVariant(_Part):
    """A variant, or the scenario without one."""

    name: str
    summary: str


class ComparedRun(_Part):
    """One run of the comparison."""

    number: int
    round: int
    variant: str
    seed: int
    folder: str | None = None
    """Name of the run's folder, beside the comparison's; none if it came to none."""
    status: RunStatus = "planned"
    """``completed``, ``failed`` (could not be carried out), ``aborted`` (interrupted); ``planned`` until then."""
    reason: str = ""
    """Of the verdict; of a run without one, why it has none."""
    verdict: str | None = None
    broken: str = ""
    """Why the run's jobs were not safe: what the checks of conservation and duplicates found, empty if nothing."""
    values: Mapping[str, float | None] = {}
    """By key of the subject."""


class ComparisonRecord(_Part):
    """The whole file."""

    format: Literal[1] = 1
    id: str
    status: Literal["running", "completed", "aborted"] = "running"
    """``completed``: every run was tried. ``aborted``: the comparison was interrupted or killed."""
    reason: str = ""
    bench: Mapping[str, Any]
    scenario: ComparedScenario
    seed: int
    rounds: int
    contestants: tuple[ComparedVariant, ...]
    """The first is the reference that the others are held against."""
    left_out: Mapping[str, str] = {}
    """By variant that was wanted: why this machine cannot run it."""
    baseline: str
    """The first measured phase."""
    subjects: tuple[Subject, ...]
    """The first is what is ranked."""
    columns: Mapping[str, str] = {}
    """Of the comparison's own table: by title, the key of the subject."""
    published: Mapping[str, Mapping[str, float]]
    source: str | None
    runs: tuple[ComparedRun, ...]
    results: Mapping[str, Any] | None = None
    """As `stallbench.comparison.results` has them; none until the comparison has ended."""

    @property
    def names(self) -> list[str]:
        """Names of all that were compared, the reference first."""
        return [compared_variant.name for compared_variant in self.contestants]

    @property
    def ranked(self) -> Subject:
        """What the variants are ranked by."""
        return self.subjects[0]

    @property
    def exit_code(self) -> int:
        """What a command that shows the comparison ends with."""
        if self.status != "completed":
            return EXIT_INTERRUPTED if self.status == "aborted" else EXIT_NOT_CARRIED_OUT
        if any(run.status != "completed" for run in self.runs):
            return EXIT_NOT_CARRIED_OUT
        return EXIT_PASS if all(run.verdict == "pass" for run in self.runs) else EXIT_FAIL

    def with_run(self, run: ComparedRun) -> Self:
        """Return the record with ``run`` in the place of the one of its number."""
        return self.model_copy(update={"runs": tuple(run if run.number == each.number else each for each in self.runs)})


class ComparisonFolder:
    """A comparison's folder: ``comparison.json``, ``report.html``, ``summary.md``."""

    def __init__(self, path: Path) -> None:
        """Remember where it is; nothing is read or made."""
        self.path = path

    @property
    def runs(self) -> Path:
        """Where the folders of its runs are."""
        return self.path.parent

    def read(self) -> ComparisonRecord:
        """Read the record back; raises `BadInputError` if it is none."""
        try:
            return ComparisonRecord.model_validate_json((self.path / COMPARISON).read_text())
        except ValidationError as error:
            fault = error.errors(include_input=False, include_url=False)[0]
            key = ".".join(str(part) for part in fault["loc"])
            raise BadInputError(
                f"{self.path / COMPARISON}: not a comparison's record: {key + ': ' if key else ''}{fault['msg']}"
            ) from None

    def write(self, record: ComparisonRecord) -> None:
        """Replace the record; a reader sees the old one or the new one, never a part."""
        replace_file(self.path / COMPARISON, json.dumps(record.model_dump(mode="json"), indent=1))


def begin_comparison(plan: Plan, runs: Path) -> tuple[ComparisonFolder, ComparisonRecord]:
    """Make the folder of a comparison that is about to start, beside those of its runs; ``latest`` goes on pointing at a run.

    Raises `NotCarriedOutError` if ``runs`` cannot be written.
    """
    folder = ComparisonFolder(create_folder(runs, "compare", plan.scenario.name))
    choice = plan.scenario.comparison
    record = ComparisonRecord(
        id=folder.path.name,
        bench=describe_bench(),
        scenario=ComparedScenario(
            name=plan.scenario.name,
            file=plan.scenario.file,
            summary=plan.scenario.summary,
            changes=plan.scenario.changes,
            measured=plan.measured,
            phases={phase.name: phase.duration_s for phase in plan.chosen.get(CONTROL, plan.scenario).phases},
        ),
        seed=plan.seed,
        rounds=plan.rounds,
        contestants=tuple(ComparedVariant(name=name, summary=scenario.summary) for name, scenario in plan.chosen.items()),
        left_out=plan.left_out,
        baseline=find_baseline(plan.scenario),
        subjects=plan.subjects,
        columns={column.title: subject_of(column).key for column in choice.columns} if choice else {},
        published=choice.published if choice else {},
        source=choice.source if choice else None,
        runs=tuple(_as_planned(run) for run in plan.runs),
    )
    folder.write(record)
    return folder, record


def _as_planned(run: PlannedRun) -> ComparedRun:
    return ComparedRun(number=run.number, round=run.round, variant=run.variant, seed=run.seed)
