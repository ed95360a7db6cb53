"""Whether a mitigation helps, and what is recommended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stallbench.studies.comparison.assessment import assess_variants
from stallbench.studies.comparison.notes import find_notes
from stallbench.studies.comparison.record import ComparisonRecord
from stallbench.studies.comparison.results import Results, find_results
from stallbench.verdicts.baseline.statistics import find_difference
from tests.unit.made_up_comparison import Measured, make_made_up_record

DEGRADED = [8.0, 8.2, 7.9]
HEALTHY = [1.1, 1.0, 1.05]


def find(tmp_path: Path, measured: Measured, **changes: Any) -> Results:
    return find_results(make_made_up_record(measured, tmp_path, **changes)[1])


def find_outcomes(tmp_path: Path, measured: Measured, **changes: Any) -> dict[str, str | None]:
    return {name: assessment.outcome for name, assessment in find(tmp_path, measured, **changes).assessments.items()}


def test_each_outcome(tmp_path: Path) -> None:
    measured: Measured = {
        "control": DEGRADED,
        "cure": HEALTHY,
        "relief": [4.0, 4.2, 4.1],
        "nothing": [8.1, 8.0, 8.0],
        "poison": [12.0, 12.5, 12.1],
    }
    assert find_outcomes(tmp_path, measured) == {
        "cure": "works",
        "relief": "delays",
        "nothing": "does not help",
        "poison": "makes it worse",
    }


def test_better_than_the_baseline_works_too(tmp_path: Path) -> None:
    results = find(tmp_path, {"control": DEGRADED, "cure": [0.7, 0.8, 0.7]})
    assert results.assessments["cure"].outcome == "works"
    assert results.assessments["cure"].reason == "0 % of the degradation is left"


def test_a_metric_of_which_more_is_better(tmp_path: Path) -> None:
    said = {"metric": "completed.rate", "phase": "longtx", "better": "higher"}
    measured = {"control": [0.20, 0.21, 0.19], "cure": [0.98, 0.99, 1.0], "poison": [0.1, 0.09, 0.11]}
    assert find_outcomes(tmp_path, measured, comparison=said) == {"cure": "works", "poison": "makes it worse"}


def test_nothing_is_assessed_where_the_degradation_of_control_is_not_significant(tmp_path: Path) -> None:
    results = find(tmp_path, {"control": [1.1, 9.0, 1.2], "cure": [1.0, 1.0, 1.0]})
    assert results.assessments["cure"].outcome is None
    assert results.assessments["cure"].reason == "control degrades, but not significantly; more rounds may decide"


def test_nothing_is_assessed_where_control_does_not_degrade(tmp_path: Path) -> None:
    results = find(tmp_path, {"control": [1.0, 1.05, 0.9], "cure": [0.5, 0.5, 0.6]})
    assert results.assessments["cure"].outcome is None
    assert results.assessments["cure"].reason == "control does not degrade, so there is nothing to mitigate"
    assert (
        results.recommendation
        == "cure is first in claim_ms.p95 in longtx, with 0.5 times baseline, significantly ahead of all others."
    )


def test_two_rounds_give_no_outcome_and_no_recommendation(tmp_path: Path) -> None:
    results = find(tmp_path, {"control": DEGRADED[:2], "cure": HEALTHY[:2]})
    assert results.assessments["cure"].outcome is None
    assert results.assessments["cure"].reason == "not enough rounds"
    assert results.recommendation == "2 rounds are not enough for a recommendation; repeat at least 3 times: --repeat 3."


def test_a_variant_that_failed_too_often_has_no_outcome_and_the_others_have_one(tmp_path: Path) -> None:
    measured: Measured = {"control": DEGRADED, "cure": HEALTHY, "frail": [1.0, None, 1.0]}
    assert find_outcomes(tmp_path, measured) == {"cure": "works", "frail": None}


def test_nothing_is_assessed_without_control_or_beside_published_figures(tmp_path: Path) -> None:
    assert find_outcomes(tmp_path, {"a": DEGRADED, "b": HEALTHY}) == {}
    said = {"metric": "completed.rate", "phase": "longtx", "better": "higher", "published": {"there": {"control": 1.0}}}
    assert find_outcomes(tmp_path, {"control": DEGRADED, "b": HEALTHY}, comparison=said) == {}


def test_nothing_is_assessed_in_a_metric_of_the_whole_run(tmp_path: Path) -> None:
    results = find(tmp_path, {"control": DEGRADED, "b": HEALTHY}, expect=[])
    assert results.assessments["b"].reason == "the ranked metric has no baseline"


def test_a_quarter_of_the_degradation_may_be_left() -> None:
    def assess(value: float) -> str | None:
        rounds = {1: value, 2: value + 0.001, 3: value - 0.001}
        ranked = {"control": {1: 5.0, 2: 5.0, 3: 5.0}, "x": rounds}
        baseline = {name: {1: 1.0, 2: 1.0, 3: 1.0} for name in ranked}
        differences = {"x": find_difference(rounds, ranked["control"], seed=1)}
        found = assess_variants(ranked, differences, baseline, better="lower", control="control", comparisons=1, seed=1)
        return found["x"].outcome

    assert assess(1.95) == "works"
    assert assess(2.05) == "delays"


NOISY = {"control": [8.0, 10.5, 6.0], "cure": [1.0, 1.1, 1.05]}
"""The only difference of these two is significant; after three rounds it is not among three times as many."""


def test_a_difference_that_is_significant_only_alone_is_undecided(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    assert find_outcomes(tmp_path / "alone", NOISY) == {"cure": "works"}
    among_others = find(tmp_path, {**NOISY, "nothing": [8.1, 10.4, 6.2], "neither": [7.9, 10.6, 6.0]})
    assert among_others.comparisons == 3
    assert among_others.assessments["cure"].outcome == "undecided"
    assert among_others.assessments["cure"].reason == (
        "better, but not significantly after the adjustment for 3 comparisons; more rounds may decide"
    )
    assert among_others.recommendation == "No variant is shown to help; cure is undecided. More rounds (--repeat) may decide."


def test_what_a_mitigation_costs_does_not_count_as_a_comparison_of_the_ranked_metric(tmp_path: Path) -> None:
    """The ranked metric is the primary endpoint. Its p-values would otherwise depend on how many costs a page shows."""
    _, record = make_made_up_record(NOISY, tmp_path)
    alone = find_results(record)
    for run in record.runs:
        equal = {subject.key: 1.0 + 0.01 * run.round for subject in record.subjects if subject.role == "cost"}
        record = record.with_run(run.model_copy(update={"values": {**equal, **run.values}}))
    results = find_results(record)
    assert (results.comparisons, alone.other_comparisons) == (1, 0)
    assert results.other_comparisons > 5
    assert results.ranked.standings["cure"].difference == alone.ranked.standings["cure"].difference
    assert results.assessments["cure"].outcome == "works"


def test_the_adjustment_hides_no_cost(tmp_path: Path) -> None:
    _, record = make_made_up_record({"control": DEGRADED, "costly": HEALTHY, "cure": HEALTHY, "other": HEALTHY}, tmp_path)
    for run in record.runs:
        higher = [1.0, 1.6, 1.1][run.round - 1] if run.variant == "costly" else 0.0
        values = {**run.values, "claim_ms.p50 in baseline": 1.0 + higher + 0.01 * run.round}
        record = record.with_run(run.model_copy(update={"values": values}))
    results = find_results(record)
    (compared,) = [each for each in results.compared if each.subject.metric == "claim_ms.p50"]
    assert compared.standings["costly"].better is None, "not significant among three comparisons"
    assert compared.is_costlier("costly")


def test_the_first_that_works_is_recommended(tmp_path: Path) -> None:
    results = find(tmp_path, {"control": DEGRADED, "cure": HEALTHY, "other": [1.3, 1.2, 1.3], "relief": [4.0, 4.2, 4.1]})
    assert results.recommendation == (
        "Use cure: claim_ms.p95 in longtx is 1.05 times baseline instead of 8 times baseline, at no measured cost;"
        " other also works."
    )


def with_cost(record: ComparisonRecord, name: str, values: dict[str, float]) -> ComparisonRecord:
    for run in record.runs:
        record = record.with_run(
            run.model_copy(update={"values": {**run.values, name: values.get(run.variant, 1.0) + run.round / 100}})
        )
    return record


def test_a_variant_without_a_cost_is_recommended_before_one_that_is_slightly_better(tmp_path: Path) -> None:
    _, record = make_made_up_record({"control": DEGRADED, "costly": HEALTHY, "free": [1.3, 1.2, 1.3]}, tmp_path)
    results = find_results(with_cost(record, "claim_ms.p50 in baseline", {"costly": 2.0}))
    assert results.recommendation.startswith("Use free: ")


def test_a_cost_is_named(tmp_path: Path) -> None:
    _, record = make_made_up_record({"control": DEGRADED, "costly": HEALTHY}, tmp_path)
    results = find_results(with_cost(record, "claim_ms.p50 in baseline", {"costly": 2.0}))
    assert "at a cost: claim_ms.p50 in baseline 2.02 instead of 1.02." in results.recommendation


def test_a_difference_below_one_percent_is_no_cost_though_it_is_significant(tmp_path: Path) -> None:
    _, record = make_made_up_record({"control": DEGRADED, "costly": HEALTHY, "costlier": [1.3, 1.2, 1.3]}, tmp_path)
    results = find_results(with_cost(record, "claim_ms.p50 in baseline", {"costly": 1.009, "costlier": 1.02}))
    (compared,) = [each for each in results.compared if each.subject.metric == "claim_ms.p50"]
    assert compared.standings["costly"].better is False
    assert not compared.is_costlier("costly")
    assert compared.is_costlier("costlier")
    assert results.recommendation.endswith("at no measured cost; costlier also works.")


def test_a_delay_is_not_reported_as_preventing_the_degradation(tmp_path: Path) -> None:
    results = find(tmp_path, {"control": DEGRADED, "relief": [4.0, 4.2, 4.1], "nothing": [8.1, 8.0, 8.0]})
    assert results.recommendation.startswith("No variant is shown to prevent the degradation; relief delays it most: ")


def test_the_page_says_that_nothing_helps(tmp_path: Path) -> None:
    results = find(tmp_path, {"control": DEGRADED, "nothing": [8.1, 8.0, 8.0], "poison": [12.0, 12.5, 12.1]})
    assert results.recommendation == "None of the variants helps: claim_ms.p95 in longtx is unchanged or worse."


def test_a_queue_that_loses_or_re_executes_jobs_is_never_recommended(tmp_path: Path) -> None:
    _, record = make_made_up_record({"control": DEGRADED, "fast": [0.5, 0.5, 0.6], "cure": HEALTHY}, tmp_path)
    unsafe = next(run for run in record.runs if run.variant == "fast")
    results = find_results(record.with_run(unsafe.model_copy(update={"unsafe": "3 LOST"})))
    assert results.unsafe == {"fast": "3 LOST"}
    assert results.recommendation.startswith("Use cure: ")
    assert results.recommendation.endswith(" fast would be ahead, but is not safe.")


def test_a_queue_of_which_it_is_not_known_whether_it_lost_jobs_is_never_recommended(tmp_path: Path) -> None:
    _, record = make_made_up_record({"control": DEGRADED, "fast": [0.5, 0.5, 0.6], "cure": HEALTHY}, tmp_path)
    unknown = next(run for run in record.runs if run.variant == "fast")
    results = find_results(record.with_run(unknown.model_copy(update={"undecided": "3 unknown"})))
    assert (results.unsafe, results.undecided) == ({}, {"fast": "3 unknown"})
    assert results.recommendation.startswith("Use cure: ")
    assert results.recommendation.endswith(" fast would be ahead, but is not shown to be safe.")
    assert "fast is not shown to be safe: 3 unknown." in list(find_notes(record, results))


def test_ranked_methods_that_do_not_differ_significantly_are_named_together(tmp_path: Path) -> None:
    said = {"metric": "completed.rate", "phase": "longtx", "better": "higher", "published": {"there": {"control": 1.0}}}
    measured = {"control": [50.0, 51, 52], "a": [100.0, 110, 105], "b": [101.0, 108, 104]}
    results = find(tmp_path, measured, comparison=said)
    assert results.recommendation == "a is first in completed.rate in longtx, with 105, but does not differ significantly from b."


@pytest.mark.parametrize("rounds", [1, 3])
def test_no_value_at_all(rounds: int, tmp_path: Path) -> None:
    results = find(tmp_path, {"control": [None] * rounds, "a": [None] * rounds})
    assert results.recommendation == "No run has a value of claim_ms.p95 in longtx, so nothing can be recommended."
    assert results.ranked.standings["a"].rank is None
