"""The forecast from a run that followed a known cost model agrees with that model, and its interval includes the model's answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stallbench.studies.forecast.command import forecast_run
from stallbench.studies.forecast.cost_model import find_interval
from tests.unit.made_up_decline import (
    CLAIM_S,
    DEAD_TUPLE_S,
    HELD_S,
    KEPT_PER_JOB,
    OTHER_S,
    RATE,
    WORKERS,
    make_declining_run,
    make_seconds,
    when_it_saturates,
)


def test_the_cost_model_is_recovered(tmp_path: Path) -> None:
    make_declining_run(tmp_path)
    found = forecast_run(tmp_path, rate=None, workers=None, work=None)
    model = found.fit.model
    assert model.claim_s == pytest.approx(CLAIM_S, rel=0.02)
    assert model.dead_tuple_s == pytest.approx(DEAD_TUPLE_S, rel=0.02)
    assert model.other_s == pytest.approx(OTHER_S, rel=0.05)
    assert model.race == 0
    assert found.kept_per_job == pytest.approx(KEPT_PER_JOB, rel=0.02)
    assert found.fit.residual < 0.02


def test_noise_changes_the_forecast_little_and_the_confidence_interval_contains_the_truth(tmp_path: Path) -> None:
    make_declining_run(tmp_path, make_seconds(noise=0.15))
    found = forecast_run(tmp_path, rate=None, workers=None, work=None)
    low, high = found.fit.dead_tuple_s_interval
    assert low < DEAD_TUPLE_S < high
    assert high - low < 0.5 * DEAD_TUPLE_S
    after = found.time_to_saturation_s
    assert after is not None
    assert after.value == pytest.approx(when_it_saturates(), rel=0.2)
    assert after.low < when_it_saturates() < after.high
    assert 0.03 < found.fit.residual < 0.3


@pytest.mark.parametrize(
    ("rate", "workers", "work"),
    [
        (600, 3, "2ms"),
        (50, 8, "10ms"),
        pytest.param(100, 2, "10ms", marks=pytest.mark.long),
        pytest.param(1000, 8, "5ms", marks=pytest.mark.long),
        pytest.param(600, 6, "2ms", marks=pytest.mark.long),
    ],
)
def test_another_load_saturates_when_the_model_says(tmp_path: Path, rate: float, workers: int, work: str) -> None:
    seconds = make_seconds()
    run = make_declining_run(tmp_path, seconds)
    # As many processors as any of these loads has workers: the model's own answer includes no waiting for them.
    make_declining_run(tmp_path / "wide", seconds, host={**run.record.host.model_dump(), "cpus": 8})
    found = forecast_run(tmp_path / "wide", rate=rate, workers=workers, work=work)
    expected_s = when_it_saturates(rate, workers, float(work.removesuffix("ms")) / 1e3)
    assert found.time_to_saturation_s is not None
    assert found.time_to_saturation_s.value == pytest.approx(expected_s, rel=0.05)


def test_the_run_s_own_saturation_is_found_and_forecast(tmp_path: Path) -> None:
    make_declining_run(tmp_path)
    found = forecast_run(tmp_path, rate=None, workers=None, work=None)
    assert 0 < when_it_saturates() < HELD_S
    assert found.observed_time_to_saturation_s == pytest.approx(when_it_saturates(), abs=1.5)
    assert found.time_to_saturation_s is not None
    assert found.time_to_saturation_s.value == pytest.approx(when_it_saturates(), rel=0.05)


def test_the_backlog_after_an_hour_is_what_a_second_by_second_count_gives(tmp_path: Path) -> None:
    make_declining_run(tmp_path)
    found = forecast_run(tmp_path, rate=None, workers=None, work=None)
    counted = make_seconds(held_s=3600).iloc[-1]
    assert found.depth_after_hour is not None
    assert found.dead_after_hour is not None
    assert found.depth_after_hour.value == pytest.approx(counted["depth"], rel=0.03)
    assert found.dead_after_hour.value == pytest.approx(counted["dead_tuples"], rel=0.03)


def test_claims_are_slow_when_they_take_twice_as_long(tmp_path: Path) -> None:
    make_declining_run(tmp_path)
    found = forecast_run(tmp_path, rate=100, workers=WORKERS, work="2ms")
    assert found.slow_claims_after_s is not None
    assert found.slow_claims_after_s.value == pytest.approx(CLAIM_S / DEAD_TUPLE_S / KEPT_PER_JOB / 100, rel=0.05)


def test_a_queue_whose_claims_do_not_slow_down_never_saturates(tmp_path: Path) -> None:
    make_declining_run(tmp_path, make_seconds(dead_tuple_s=0.0, noise=0.1))
    found = forecast_run(tmp_path, rate=50, workers=8, work="10ms")
    assert not found.saturates
    assert found.time_to_saturation_s is None
    assert found.as_json()["time_to_saturation_s"] is None
    # Noise leaves room for a small cost, and the forecast says what follows from it.
    assert found.worst_time_to_saturation_s > 3600


def test_noise_in_the_completions_does_not_hide_slower_claims(tmp_path: Path) -> None:
    seconds = make_seconds(held_s=20)
    seconds["completed"] *= np.random.default_rng(2).uniform(0.5, 1.5, len(seconds))
    make_declining_run(tmp_path, seconds)
    found = forecast_run(tmp_path, rate=None, workers=None, work=None)
    assert find_interval([model.dead_tuple_s for _, model in found.fit.draws])[0] <= DEAD_TUPLE_S / 2, "the noise hides nothing"
    assert found.saturates
    assert found.time_to_saturation_s is not None
    assert found.time_to_saturation_s.value < HELD_S


def test_a_rate_above_the_capacity_without_dead_tuples_saturates_within_seconds(tmp_path: Path) -> None:
    make_declining_run(tmp_path)
    found = forecast_run(tmp_path, rate=2 * RATE, workers=1, work="10ms")
    assert found.time_to_saturation_s is not None
    assert found.time_to_saturation_s.value == pytest.approx(when_it_saturates(2 * RATE, 1, 0.01), rel=0.05)
    assert found.capacity.value == pytest.approx(1 / (0.010 + OTHER_S + CLAIM_S), rel=0.02)


def test_the_same_run_has_the_same_forecast(tmp_path: Path) -> None:
    make_declining_run(tmp_path, make_seconds(noise=0.15))
    once, again = (forecast_run(tmp_path, rate=50, workers=8, work="10ms").as_json() for _ in range(2))
    assert once == again


def test_warnings_name_what_the_run_does_not_show(tmp_path: Path) -> None:
    run = make_declining_run(tmp_path, make_seconds(noise=1.0))
    found = forecast_run(tmp_path, rate=1, workers=50, work="1ms")
    warnings = "\n".join(found.warnings)
    assert "far beyond the run" in warnings
    assert "50 workers are more than twice the 3 of the run" in warnings
    assert "of a second's service time unexplained" in warnings
    (hold,) = run.record.injections
    fault = {"name": "latency-1", "category": "fault", "kind": "latency", "on": "primary", "start_ns": hold.start_ns}
    make_declining_run(
        tmp_path / "disturbed", cpu_percent=97.0, status="aborted", injections=[hold.model_dump(mode="json"), fault]
    )
    warnings = "\n".join(forecast_run(tmp_path / "disturbed", rate=50, workers=3, work=None).warnings)
    assert "the run is aborted, not completed" in warnings
    assert "latency-1 disturbed the run" in warnings
    assert "the machine was 97 % busy already in the baseline" in warnings
