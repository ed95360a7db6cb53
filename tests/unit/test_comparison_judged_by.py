"""By which metric each mitigation is judged, and what its value is without the problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stallbench.comparison.formatting import describe_adjustment
from stallbench.comparison.plan import Plan
from stallbench.comparison.record import begin_comparison
from stallbench.comparison.results import Results, find_results
from stallbench.comparison.subject import choose_subjects
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


def test_versions_are_judged_by_what_they_are_ranked_by(tmp_path: Path) -> None:
    _, record = begin_comparison(replace(plan_apart(), versions="postgres:15,postgres:16"), tmp_path)
    assert set(record.judged_by.values()) == {record.ranked}


def test_figures_of_the_phase_with_the_problem_are_no_costs() -> None:
    """A variant that completes more jobs in it writes more WAL for that reason."""

    def find_roles(phase: str) -> dict[str, str]:
        choice = {"metric": "claim_ms.mean", "phase": phase, "better": "lower", "undegraded": 0}
        return {subject.key: subject.role for subject in choose_subjects([make_scenario(comparison=choice)])}

    assert find_roles("longtx")["wal_bytes.rate in baseline"] == "cost"
    assert find_roles("baseline")["wal_bytes.rate in baseline"] == "shown"
