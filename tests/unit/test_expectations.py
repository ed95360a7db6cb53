"""An expectation is compared with its bounds; without data it is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.base.number_text import format_value
from stallbench.verdicts import judge
from tests.unit.made_up_run import find_of, make_phases, make_record_with_expectation, make_run


@pytest.mark.parametrize(
    ("value", "bounds", "result"),
    [
        (6.0, {"at_least": 5}, "pass"),
        (5.0, {"at_least": 5}, "pass"),
        (4.9, {"at_least": 5}, "fail"),
        (4.9, {"at_most": 5}, "pass"),
        (5.1, {"at_most": 5}, "fail"),
        (5.0, {"at_least": 4, "at_most": 6}, "pass"),
    ],
)
def test_an_expectation_is_compared_with_its_bounds(tmp_path: Path, value: float, bounds: dict[str, float], result: str) -> None:
    record = make_record_with_expectation(metric="claim_ms.p95", phase="longtx", **bounds)
    run = make_run(tmp_path, record, phases=make_phases({("longtx", "claim_ms.p95"): value}))
    assert find_of(run, "expectations").result == result


def test_a_ratio_is_not_rounded_to_nothing(tmp_path: Path) -> None:
    record = make_record_with_expectation(metric="depth.last", phase="recovered", relative_to="longtx", at_most=0.25)
    run = make_run(tmp_path, record, phases=make_phases({("longtx", "depth.last"): 2226.0, ("recovered", "depth.last"): 1.0}))
    assert find_of(run, "expectations").found == "less than 0.01 times longtx (1 against 2,226)"


def test_a_bound_is_written_as_the_scenario_has_it_with_the_unit_of_the_measure(tmp_path: Path) -> None:
    record = make_record_with_expectation(metric="claim_ms.p95", phase="longtx", at_least=497.5, at_most=1_000_000)
    run = make_run(tmp_path, record, phases=make_phases({("longtx", "claim_ms.p95"): 497.7}))
    assert find_of(run, "expectations").expected == "at least 497.5 ms and at most 1,000,000 ms"


def test_a_relative_expectation_is_a_ratio_to_the_other_phase(tmp_path: Path) -> None:
    record = make_record_with_expectation(metric="claim_ms.p95", phase="longtx", relative_to="baseline", at_least=5)
    values = {("longtx", "claim_ms.p95"): 8.0, ("baseline", "claim_ms.p95"): 2.0}
    finding = find_of(make_run(tmp_path, record, phases=make_phases(values)), "expectations")
    assert finding.result == "fail"
    assert "4.00 times baseline (8 ms against 2 ms); expected at least 5 times baseline" in finding.reason


@pytest.mark.parametrize(
    ("metric", "bounds", "busy", "is_named"),
    [
        ("claim_ms.p50", {"at_most": 2}, (46.0, 99.6), True),
        ("completed.rate", {"at_most": 2}, (46.0, 99.6), True),
        ("claim_ms.p50", {"at_most": 2}, (46.0, 60.0), False),
        ("claim_ms.p50", {"at_most": 5}, (46.0, 99.6), False),
        ("dead_tuples.max", {"at_most": 2}, (46.0, 99.6), False),
    ],
    ids=["time", "rate", "the machine was about as busy", "the expectation holds", "count"],
)
def test_a_ratio_of_times_or_rates_that_fails_on_a_machine_that_became_busier_says_so(
    tmp_path: Path, metric: str, bounds: dict[str, float], busy: tuple[float, float], is_named: bool
) -> None:
    record = make_record_with_expectation(metric=metric, phase="recovered", relative_to="baseline", **bounds)
    values = {("baseline", metric): 1.0, ("recovered", metric): 3.0}
    values |= {("baseline", "cpu_percent.mean"): busy[0], ("recovered", "cpu_percent.mean"): busy[1]}
    finding = find_of(make_run(tmp_path, record, phases=make_phases(values)), "expectations")
    assert finding.reason.endswith("The machine's CPUs were 100 % in use in recovered, and 46 % in baseline") == is_named
    assert ("CPUs" in finding.reason) == is_named


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "claim_ms.p95 in longtx: it was not measured"),
        ({("longtx", "claim_ms.p95"): 8.0}, "the ratio cannot be computed: in baseline it is unknown"),
        (
            {("longtx", "claim_ms.p95"): 8.0, ("baseline", "claim_ms.p95"): 0.0},
            "the ratio cannot be computed: in baseline it is zero",
        ),
    ],
)
def test_an_expectation_without_data_is_unknown(tmp_path: Path, values: dict[tuple[str, str], float], reason: str) -> None:
    record = make_record_with_expectation(metric="claim_ms.p95", phase="longtx", relative_to="baseline", at_least=5)
    run = make_run(tmp_path, record, phases=make_phases({("run", "deadlocks.count"): 0.0, **values}))
    finding = find_of(run, "expectations")
    assert finding.result == "unknown"
    assert reason in finding.reason
    assert judge(run).verdict == "unknown"


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.51234, "0.512"), (8.2, "8.2"), (97.96, "98"), (997.9, "998"), (999.8, "1,000"), (6300.4, "6,300"), (7, "7")],
)
def test_a_figure_is_written_out_and_with_three_digits(value: float, written: str) -> None:
    assert format_value(value) == written
