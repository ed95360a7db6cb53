"""What a mitigation comes to in a word, and what is recommended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stallbench.comparison.assessment import judge_variants
from stallbench.comparison.record import ComparisonRecord
from stallbench.comparison.results import Results, find_results
from tests.unit.made_up_comparison import Measured, make_made_up_record

HARMED = [8.0, 8.2, 7.9]
WELL = [1.1, 1.0, 1.05]


def find(tmp_path: Path, measured: Measured, **changes: Any) -> Results:
    return find_results(make_made_up_record(measured, tmp_path, **changes)[1])


def find_words(tmp_path: Path, measured: Measured, **changes: Any) -> dict[str, str | None]:
    return {name: judgement.word for name, judgement in find(tmp_path, measured, **changes).judgements.items()}


def test_each_word(tmp_path: Path) -> None:
    measured: Measured = {
        "control": HARMED,
        "cure": WELL,
        "relief": [4.0, 4.2, 4.1],
        "nothing": [8.1, 8.0, 8.0],
        "poison": [12.0, 12.5, 12.1],
    }
    assert find_words(tmp_path, measured) == {
        "cure": "works",
        "relief": "delays",
        "nothing": "does not help",
        "poison": "makes it worse",
    }


def test_better_than_the_baseline_works_too(tmp_path: Path) -> None:
    results = find(tmp_path, {"control": HARMED, "cure": [0.7, 0.8, 0.7]})
    assert results.judgements["cure"].word == "works"
    assert results.judgements["cure"].reason == "0 % of the harm is left"


def test_a_metric_of_which_more_is_better(tmp_path: Path) -> None:
    said = {"metric": "completed.rate", "phase": "longtx", "better": "higher"}
    measured = {"control": [0.20, 0.21, 0.19], "cure": [0.98, 0.99, 1.0], "poison": [0.1, 0.09, 0.11]}
    assert find_words(tmp_path, measured, comparison=said) == {"cure": "works", "poison": "makes it worse"}


def test_no_word_where_control_is_not_harmed(tmp_path: Path) -> None:
    results = find(tmp_path, {"control": [1.0, 1.1, 0.9], "cure": [0.5, 0.5, 0.6]})
    assert results.judgements["cure"].word is None
    assert results.judgements["cure"].reason == "control itself is not harmed: nothing to mend"
    assert (
        results.recommendation == "cure is first in claim_ms.p95 in longtx, with 0.5 times baseline, really ahead of all others."
    )


def test_no_word_and_no_advice_from_two_rounds(tmp_path: Path) -> None:
    results = find(tmp_path, {"control": HARMED[:2], "cure": WELL[:2]})
    assert results.judgements["cure"].word is None
    assert results.judgements["cure"].reason == "not enough rounds"
    assert results.recommendation == "2 rounds are not enough to recommend anything; at least 3 are, like --repeat 3."


def test_a_variant_that_failed_too_often_has_no_word_and_the_others_have(tmp_path: Path) -> None:
    measured: Measured = {"control": HARMED, "cure": WELL, "frail": [1.0, None, 1.0]}
    assert find_words(tmp_path, measured) == {"cure": "works", "frail": None}


def test_no_words_without_control_or_where_methods_are_ranked_against_published_figures(tmp_path: Path) -> None:
    assert find_words(tmp_path, {"a": HARMED, "b": WELL}) == {}
    said = {"metric": "completed.rate", "phase": "longtx", "better": "higher", "published": {"there": {"control": 1.0}}}
    assert find_words(tmp_path, {"control": HARMED, "b": WELL}, comparison=said) == {}


def test_no_words_for_the_whole_run_which_has_no_baseline(tmp_path: Path) -> None:
    results = find(tmp_path, {"control": HARMED, "b": WELL}, expect=[])
    assert results.judgements["b"].reason == "the ranked metric has no baseline to be held against"


def test_a_quarter_of_the_harm_is_the_border() -> None:
    def judge(value: float) -> str | None:
        rounds = {1: value, 2: value + 0.001, 3: value - 0.001}
        ranked = {"control": {1: 5.0, 2: 5.0, 3: 5.0}, "x": rounds}
        health = {name: {1: 1.0, 2: 1.0, 3: 1.0} for name in ranked}
        return judge_variants(ranked, health, better="lower", control="control", seed=1)["x"].word

    assert judge(1.95) == "works"
    assert judge(2.05) == "delays"


def test_the_first_that_works_is_recommended(tmp_path: Path) -> None:
    results = find(tmp_path, {"control": HARMED, "cure": WELL, "other": [1.3, 1.2, 1.3], "relief": [4.0, 4.2, 4.1]})
    assert results.recommendation == (
        "Use cure: claim_ms.p95 in longtx is 1.05 times baseline instead of 8 times baseline, at no cost that was measured;"
        " other would do too."
    )


def with_cost(record: ComparisonRecord, name: str, values: dict[str, float]) -> ComparisonRecord:
    for run in record.runs:
        record = record.with_run(
            run.model_copy(update={"values": {**run.values, name: values.get(run.variant, 1.0) + run.round / 100}})
        )
    return record


def test_what_costs_nothing_is_recommended_before_what_is_a_little_ahead(tmp_path: Path) -> None:
    _, record = make_made_up_record({"control": HARMED, "dear": WELL, "free": [1.3, 1.2, 1.3]}, tmp_path)
    results = find_results(with_cost(record, "claim_ms.p50 in baseline", {"dear": 2.0}))
    assert results.recommendation.startswith("Use free: ")


def test_a_cost_is_named(tmp_path: Path) -> None:
    _, record = make_made_up_record({"control": HARMED, "dear": WELL}, tmp_path)
    results = find_results(with_cost(record, "claim_ms.p50 in baseline", {"dear": 2.0}))
    assert "at a cost: claim_ms.p50 in baseline 2.02 instead of 1.02." in results.recommendation


def test_what_is_dearer_by_less_than_a_hundredth_costs_nothing_though_the_difference_is_real(tmp_path: Path) -> None:
    _, record = make_made_up_record({"control": HARMED, "dear": WELL, "dearer": [1.3, 1.2, 1.3]}, tmp_path)
    results = find_results(with_cost(record, "claim_ms.p50 in baseline", {"dear": 1.009, "dearer": 1.02}))
    (compared,) = [each for each in results.compared if each.subject.metric == "claim_ms.p50"]
    assert compared.standings["dear"].better is False
    assert not compared.is_dearer("dear", "control")
    assert compared.is_dearer("dearer", "control")
    assert results.recommendation.endswith("at no cost that was measured; dearer would do too.")


def test_what_only_delays_is_not_called_a_cure(tmp_path: Path) -> None:
    results = find(tmp_path, {"control": HARMED, "relief": [4.0, 4.2, 4.1], "nothing": [8.1, 8.0, 8.0]})
    assert results.recommendation.startswith("None of the variants mends it; relief delays it most: ")


def test_where_nothing_helps_it_says_so(tmp_path: Path) -> None:
    results = find(tmp_path, {"control": HARMED, "nothing": [8.1, 8.0, 8.0], "poison": [12.0, 12.5, 12.1]})
    assert results.recommendation == "None of the variants helps: claim_ms.p95 in longtx stays what it is, or gets worse."


def test_a_queue_that_loses_or_repeats_jobs_is_never_recommended(tmp_path: Path) -> None:
    _, record = make_made_up_record({"control": HARMED, "fast": [0.5, 0.5, 0.6], "cure": WELL}, tmp_path)
    broken = next(run for run in record.runs if run.variant == "fast")
    results = find_results(record.with_run(broken.model_copy(update={"broken": "3 LOST"})))
    assert results.broken == {"fast": "3 LOST"}
    assert results.recommendation.startswith("Use cure: ")
    assert results.recommendation.endswith(" fast would be ahead, but is not safe.")


def test_ranked_methods_that_cannot_be_told_apart_are_named_together(tmp_path: Path) -> None:
    said = {"metric": "completed.rate", "phase": "longtx", "better": "higher", "published": {"there": {"control": 1.0}}}
    measured = {"control": [50.0, 51, 52], "a": [100.0, 110, 105], "b": [101.0, 108, 104]}
    results = find(tmp_path, measured, comparison=said)
    assert results.recommendation == "a is first in completed.rate in longtx, with 105, and cannot be told apart from b."


@pytest.mark.parametrize("rounds", [1, 3])
def test_no_value_at_all(rounds: int, tmp_path: Path) -> None:
    results = find(tmp_path, {"control": [None] * rounds, "a": [None] * rounds})
    assert results.recommendation == "No run gave a value of claim_ms.p95 in longtx, so nothing can be recommended."
    assert results.ranked.standings["a"].rank is None
