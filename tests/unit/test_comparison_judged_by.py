"""By which metric each mitigation is judged, and what its value is without the problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stallbench.studies.comparison.formatting import describe_adjustment
from stallbench.studies.comparison.notes import find_notes
from stallbench.studies.comparison.plan import Plan
from stallbench.studies.comparison.record import ComparisonRecord, begin_comparison
from stallbench.studies.comparison.results import Results, find_results
from stallbench.verdicts.baseline.compared_metric import choose_subjects
from tests.unit.made_up_comparison import Measured, make_made_up_plan, make_scenario
from tests.unit.test_comparison_assessment import DEGRADED, find, find_outcomes

COUNTED = {"metric": "errors.count", "better": "lower", "undegraded": 0}


def test_a_metric_with_an_undegraded_value_needs_no_baseline(tmp_path: Path) -> None:
    measured: Measured = {"control": [80.0, 82.0, 79.0], "cure": [2.0, 1.0, 3.0], "relief": [40.0, 41.0, 42.0]}
    results = find(tmp_path, measured, comparison=COUNTED)
    assert results.assessments["cure"].outcome == "works"
    assert results.assessments["relief"].outcome == "reduces"
    assert results.assessments["relief"].reason == "51 % of the degradation is left"


def test_an_undegraded_value_that_control_has_too_leaves_nothing_to_mitigate(tmp_path: Path) -> None:
    measured: Measured = {"control": [0.0, 0.0, 0.0], "cure": [0.0, 0.0, 0.0]}
    assert find(tmp_path, measured, comparison=COUNTED).assessments["cure"].reason == (
        "control does not degrade, so there is nothing to mitigate"
    )


def test_a_size_is_reduced_and_a_time_is_delayed(tmp_path: Path) -> None:
    def assess(metric: str) -> str | None:
        (tmp_path / metric).mkdir()
        choice = {"metric": metric, "phase": "longtx", "better": "lower"}
        return find_outcomes(tmp_path / metric, {"control": DEGRADED, "relief": [4.0, 4.2, 4.1]}, comparison=choice)["relief"]

    assert [assess("claim_ms.p95"), assess("table_bytes.last")] == ["delays", "reduces"]


OTHER = {"metric": "lost_race.count", "phase": "longtx", "better": "lower", "undegraded": 0}


def plan_apart() -> Plan:
    """Plan to compare two variants in `COUNTED`, by which only ``cure`` is judged; ``relief`` is judged by `OTHER`."""
    plan = make_made_up_plan(["control", "cure", "relief"], 3, comparison=COUNTED, expect=[])
    chosen = {**plan.chosen, "relief": make_scenario(variant="relief", comparison=COUNTED, expect=[], judged_by=OTHER)}
    return replace(plan, chosen=chosen, subjects=choose_subjects([plan.scenario, *chosen.values()]))


def judge_apart(tmp_path: Path, of_relief: Sequence[float]) -> Results:
    """Compare the variants of `plan_apart`. ``of_relief``: what ``relief`` has of `OTHER` in each round."""
    _, record = begin_comparison(plan_apart(), tmp_path)
    errors = {"control": 80.0, "cure": 1.0, "relief": 200.0}
    for run in record.runs:
        races = of_relief[run.round - 1] if run.variant == "relief" else 30.0 + run.round
        values = {"errors.count": errors[run.variant] + run.round, "lost_race.count in longtx": races}
        record = record.with_run(run.model_copy(update={"status": "completed", "verdict": "pass", "values": values}))
    return find_results(record)


def test_a_variant_is_judged_by_its_own_metric_and_ranked_by_that_of_all(tmp_path: Path) -> None:
    results = judge_apart(tmp_path, [1.0, 2.0, 1.5])
    assert results.ranked.by_rank == ["cure", "control", "relief"]
    assert {name: one.outcome for name, one in results.assessments.items()} == {"cure": "works", "relief": "works"}
    assert results.assessments["relief"].reason == "by lost_race.count in longtx: 5 % of the degradation is left"
    assert results.recommendation == (
        "Use cure: errors.count is 3 instead of 82, at no measured cost. "
        "relief works by lost_race.count in longtx: 5 % of the degradation is left."
    )


def test_a_variant_that_helps_only_in_what_others_are_judged_by_does_not_help(tmp_path: Path) -> None:
    assert judge_apart(tmp_path, [31.0, 33.0, 32.5]).assessments["relief"].outcome == "does not help"


def test_each_variant_counts_once_among_the_differences_that_decide(tmp_path: Path) -> None:
    results = judge_apart(tmp_path, [1.0, 2.0, 1.5])
    assert [subject.key for subject in results.deciding] == ["errors.count", "lost_race.count in longtx"]
    assert results.comparisons == 2
    assert results.comparisons + results.other_comparisons == sum(each.comparisons for each in results.compared)
    assert "over 2 comparisons in the metrics that variants are judged by, errors.count, lost_race.count in longtx" in (
        describe_adjustment(results)
    )


CLAIMS = {"metric": "claim_ms.p95", "phase": "longtx", "better": "lower"}
BY_SLOW = {**CLAIMS, "reference": "slow"}


def compare_with_slow(
    tmp_path: Path, of_remedy: Sequence[float], names: Sequence[str] = ("control", "slow", "remedy", "cure")
) -> tuple[ComparisonRecord, Results]:
    """Compare variants of which only ``remedy`` is compared with ``slow``; the others are compared with control, if it takes part."""
    plan = make_made_up_plan(names, 3, comparison=CLAIMS, expect=[])
    remedy = make_scenario(variant="remedy", comparison=CLAIMS, expect=[], judged_by=BY_SLOW)
    chosen = {**plan.chosen, "remedy": remedy}
    _, record = begin_comparison(
        replace(plan, chosen=chosen, subjects=choose_subjects([plan.scenario, *chosen.values()])), tmp_path
    )
    claim_ms = {"control": 8.0, "slow": 40.0, "cure": 1.5}
    for run in record.runs:
        now = of_remedy[run.round - 1] if run.variant == "remedy" else claim_ms[run.variant] + run.round / 10
        values = {
            "claim_ms.p95 in longtx": now,
            "claim_ms.p95 in baseline": 1.0,
            "wal_bytes.rate in baseline": 30.0 if run.variant in ("slow", "remedy") else 10.0 + run.round / 10,
        }
        record = record.with_run(run.model_copy(update={"status": "completed", "verdict": "pass", "values": values}))
    assert record.references["remedy"] == "slow"
    return record, find_results(record)


def judge_against_slow(tmp_path: Path, of_remedy: Sequence[float]) -> Results:
    """Return the results of `compare_with_slow`."""
    return compare_with_slow(tmp_path, of_remedy)[1]


def test_a_remedy_for_the_problem_of_another_variant_is_compared_with_that_one(tmp_path: Path) -> None:
    """It is worse than control, which does not have the problem."""
    results = judge_against_slow(tmp_path, [10.0, 10.3, 10.1])
    assert results.assessments["remedy"].outcome == "works"
    assert results.assessments["remedy"].reason == "compared with slow: 23 % of the degradation is left"
    assert results.assessments["slow"].outcome == "makes it worse"
    assert results.ranked.standings["remedy"].better is False, "the table shows the difference from control"
    assert results.recommendation.startswith("Use cure: ")
    assert results.recommendation.endswith(" remedy works compared with slow: 23 % of the degradation is left.")


def test_the_page_says_what_a_remedy_is_compared_with(tmp_path: Path) -> None:
    notes = list(find_notes(*compare_with_slow(tmp_path, [10.0, 10.3, 10.1])))
    (note,) = [each for each in notes if each.startswith("remedy ")]
    assert note.startswith(
        "remedy is compared with slow, because it is meant against its problem: the difference of claim_ms.p95 in longtx is −30"
    )
    assert ", p " in note


def test_a_remedy_that_is_no_better_than_its_own_reference_does_not_help(tmp_path: Path) -> None:
    assert judge_against_slow(tmp_path, [40.0, 40.4, 40.2]).assessments["remedy"].outcome == "does not help"


def test_both_differences_of_a_remedy_are_counted_once(tmp_path: Path) -> None:
    """The one from its own reference decides; the one from control is among the others."""
    results = judge_against_slow(tmp_path, [10.0, 10.3, 10.1])
    assert results.comparisons == 3
    shown = sum(each.comparisons for each in results.compared)
    assert results.other_comparisons == shown - 2


def test_what_a_remedy_costs_is_measured_from_its_own_reference(tmp_path: Path) -> None:
    results = judge_against_slow(tmp_path, [10.0, 10.3, 10.1])
    (wal,) = [each for each in results.compared if each.subject.metric == "wal_bytes.rate"]
    assert wal.is_costlier("slow")
    assert not wal.is_costlier("remedy"), "the variant that it is compared with writes as much"


def test_a_remedy_with_its_own_reference_needs_no_control(tmp_path: Path) -> None:
    _, results = compare_with_slow(tmp_path, [10.0, 10.3, 10.1], names=["slow", "remedy"])
    assert {name: one.outcome for name, one in results.assessments.items()} == {"remedy": "works"}


def test_versions_are_judged_by_what_they_are_ranked_by(tmp_path: Path) -> None:
    _, record = begin_comparison(replace(plan_apart(), versions="postgres:15,postgres:16"), tmp_path)
    assert set(record.judged_by.values()) == {record.ranked}
    assert set(record.references.values()) == {"control"}


def test_figures_of_the_phase_with_the_problem_are_no_costs() -> None:
    """A variant that completes more jobs in it writes more WAL for that reason."""

    def find_roles(phase: str) -> dict[str, str]:
        choice = {"metric": "claim_ms.mean", "phase": phase, "better": "lower", "undegraded": 0}
        return {subject.key: subject.role for subject in choose_subjects([make_scenario(comparison=choice)])}

    assert find_roles("longtx")["wal_bytes.rate in baseline"] == "cost"
    assert find_roles("baseline")["wal_bytes.rate in baseline"] == "shown"
