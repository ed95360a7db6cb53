"""A comparison against a baseline: all rounds of a variant are judged together, and the outcome decides the exit code."""

from __future__ import annotations

import io
import json
import random
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from stallbench.commands.endings import conclude_study_and_exit
from stallbench.errors import EXIT_FAIL, EXIT_PASS
from stallbench.scenario.file import read_scenario
from stallbench.studies.baseline_collection import collect_baseline
from stallbench.studies.comparison.record import ComparisonFolder, ComparisonRecord
from stallbench.studies.comparison.screen import print_comparison
from stallbench.studies.regressions import decide_regressions
from stallbench.verdicts.baseline.against import BaselineChoice, write_against
from stallbench.verdicts.baseline.change import MetricComparison, choose_compared, find_changes
from stallbench.verdicts.baseline.compared_metric import ComparedMetric, choose_subjects
from stallbench.verdicts.baseline.statistics import find_unpaired_difference
from stallbench.verdicts.baseline.tolerance import read_tolerance
from tests.unit.made_up_baseline import EXPECT, LATENCY, RATE, RATIO, make_comparison
from tests.unit.made_up_comparison import conclude_comparison

pytestmark = pytest.mark.slow

STEADY = (10.0, 10.2, 9.8, 10.1, 9.9)
NOISY = (4.0, 16.0, 8.0, 13.0, 9.0)
Latencies = Mapping[str, Sequence[float | None]]


CompareAgainst = Callable[[Latencies, Latencies | None], ComparisonFolder]
"""What the fixture `compare_against` is."""


MakeComparison = Callable[[Latencies], ComparisonFolder]
"""What the fixture `make_once` is."""


@pytest.fixture(scope="module")
def make_once(tmp_path_factory: pytest.TempPathFactory) -> MakeComparison:
    """Makes a comparison of runs with these latencies, in a folder of its own; what most tests compare is the same, and they change only copies."""
    made: dict[str, ComparisonFolder] = {}

    def make(latencies: Latencies) -> ComparisonFolder:
        if (key := repr(latencies)) not in made:
            made[key] = make_comparison(tmp_path_factory.mktemp("runs"), latencies)
        return made[key]

    return make


@pytest.fixture
def compare_against(tmp_path: Path, make_once: MakeComparison) -> CompareAgainst:
    """Makes a comparison of runs of now, to be judged against the baseline of those of then; without a baseline if there was no then."""

    def compare(now: Latencies, then: Latencies | None) -> ComparisonFolder:
        made = make_once(now)
        shutil.copytree(made.runs, tmp_path, symlinks=True, dirs_exist_ok=True)
        folder = ComparisonFolder(tmp_path / made.path.name)
        if then is not None:
            known = make_once(then)
            write_against(folder.path, BaselineChoice(baseline=collect_baseline([str(known.path)], known.runs)))
        return folder

    return compare


def results_of(record: ComparisonRecord) -> dict[str, str]:
    return {finding.subject.removesuffix(" against the baseline"): finding.result for finding in record.regressions}


def exit_code_of(folder: ComparisonFolder) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        conclude_study_and_exit(folder.path)
    return ended.value.code


def test_without_a_baseline_there_is_nothing(compare_against: CompareAgainst) -> None:
    folder = compare_against({"control": STEADY, "skip_locked": STEADY}, None)
    record, _ = conclude_comparison(folder)
    assert (record.regressions, decide_regressions(record.regressions)) == ((), None)
    assert "against the baseline" not in (folder.path / "junit.xml").read_text()
    assert exit_code_of(folder) == EXIT_PASS


def test_each_variant_is_compared_with_its_own_runs(compare_against: CompareAgainst) -> None:
    worse = [14 + value / 100 for value in STEADY]
    folder = compare_against({"control": STEADY, "skip_locked": worse}, {"control": STEADY, "skip_locked": STEADY})
    record, _ = conclude_comparison(folder)
    assert results_of(record) == {
        f"{name}: {key}": "fail" if (name, key) == ("skip_locked", LATENCY) else "pass"
        for name in ("control", "skip_locked")
        for key in (LATENCY, RATIO, RATE)
    }
    assert decide_regressions(record.regressions) == "fail"
    assert exit_code_of(folder) == EXIT_FAIL


def test_noise_and_improvement_pass(compare_against: CompareAgainst) -> None:
    better = [value / 3 for value in STEADY]
    slightly_worse = [value * 1.3 for value in NOISY]
    folder = compare_against({"control": slightly_worse, "skip_locked": better}, {"control": NOISY, "skip_locked": STEADY})
    record, _ = conclude_comparison(folder)
    assert set(results_of(record).values()) == {"pass"}
    found = {finding.subject: finding.found for finding in record.regressions}
    assert "worse by 30.0%; not significant" in found[f"control: {LATENCY} against the baseline"]
    assert "better by 66.7%; significant" in found[f"skip_locked: {LATENCY} against the baseline"]
    assert exit_code_of(folder) == EXIT_PASS


def test_a_variant_that_the_baseline_does_not_have_is_info(compare_against: CompareAgainst) -> None:
    folder = compare_against({"control": STEADY, "skip_locked": STEADY}, {"control": STEADY, "no_recheck": STEADY})
    record, _ = conclude_comparison(folder)
    assert results_of(record)["skip_locked"] == "info"
    assert decide_regressions(record.regressions) == "pass"


def test_a_metric_that_only_another_variant_is_expected_to_have_is_not_missing() -> None:
    control = read_scenario("longtx", overrides=["producers.rate=100", EXPECT])
    other = read_scenario(
        "longtx", overrides=["producers.rate=100", 'expect=[{metric="history_list_length.max", phase="longtx", at_most=9}]']
    )
    subjects = choose_subjects([control, other])
    assert [subject.key for subject in choose_compared(subjects, control)] == [LATENCY, RATIO, RATE]
    assert [subject.key for subject in choose_compared(subjects, other)] == [LATENCY, "history_list_length.max in longtx"]


def test_if_the_records_of_runs_are_gone_it_is_unknown(compare_against: CompareAgainst) -> None:
    both = {"control": STEADY, "skip_locked": STEADY}
    folder = compare_against(both, both)
    record, _ = conclude_comparison(folder)
    gone = next(run.folder for run in record.runs if run.variant == "control")
    shutil.rmtree(folder.runs / (gone or "missing"))
    record, _ = conclude_comparison(folder)
    assert results_of(record)["control"] == "unknown"
    assert decide_regressions(record.regressions) == "unknown"
    assert exit_code_of(folder) == EXIT_FAIL


def test_a_round_without_a_value_does_not_leave_the_decision_to_the_others(compare_against: CompareAgainst) -> None:
    """No job was completed in two rounds, so they have no latency: a queue that stalls must not pass by its good rounds."""
    both = {"control": STEADY, "skip_locked": STEADY}
    stalled = [10.0, None, 9.8, None, 9.9]
    record, _ = conclude_comparison(compare_against({"control": STEADY, "skip_locked": stalled}, both))
    assert results_of(record)[f"skip_locked: {LATENCY}"] == "unknown"
    assert results_of(record)[f"skip_locked: {RATE}"] == "pass"
    reasons = [finding.reason for finding in record.regressions]
    assert f"skip_locked: {LATENCY}: it was not measured in 2 of 5 runs" in reasons
    assert decide_regressions(record.regressions) == "unknown"


@pytest.mark.parametrize("status", ["failed", "aborted", "planned"])
def test_runs_that_did_not_take_place_are_unknown_also_in_the_junit_file(compare_against: CompareAgainst, status: str) -> None:
    both = {"control": STEADY, "skip_locked": STEADY}
    folder = compare_against(both, both)
    record = folder.read()
    last = next(run for run in reversed(record.runs) if run.variant == "skip_locked")
    folder.write(record.with_run(last.model_copy(update={"status": status, "folder": None})))
    record, _ = conclude_comparison(folder)
    assert results_of(record)["skip_locked"] == "unknown"
    assert results_of(record)[f"skip_locked: {LATENCY}"] == "pass"
    cases = {case.get("name"): case for case in ET.parse(folder.path / "junit.xml").iter("testcase")}
    error = cases["skip_locked against the baseline"].find("error")
    assert error is not None
    assert error.get("message") == "skip_locked: 1 of its 5 runs was not completed, and may have been worse"


def test_the_pages_the_junit_file_and_the_terminal_have_it(compare_against: CompareAgainst) -> None:
    worse = [value * 2 for value in STEADY]
    folder = compare_against({"control": worse, "skip_locked": STEADY}, {"control": STEADY, "skip_locked": STEADY})
    record, results = conclude_comparison(folder)
    console = Console(file=io.StringIO(), width=300)
    print_comparison(record, results, "report.html", console)
    assert isinstance(console.file, io.StringIO)
    for text in (
        (folder.path / "report.html").read_text(),
        (folder.path / "summary.md").read_text(),
        console.file.getvalue(),
    ):
        assert "worse by 100.0%; significant" in text
    assert "Worse than the baseline." in console.file.getvalue()
    cases = {case.get("name"): case for case in ET.parse(folder.path / "junit.xml").iter("testcase")}
    assert [name for name in cases if name is not None and name.endswith(" against the baseline")] == [
        f"{name}: {key} against the baseline" for name in ("control", "skip_locked") for key in (LATENCY, RATIO, RATE)
    ]
    assert [name for name, case in cases.items() if case.find("failure") is not None] == [
        f"control: {LATENCY} against the baseline"
    ]
    kept = json.loads((folder.path / "study.json").read_text())["regressions"]
    assert [finding["result"] for finding in kept].count("fail") == 1


def test_significance_is_adjusted_for_how_many_metrics_are_compared() -> None:
    """Alone, this difference is significant; among ten metrics of which the others do not differ, it is not."""
    tolerance = read_tolerance(["0%"])
    subject = ComparedMetric(metric="depth.last", phase="longtx", role="expectation")
    clear = MetricComparison(subject=subject, now=[10.6, 11.3, 11.0], then=[10.0, 10.5, 10.1])
    alike = MetricComparison(subject=subject, now=[10.0, 10.5, 10.2], then=[10.0, 10.5, 10.1])
    assert [change.result for change in find_changes([clear], tolerance, seed=1)] == ["fail"]
    assert {change.result for change in find_changes([clear, *[alike] * 9], tolerance, seed=1)} == {"pass"}
    ranked = replace(clear, subject=subject.model_copy(update={"role": "ranked"}))
    of_families = find_changes([ranked, *[alike] * 9], tolerance, seed=1)
    assert of_families[0].result == "fail", "the ranked metric is a family of its own"


@pytest.mark.parametrize(
    ("values", "reference", "significant"),
    [
        ([12.0], [10.0], None),
        ([12.0], [10.0, 10.1], None),
        ([12.0], [10.0, 10.1, 9.9], True),
        ([10.2], [10.0, 10.1, 9.9], False),
        ([12.0, 12.1], [10.0, 10.1, 9.9], True),
        ([12.0, 12.1, 11.9], [10.0, 10.1, 9.9], True),
        ([12.0, 8.0, 10.5], [10.0, 10.1, 9.9], False),
        ([1.0], [0.0, 0.0, 0.0], True),
        ([0.0], [0.0, 0.0, 0.0], False),
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], False),
        ([5.0, 5.0, 5.0], [0.0, 0.0, 0.0], True),
    ],
)
def test_a_test_needs_several_runs_in_the_baseline(values: list[float], reference: list[float], significant: bool | None) -> None:
    assert find_unpaired_difference(values, reference, seed=1).is_significant is significant


def test_the_confidence_interval_agrees_with_published_methods() -> None:
    from scipy import stats

    values, reference = [12.0, 13.5, 12.7, 14.0], [10.0, 10.9, 9.7]
    welch = stats.ttest_ind(values, reference, equal_var=False)
    found = find_unpaired_difference(values, reference, seed=1)
    interval = welch.confidence_interval(0.95)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= interval.low + 1e-9
    assert found.high >= interval.high - 1e-9
    assert found.p is not None
    assert found.p >= welch.pvalue - 1e-12
    student = stats.ttest_ind([12.0], reference, equal_var=True)
    assert find_unpaired_difference([12.0], reference, seed=1).p == pytest.approx(student.pvalue)


@pytest.mark.parametrize(
    ("reference", "judged"), [(3, 1), (3, 3), *(pytest.param(5, judged, marks=pytest.mark.long) for judged in (1, 5))]
)
def test_equal_queues_are_called_different_no_more_often_than_stated(reference: int, judged: int) -> None:
    """The table in docs/ci.md has more pairs of each kind."""
    chance = random.Random(10 * reference + judged)
    trials, wrong = 300, 0
    for seed in range(trials):
        values, others = ([chance.gauss(0, 1) for _ in range(n)] for n in (judged, reference))
        wrong += bool(find_unpaired_difference(values, others, seed=seed).is_significant)
    assert wrong / trials < 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5
