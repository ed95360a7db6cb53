"""The capacity of several workers, where theory or counting gives it exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stallbench.studies.forecast.capacity import CostModel, Load, find_capacity, find_limit, find_processor_share, find_throughput

MODEL = CostModel(claim_s=0.0005, dead_tuple_s=0.1e-6, other_s=0.0004, race=0.0, race_free_s=0.0)
LOAD = Load(rate=100, workers=4, work_s=0.01, cpus=4)


def capacity_at(dead: float, model: CostModel = MODEL, load: Load = LOAD) -> float:
    return float(find_capacity(model, load, [dead])[0])


@pytest.mark.parametrize("dead", [0, 10_000, 1_000_000])
def test_with_a_processor_each_workers_do_not_wait(dead: float) -> None:
    assert capacity_at(dead) == pytest.approx(4 / (0.01 + 0.0004 + 0.0005 + dead * 0.1e-6), rel=1e-6)


def test_with_one_processor_and_no_work_it_is_the_rate_of_the_processor() -> None:
    load = replace(LOAD, cpus=1, work_s=0.0)
    assert capacity_at(10_000, load=load) == pytest.approx(1 / (0.0009 + 0.001), rel=1e-3)


def test_one_processor_is_erlang_s_formula() -> None:
    load, cost_s = replace(LOAD, cpus=1), 0.004
    # The processor is idle with the probability that all four are at work: Erlang's loss formula, the processor as the source.
    ratio = load.work_s / cost_s
    idle = ratio**4 / 24 / sum(ratio**count / factorial for count, factorial in enumerate((1, 1, 2, 6, 24)))
    assert float(find_throughput(np.array([cost_s]), load)[0]) == pytest.approx((1 - idle) / cost_s, rel=1e-9)


@pytest.mark.parametrize("cpus", [1, 2, 4])
@pytest.mark.parametrize("race", [0.0, 0.5])
def test_at_the_limit_the_capacity_is_the_rate(cpus: int, race: float) -> None:
    model, load = replace(MODEL, race=race, race_free_s=0.001), replace(LOAD, cpus=cpus)
    limit = find_limit(model, load)
    assert limit > 0
    assert capacity_at(limit, model, load) == pytest.approx(load.rate, rel=1e-3)
    assert capacity_at(0.9 * limit, model, load) > load.rate > capacity_at(1.1 * limit, model, load)


def test_lost_races_lower_the_limit() -> None:
    assert find_limit(replace(MODEL, race=0.9), LOAD) < find_limit(MODEL, LOAD)


def test_more_work_more_jobs_or_fewer_workers_lower_the_limit() -> None:
    limit = find_limit(MODEL, LOAD)
    assert find_limit(MODEL, replace(LOAD, work_s=0.02)) < limit
    assert find_limit(MODEL, replace(LOAD, rate=150)) < limit
    assert find_limit(MODEL, replace(LOAD, workers=3)) < limit


def test_dead_tuples_that_cost_nothing_have_no_limit() -> None:
    assert find_limit(replace(MODEL, dead_tuple_s=0.0), LOAD) == np.inf


def test_a_fitted_cost_below_zero_counts_as_zero() -> None:
    model = replace(MODEL, dead_tuple_s=-1e-6)
    assert capacity_at(1_000_000, model) == capacity_at(0, model) > 0
    assert find_limit(model, LOAD) == np.inf


def test_a_rate_above_the_capacity_has_its_limit_at_zero() -> None:
    assert find_limit(MODEL, replace(LOAD, rate=1_000)) == 0


@pytest.mark.parametrize(("at_processors", "cpus", "share"), [(4.0, 2, 0.5), (4.0, 4, 1.0), (0.0001, 1, 1.0), (1.0, 4, 1.0)])
def test_a_worker_s_share_of_the_processors(at_processors: float, cpus: int, share: float) -> None:
    assert float(find_processor_share(np.array([at_processors]), 4, cpus)[0]) == pytest.approx(share, rel=1e-3)
