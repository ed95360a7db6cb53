"""The record of a comparison: what was to be compared, what each run measured, and the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import model_validator

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.engines import ENGINES
from stallbench.libraries import find_library
from stallbench.report.outcome_text import VerdictWords, word_runs
from stallbench.run.folder import STUDY, create_folder
from stallbench.run.record import describe_bench
from stallbench.scenario.model import CONTROL, Scenario
from stallbench.studies.comparison.plan import Load, Plan, PlannedRun
from stallbench.studies.kind import read_kind
from stallbench.studies.study import StudyFolder, StudyPart, StudyRecord, StudyRun
from stallbench.verdicts.baseline.compared_metric import (
    ComparedMetric,
    find_baseline,
    judged_subject_of,
    reference_of,
    subject_of,
)


class ComparedScenario(StudyPart):
    """The scenario of all runs."""

    name: str
    file: str
    variant: str | None = None
    """Of a matrix: the variant that ran on every version, if any."""
    summary: str
    changes: tuple[str, ...]
    """What the command line changed in every run, each as ``key=value``."""
    measured: tuple[str, ...] = ()
    """The load of every run, as ``key=value``, if it was measured before the first run."""
    phases: Mapping[str, float] = {}
    """Length of each phase, in seconds."""


class ComparedVariant(StudyPart):
    """A variant, or the scenario without one."""

    name: str
    summary: str
    capacity: float | None = None
    """Jobs per second that its workers completed on a full queue before the first run; none if it was not measured."""
    judged_by: str | None = None
    """Key of the subject that decides whether it helps; the ranked one if none."""
    reference: str | None = None
    """The variant from which the difference decides whether it helps; the reference of the comparison if none."""


class ComparedRun(StudyRun):
    """One run of the comparison."""

    round: int
    variant: str
    seed: int
    verdict: Literal["pass", "fail", "unknown"] | None = None
    unsafe: str = ""
    """What the checks of conservation and duplicates found: jobs lost or re-executed; empty if they found nothing."""
    undecided: str = ""
    """Why one of these checks could not decide; empty if both did."""
    values: Mapping[str, float | None] = {}
    """By the key of the subject."""


class ComparisonRecord(StudyRecord):
    """The whole file."""

    kind: Literal["comparison"] = "comparison"
    scenario: ComparedScenario
    seed: int
    rounds: int
    versions: str | None = None
    """Of a matrix, whose variants are versions of servers: as the user named them."""
    variants: tuple[ComparedVariant, ...]
    """The first is the reference, from which the differences of the others are measured."""
    load: Load = "common"
    left_out: Mapping[str, str] = {}
    """By the name of each requested variant that this machine cannot run, or whose capacity could not be measured: why."""
    unmeasured: tuple[str, ...] = ()
    """Those whose capacity could not be measured: a run that could not be carried out, for the exit code."""
    baseline: str
    """The first measured phase."""
    subjects: tuple[ComparedMetric, ...]
    """The first is the ranked one."""
    columns: Mapping[str, str] = {}
    """Of the table that the scenario asks for: by title, the key of the subject."""
    published: Mapping[str, Mapping[str, float]]
    source: str | None
    runs: tuple[ComparedRun, ...] = ()
    results: Mapping[str, Any] | None = None
    """As `stallbench.studies.comparison.results` has them; none before the comparison has ended."""

    @model_validator(mode="after")
    def _require_what_is_named(self) -> Self:
        if not self.variants or not self.subjects:
            raise ValueError("there are no variants, or no subjects")
        references = {variant.reference for variant in self.variants if variant.reference}
        if unknown := sorted((references | {run.variant for run in self.runs}) - set(self.names)):
            raise ValueError(f"there is no variant {unknown[0]!r}")
        judging = {subject.key for subject in self.subjects if subject.role != "baseline"}
        deciding = {variant.judged_by or self.ranked.key for variant in self.variants}
        if unknown := sorted(deciding - judging) or sorted(
            set(self.columns.values()) - {subject.key for subject in self.subjects}
        ):
            raise ValueError(f"there is no subject {unknown[0]!r}")
        return self

    @property
    def names(self) -> list[str]:
        """Names of the compared variants, the reference first."""
        return [variant.name for variant in self.variants]

    @property
    def ranked(self) -> ComparedMetric:
        """What the variants are ranked by."""
        return self.subjects[0]

    @property
    def judged_by(self) -> dict[str, ComparedMetric]:
        """What decides whether a variant helps, by variant: the ranked subject, if it has none of its own."""
        by_key = {subject.key: subject for subject in reversed(self.subjects) if subject.role != "baseline"}
        return {variant.name: by_key[variant.judged_by or self.ranked.key] for variant in self.variants}

    @property
    def references(self) -> dict[str, str]:
        """By variant, the one from which the difference decides whether it helps."""
        return {variant.name: variant.reference or self.names[0] for variant in self.variants}

    @property
    def verdict(self) -> Literal["pass", "fail", "unknown"]:
        """Whether every run passed."""
        found = {run.verdict for run in self.runs}
        return "fail" if "fail" in found else "pass" if found == {"pass"} else "unknown"

    def word_verdict(self) -> VerdictWords:
        """Return what all runs have in common, or which do not."""
        return word_runs("run", [run for run in self.runs if run.status == "completed"])

    @property
    def is_lacking(self) -> bool:
        """Whether a run or the measurement of a capacity could not be carried out."""
        return bool(self.unmeasured) or any(run.status != "completed" for run in self.runs)

    def find_unmeasured(self, subject: ComparedMetric) -> dict[str, str]:
        """Return in how many of its completed runs a variant has no value of ``subject``, like ``2 of 5 completed runs``; only variants with such runs.

        Such a run may have been the worst of all: no job was completed, for example.
        """
        found = {}
        for name in self.names:
            completed = [run for run in self.runs if run.variant == name and run.status == "completed"]
            if missing := sum(run.values.get(subject.key) is None for run in completed):
                found[name] = f"{missing} of {len(completed)} completed runs"
        return found


class ComparisonFolder(StudyFolder[ComparisonRecord]):
    """A comparison's folder."""

    model = ComparisonRecord

    @property
    def runs(self) -> Path:
        """Where the folders of its runs are: beside its own, because each is a run like any other."""
        return self.path.parent


def find_comparison_folders(runs: Path) -> Iterator[ComparisonFolder]:
    """Yield the folders of the comparisons in ``runs``, the oldest first. Raises `BadInputError` if one holds no study's record."""
    for path in sorted(runs.glob(f"*/{STUDY}")):
        if read_kind(path.parent).folder is ComparisonFolder:
            yield ComparisonFolder(path.parent)


def begin_comparison(plan: Plan, runs: Path) -> tuple[ComparisonFolder, ComparisonRecord]:
    """Create the folder of a comparison that is about to start, beside those of its runs; ``latest`` keeps pointing at a run.

    Raises `NotCarriedOutError` if ``runs`` cannot be written.
    """
    folder = ComparisonFolder(create_folder(runs, "matrix" if plan.versions else "compare", plan.scenario.name))
    choice = plan.scenario.comparison
    record = ComparisonRecord(
        id=folder.path.name,
        bench=describe_bench(),
        scenario=ComparedScenario(
            name=plan.scenario.name,
            file=plan.scenario.file,
            variant=plan.scenario.variant,
            summary=plan.scenario.summary,
            changes=plan.scenario.changes,
            measured=plan.measured,
            phases={phase.name: phase.duration_s for phase in plan.chosen.get(CONTROL, plan.scenario).phases},
        ),
        seed=plan.seed,
        rounds=plan.rounds,
        versions=plan.versions,
        variants=tuple(describe_variant(plan, name) for name in plan.chosen),
        load=plan.load,
        left_out=plan.left_out,
        unmeasured=plan.unmeasured,
        baseline=find_baseline(plan.scenario),
        subjects=plan.subjects,
        columns={column.title: subject_of(column).key for column in choice.columns} if choice else {},
        published=choice.published if choice else {},
        source=choice.source if choice else None,
        runs=tuple(as_planned(run) for run in plan.runs),
    )
    folder.write(record)
    return folder, record


def describe_variant(plan: Plan, name: str) -> ComparedVariant:
    """Return what the record has of a variant of the plan."""
    scenario = plan.chosen[name]
    judged = None if plan.versions else judged_subject_of(scenario)
    return ComparedVariant(
        name=name,
        summary=_summarize(name, scenario),
        capacity=plan.capacities.get(name),
        judged_by=judged.key if judged else None,
        reference=None if plan.versions else reference_of(scenario),
    )


def _summarize(name: str, scenario: Scenario) -> str:
    """Return what a variant is: the scenario's summary, the library's, or which server it is."""
    if scenario.database.version is not None and name == f"{scenario.database.engine}:{scenario.database.version}":
        build = ", from the bench's own package" if scenario.database.packaged else ""
        return f"{ENGINES[scenario.database.engine].title} {scenario.database.version}{build}."
    if not name.startswith(LIBRARY_PREFIX):
        return scenario.summary
    library = find_library(name.removeprefix(LIBRARY_PREFIX))
    return f"{library.title_and_version}: {library.summary}."


def as_planned(run: PlannedRun) -> ComparedRun:
    """Return the entry of a run before it is carried out."""
    return ComparedRun(number=run.number, round=run.round, variant=run.variant, seed=run.seed)
