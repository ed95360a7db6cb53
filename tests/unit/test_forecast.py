"""A run that followed a known law is forecast as that law says, with an interval that has it in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stallbench.forecast.command import forecast_run
from stallbench.forecast.cost_model import find_interval
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
    when_it_falls_behind,
)


def test_the_law_is_found_again(tmp_path: Path) -> None:
    make_declining_run(tmp_path)
    found = forecast_run(tmp_path, rate=None, workers=None, work=None)
    law = found.fit.law
    assert law.claim_s == pytest.approx(CLAIM_S, rel=0.02)
    assert law.dead_tuple_s == pytest.approx(DEAD_TUPLE_S, rel=0.02)
    assert law.other_s == pytest.approx(OTHER_S, rel=0.05)
    assert law.race == 0
    assert found.kept_per_job == pytest.approx(KEPT_PER_JOB, rel=0.02)
    assert found.fit.residual < 0.02


def test_noise_moves_it_little_and_the_interval_says_how_much(tmp_path: Path) -> None:
    make_declining_run(tmp_path, make_seconds(noise=0.15))
    found = forecast_run(tmp_path, rate=None, workers=None, work=None)
    low, high = found.fit.dead_tuple_s_interval
    assert low < DEAD_TUPLE_S < high
    assert high - low < 0.5 * DEAD_TUPLE_S
    after = found.behind_after_s
    assert after is not None
    assert after.value == pytest.approx(when_it_falls_behind(), rel=0.2)
    assert after.low < when_it_falls_behind() < after.high
    assert 0.03 < found.fit.residual < 0.3


@pytest.mark.parametrize(
    ("rate", "workers", "work"), [(600, 3, "2ms"), (50, 8, "10ms"), (100, 2, "10ms"), (1000, 8, "5ms"), (600, 6, "2ms")]
)
def test_another_load_falls_behind_when_the_law_says(tmp_path: Path, rate: float, workers: int, work: str) -> None:
    seconds = make_seconds()
    run = make_declining_run(tmp_path, seconds)
    # As many processors as any of these loads has workers: the law's own answer knows no waiting for them.
    make_declining_run(tmp_path / "wide", seconds, host=run.record["host"] | {"cpus": 8})
    found = forecast_run(tmp_path / "wide", rate=rate, workers=workers, work=work)
    expected_s = when_it_falls_behind(rate, workers, float(work.removesuffix("ms")) / 1e3)
    assert found.behind_after_s is not None
    assert found.behind_after_s.value == pytest.approx(expected_s, rel=0.05)


def test_the_run_s_own_decline_is_found_and_forecast(tmp_path: Path) -> None:
    make_declining_run(tmp_path)
    found = forecast_run(tmp_path, rate=None, workers=None, work=None)
    assert 0 < when_it_falls_behind() < HELD_S
    assert found.fell_behind_after_s == pytest.approx(when_it_falls_behind(), abs=1.5)
    assert found.behind_after_s is not None
    assert found.behind_after_s.value == pytest.approx(when_it_falls_behind(), rel=0.05)


def test_the_backlog_after_an_hour_is_what_a_second_by_second_count_gives(tmp_path: Path) -> None:
    make_declining_run(tmp_path)
    found = forecast_run(tmp_path, rate=None, workers=None, work=None)
    counted = make_seconds(held_s=3600).iloc[-1]
    assert found.depth_after_hour is not None
    assert found.dead_after_hour is not None
    assert found.depth_after_hour.value == pytest.approx(counted["depth"], rel=0.03)
    assert found.dead_after_hour.value == pytest.approx(counted["dead_tuples"], rel=0.03)


def test_it_shows_when_a_claim_takes_twice_as_long(tmp_path: Path) -> None:
    make_declining_run(tmp_path)
    found = forecast_run(tmp_path, rate=100, workers=WORKERS, work="2ms")
    assert found.shows_after_s is not None
    assert found.shows_after_s.value == pytest.approx(CLAIM_S / DEAD_TUPLE_S / KEPT_PER_JOB / 100, rel=0.05)


def test_a_queue_whose_claims_do_not_slow_never_falls_behind(tmp_path: Path) -> None:
    make_declining_run(tmp_path, make_seconds(dead_tuple_s=0.0, noise=0.1))
    found = forecast_run(tmp_path, rate=50, workers=8, work="10ms")
    assert not found.falls_behind
    assert found.behind_after_s is None
    assert found.as_json()["behind_after_s"] is None
    # Noise leaves room for a small cost, and what that would come to is told.
    assert found.behind_at_worst_s > 3600


def test_noise_in_what_is_done_is_no_all_clear(tmp_path: Path) -> None:
    seconds = make_seconds(held_s=20)
    seconds["completed"] *= np.random.default_rng(2).uniform(0.5, 1.5, len(seconds))
    make_declining_run(tmp_path, seconds)
    found = forecast_run(tmp_path, rate=None, workers=None, work=None)
    assert find_interval([law.dead_tuple_s for _, law in found.fit.draws])[0] <= DEAD_TUPLE_S / 2, "the noise hides nothing"
    assert found.falls_behind
    assert found.behind_after_s is not None
    assert found.behind_after_s.value < HELD_S


def test_more_than_it_can_do_without_any_dead_tuple_falls_behind_at_once(tmp_path: Path) -> None:
    make_declining_run(tmp_path)
    found = forecast_run(tmp_path, rate=2 * RATE, workers=1, work="10ms")
    assert found.behind_after_s is not None
    assert found.behind_after_s.value == 0
    assert found.capacity.value == pytest.approx(1 / (0.010 + OTHER_S + CLAIM_S), rel=0.02)


def test_the_same_run_has_the_same_forecast(tmp_path: Path) -> None:
    make_declining_run(tmp_path, make_seconds(noise=0.15))
    once, again = (forecast_run(tmp_path, rate=50, workers=8, work="10ms").as_json() for _ in range(2))
    assert once == again


def test_what_it_does_not_know_it_says(tmp_path: Path) -> None:
    run = make_declining_run(tmp_path, make_seconds(noise=1.0))
    found = forecast_run(tmp_path, rate=1, workers=50, work="1ms")
    told = "\n".join(found.warnings)
    assert "far beyond what was seen" in told
    assert "50 workers are more than twice the 3 of the run" in told
    assert "of a second's service time unexplained" in told
    (hold,) = run.record["injections"]
    fault = {"name": "latency-1", "category": "fault", "kind": "latency", "on": "primary", "start_ns": hold["start_ns"]}
    make_declining_run(tmp_path / "disturbed", cpu_percent=97.0, status="aborted", injections=[hold, fault])
    told = "\n".join(forecast_run(tmp_path / "disturbed", rate=50, workers=3, work=None).warnings)
    assert "the run is aborted, not completed" in told
    assert "latency-1 disturbed the run" in told
    assert "the machine was busy to 97 % already in the baseline" in told
