"""Computes the results of a comparison: spreads, differences, ranks and assessments. Reads only the record, so it can be repeated at any time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from stallbench.measures import MEASURES
from stallbench.scenario.model import CONTROL
from stallbench.studies.comparison.assessment import Assessment, assess_variants
from stallbench.studies.comparison.ranking import Agreement, compare_with_published
from stallbench.studies.comparison.recommendation import recommend
from stallbench.studies.comparison.record import ComparisonRecord
from stallbench.studies.comparison.standings import Compared, compare
from stallbench.studies.comparison.upgrades import Upgrade, describe_upgrades, find_upgrades
from stallbench.verdicts.baseline.compared_metric import ComparedMetric
from stallbench.verdicts.baseline.statistics import ByRound


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What the comparison shows."""

    compared: tuple[Compared, ...]
    """The ranked subject first; costs that no run has a value of are left out."""
    deciding: tuple[ComparedMetric, ...]
    """What variants are judged by: the ranked subject first, then those of single variants."""
    comparisons: int
    """How many differences decide whether a variant helps; their p-values are adjusted together."""
    other_comparisons: int
    """How many other differences from the reference there are; their p-values are adjusted together."""
    agreements: tuple[Agreement, ...]
    """With each published column."""
    assessments: Mapping[str, Assessment]
    """By variant; empty where mitigations are not assessed."""
    upgrades: tuple[Upgrade, ...]
    """Of a matrix; empty otherwise."""
    unsafe: Mapping[str, str]
    """By variant of which a run lost jobs or executed them again without a reason: what was found in the first such run."""
    undecided: Mapping[str, str]
    """By each other variant of which it is not known whether a run did: why, in the first such run."""
    recommendation: str

    @property
    def ranked(self) -> Compared:
        """All variants in the subject that they are ranked by."""
        return self.compared[0]

    @property
    def has_assessments(self) -> bool:
        """Whether any variant could be assessed."""
        return any(assessment.outcome for assessment in self.assessments.values())

    def as_json(self) -> dict[str, object]:
        """Return it for the record."""
        return {
            "comparisons": self.comparisons,
            "other_comparisons": self.other_comparisons,
            "compared": [
                {
                    "subject": each.subject.key,
                    "standings": {name: asdict(standing) for name, standing in each.standings.items()},
                }
                for each in self.compared
            ],
            "agreements": [asdict(agreement) for agreement in self.agreements],
            "assessments": {name: asdict(assessment) for name, assessment in self.assessments.items()},
            "upgrades": [asdict(upgrade) | {"answer": upgrade.answer} for upgrade in self.upgrades],
            "unsafe": dict(self.unsafe),
            "undecided": dict(self.undecided),
            "recommendation": self.recommendation,
        }


def find_results(record: ComparisonRecord) -> Results:
    """Return what the completed runs show."""
    values = {
        subject: by_variant
        for subject in record.subjects
        if subject.role != "baseline"
        for by_variant in [_read_values(record, subject.key)]
        if subject.role not in ("cost", "shown", "time_to_saturation") or any(by_variant.values())
    }
    compared = compare(values, record.judged_by, record.references, seed=record.seed)
    ranked = compared[0]
    by_subject = {each.subject: each for each in compared}
    comparisons = sum(by_subject[subject].has_own_p(name) for name, subject in record.judged_by.items())
    from_first = sum(
        by_subject[subject].has_p(name)
        for name, subject in record.judged_by.items()
        if record.references[name] == record.names[0]
    )
    deciding = tuple(dict.fromkeys((record.ranked, *record.judged_by.values())))
    assessments = {
        name: assessment
        for subject in deciding
        for reference in dict.fromkeys(record.references.values())
        for name, assessment in _assess(record, by_subject[subject], reference, comparisons).items()
    }
    unmeasured = record.find_unmeasured(record.ranked)
    upgrades = find_upgrades(ranked, record.names, unmeasured, seed=record.seed) if record.versions else ()
    unsafe = {run.variant: run.unsafe for run in reversed(record.runs) if run.unsafe}
    undecided = {run.variant: run.undecided for run in reversed(record.runs) if run.undecided and run.variant not in unsafe}
    return Results(
        compared=compared,
        deciding=deciding,
        comparisons=comparisons,
        other_comparisons=sum(each.comparisons for each in compared) - from_first,
        agreements=tuple(
            compare_with_published(ranked.medians, record.published, ranked.subject.better, ranked.differ),
        ),
        assessments=assessments,
        upgrades=upgrades,
        unsafe=unsafe,
        undecided=undecided,
        recommendation=describe_upgrades(ranked, upgrades, unsafe, undecided)
        if record.versions
        else recommend(compared, assessments, unsafe, undecided, record.judged_by, record.references),
    )


def _read_values(record: ComparisonRecord, key: str) -> dict[str, ByRound]:
    """Return the values of ``key`` in the completed runs of each variant, by round."""
    values: dict[str, dict[int, float]] = {name: {} for name in record.names}
    for run in record.runs:
        value = run.values.get(key)
        if run.status == "completed" and value is not None:
            values[run.variant][run.round] = value
    return dict(values)


def _assess(record: ComparisonRecord, compared: Compared, reference: str, comparisons: int) -> dict[str, Assessment]:
    """Return the assessments of the variants whose own reference is ``reference`` and which ``compared`` decides.

    There are none without control, unless the scenario names the reference, and none where methods are ranked beside published figures. A variant that
    has no value in a completed run has no outcome: its other rounds may be better than the one that is missing.
    ``comparisons``: how many differences are adjusted together.
    """
    if record.published:
        return {}
    subject = compared.subject
    values = {name: standing.values for name, standing in compared.standings.items()}
    of_baseline = [each for each in record.subjects if each.role == "baseline" and each.metric == subject.metric]
    baseline: Mapping[str, ByRound] | None = None
    if subject.undegraded is not None:
        baseline = {name: dict.fromkeys(by_round, subject.undegraded) for name, by_round in values.items()}
    elif subject.relative_to is not None and subject.relative_to == record.baseline:
        baseline = {name: dict.fromkeys(by_round, 1.0) for name, by_round in values.items()}
    elif of_baseline and subject.relative_to is None:
        baseline = _read_values(record, of_baseline[0].key)
    differences = {
        variant.name: compared.standings[variant.name].own_difference
        for variant in record.variants
        if (variant.reference or CONTROL) == reference
        and variant.name not in (reference, record.names[0])
        and record.judged_by[variant.name] == subject
    }
    if not differences:
        return {}
    measure = MEASURES.get(subject.metric.partition(".")[0])
    grows = measure is not None and measure.unit == "ms" and subject.undegraded is None
    assessments = assess_variants(
        values,
        differences,
        baseline,
        better=subject.better,
        control=reference,
        comparisons=comparisons,
        seed=record.seed,
        partly="delays" if grows else "reduces",
    )
    for name, runs in record.find_unmeasured(subject).items():
        if name in assessments:
            assessments[name] = Assessment(outcome=None, reason=f"no value in {runs}")
    basis = [
        *([f"by {subject.key}"] if subject != record.ranked else []),
        *([f"compared with {reference}"] if reference != CONTROL else []),
    ]
    return {
        name: replace(one, reason=": ".join([*filter(None, [", ".join(basis)]), one.reason])) for name, one in assessments.items()
    }
