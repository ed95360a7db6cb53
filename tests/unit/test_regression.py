"""A run that is compared with a baseline: worse fails, better and alike pass, and what cannot be compared is unknown."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from stallbench.report import make_report
from stallbench.verdicts import Finding, Verdict, judge
from stallbench.verdicts.baseline.against import AGAINST, BaselineChoice, write_against
from stallbench.verdicts.baseline.baseline_file import Baseline
from tests.unit.made_up_baseline import LATENCY, RATE, RATIO, make_baseline, make_made_up_run

pytestmark = pytest.mark.slow

SEVERAL = (10.0, 10.4, 9.8, 10.2, 9.6)


def judge_against(folder: Path, baseline: Baseline, *options: str, **changes: Any) -> Verdict:
    run = make_made_up_run(folder / "20300101T000000Z-longtx", **changes)
    write_against(run.folder, BaselineChoice(baseline=baseline, options=options))
    return judge(run)


def findings_of(verdict: Verdict) -> dict[str, Finding]:
    found = [finding for finding in verdict.findings if finding.check == "regression"]
    by_subject = {finding.subject.removesuffix(" against the baseline"): finding for finding in found}
    assert len(by_subject) == len(found)
    return by_subject


def test_it_compares_the_ranked_metric_and_those_of_expectations_that_have_a_direction(tmp_path: Path) -> None:
    assert list(findings_of(judge_against(tmp_path, make_baseline(tmp_path, [10.0])))) == [LATENCY, RATIO, RATE]


def test_the_same_values_pass(tmp_path: Path) -> None:
    verdict = judge_against(tmp_path, make_baseline(tmp_path, [10.0]))
    assert {finding.result for finding in findings_of(verdict).values()} == {"pass"}
    assert verdict.verdict == "pass"


@pytest.mark.parametrize(
    ("changes", "worse"), [({"latency": 12.5}, LATENCY), ({"ratio": 2.5}, RATIO), ({"rate": 75.0}, RATE)], ids=str
)
def test_worse_than_one_run_by_more_than_the_tolerance_fails(tmp_path: Path, changes: dict[str, float], worse: str) -> None:
    verdict = judge_against(tmp_path, make_baseline(tmp_path, [10.0]), **changes)
    results = {subject: finding.result for subject, finding in findings_of(verdict).items()}
    assert results == {LATENCY: "pass", RATIO: "pass", RATE: "pass", worse: "fail"}
    assert verdict.verdict == "fail"
    assert "worse by 25.0%; significance is not known: the baseline has 1 run" in verdict.reason


@pytest.mark.parametrize("changes", [{"latency": 2.0}, {"ratio": 0.5}, {"rate": 300.0}], ids=str)
def test_better_passes(tmp_path: Path, changes: dict[str, float]) -> None:
    verdict = judge_against(tmp_path, make_baseline(tmp_path, [10.0]), **changes)
    assert verdict.verdict == "pass"
    assert len([finding for finding in findings_of(verdict).values() if "better by" in finding.found]) == 1


def test_the_tolerance_may_be_of_one_metric(tmp_path: Path) -> None:
    baseline = make_baseline(tmp_path, [10.0])
    wide = judge_against(tmp_path / "wide", baseline, "10%", "latency_ms.p95=50%", latency=14.0)
    assert wide.verdict == "pass"
    narrow = judge_against(tmp_path / "narrow", baseline, "50%", "latency_ms.p95=10%", latency=14.0)
    assert findings_of(narrow)[LATENCY].result == "fail"
    in_its_unit = judge_against(tmp_path / "unit", baseline, "latency_ms.p95=3", latency=12.9)
    assert in_its_unit.verdict == "pass"
    assert findings_of(in_its_unit)[LATENCY].expected == "at most 13 (a tolerance of 3)"


def test_against_several_runs_only_a_significant_difference_fails(tmp_path: Path) -> None:
    steady = judge_against(tmp_path / "steady", make_baseline(tmp_path / "steady", SEVERAL), latency=14.0)
    assert findings_of(steady)[LATENCY].result == "fail"
    assert "; significant (p " in findings_of(steady)[LATENCY].found
    noisy = judge_against(tmp_path / "noisy", make_baseline(tmp_path / "noisy", [4.0, 16.0, 8.0, 13.0, 9.0]), latency=14.0)
    assert findings_of(noisy)[LATENCY].result == "pass"
    assert "worse by 40.0%; not significant" in findings_of(noisy)[LATENCY].found


def test_a_significant_difference_within_the_tolerance_passes(tmp_path: Path) -> None:
    verdict = judge_against(tmp_path, make_baseline(tmp_path, [10.0, 10.01, 9.99]), latency=11.5)
    assert "worse by 15.0%; significant" in findings_of(verdict)[LATENCY].found
    assert verdict.verdict == "pass"


def test_a_value_that_was_not_measured_is_unknown(tmp_path: Path) -> None:
    verdict = judge_against(tmp_path / "now", make_baseline(tmp_path / "now", [10.0]), latency=None)
    assert findings_of(verdict)[LATENCY].result == "unknown"
    assert findings_of(verdict)[LATENCY].reason == f"{LATENCY}: it was not measured"
    assert verdict.verdict == "unknown"
    verdict = judge_against(tmp_path / "then", make_baseline(tmp_path / "then", [None, None]))
    assert findings_of(verdict)[LATENCY].reason == f"{LATENCY}: it was not measured in the baseline"


def test_a_metric_that_the_baseline_does_not_have_is_unknown(tmp_path: Path) -> None:
    baseline = make_baseline(tmp_path, [10.0])
    ((name, known),) = baseline.variants.items()
    metrics = {key: metric for key, metric in known.metrics.items() if key != RATE}
    without = baseline.model_copy(update={"variants": {name: known.model_copy(update={"metrics": metrics})}})
    verdict = judge_against(tmp_path, without)
    assert {subject: finding.result for subject, finding in findings_of(verdict).items()}[RATE] == "unknown"
    assert verdict.verdict == "unknown"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"overrides": ["producers.rate=200"]}, "producers.rate is 200, in the baseline 100"),
        ({"overrides": ["phases.baseline.duration=7s"]}, "phases.baseline.duration_s is 7, in the baseline 8"),
        ({"overrides": ['queue={kind="skip_locked"}']}, "queue.kind is skip_locked, in the baseline que"),
        ({"variant": "skip_locked"}, "the baseline has no runs of skip_locked, but of control"),
        ({"version": "17.1"}, "the server is postgres 17.1, in the baseline postgres 16.4"),
        ({"servers": []}, "the version of the server is not known"),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value),
)
def test_another_load_queue_variant_or_server_is_unknown(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    verdict = judge_against(tmp_path, make_baseline(tmp_path, [10.0]), **changes)
    (finding,) = findings_of(verdict).values()
    assert (finding.result, finding.reason) == ("unknown", f"the run cannot be compared with the baseline: {reason}")


def test_another_scenario_is_unknown(tmp_path: Path) -> None:
    baseline = make_baseline(tmp_path, [10.0]).model_copy(update={"scenario": "retention"})
    (finding,) = findings_of(judge_against(tmp_path, baseline)).values()
    assert (finding.result, finding.reason.partition(": ")[2]) == ("unknown", "the baseline is of the scenario retention")


def test_on_a_machine_with_other_cpus_only_ratios_are_compared(tmp_path: Path) -> None:
    baseline = make_baseline(tmp_path, [10.0])
    larger = baseline.model_copy(update={"machine": baseline.machine.model_copy(update={"cpus": 16})})
    found = findings_of(judge_against(tmp_path / "alike", larger))
    assert {subject: finding.result for subject, finding in found.items()} == {LATENCY: "unknown", RATIO: "pass", RATE: "unknown"}
    assert "this machine has 2 CPUs, that of the baseline 16" in found[LATENCY].reason
    assert findings_of(judge_against(tmp_path / "worse", larger, ratio=3.0))[RATIO].result == "fail"


def test_a_minor_version_is_noted(tmp_path: Path) -> None:
    verdict = judge_against(tmp_path, make_baseline(tmp_path, [10.0]), version="16.6")
    note = findings_of(verdict)["no regression"]
    assert (note.result, verdict.verdict) == ("info", "pass")
    assert note.reason == "compared with the baseline although the server's version is 16.6, in the baseline 16.4"


def test_any_increase_from_zero_is_outside_of_a_percentage(tmp_path: Path) -> None:
    baseline = make_baseline(tmp_path, [0.0])
    assert findings_of(judge_against(tmp_path / "more", baseline, latency=1.0))[LATENCY].result == "fail"
    assert findings_of(judge_against(tmp_path / "none", baseline, latency=0.0))[LATENCY].result == "pass"
    assert findings_of(judge_against(tmp_path / "allowed", baseline, "latency_ms.p95=2", latency=1.0))[LATENCY].result == "pass"


def test_a_damaged_file_in_the_run_is_unknown(tmp_path: Path) -> None:
    run = make_made_up_run(tmp_path / "20300101T000000Z-longtx")
    (run.folder / AGAINST).write_text('{"baseline": {}')
    verdict = judge(run)
    (finding,) = findings_of(verdict).values()
    assert finding.result == "unknown"
    assert "damaged" in finding.reason
    assert verdict.verdict == "unknown"


def test_the_report_the_summary_and_the_junit_file_have_it(tmp_path: Path) -> None:
    verdict = judge_against(tmp_path, make_baseline(tmp_path, [10.0]), latency=20.0)
    run = make_made_up_run(tmp_path / "pages" / "20300101T000000Z-longtx")
    page = make_report(run, verdict)
    assert "worse by 100.0%" in page.read_text()
    assert "worse by 100.0%" in (run.folder / "summary.md").read_text()
    cases = {case.get("name"): case for case in ET.fromstring((run.folder / "junit.xml").read_text()).iter("testcase")}
    case = cases[f"{LATENCY} against the baseline"]
    assert case.get("classname") == "20300101T000000Z-longtx.regression"
    assert case.find("failure") is not None
