"""The work times that `stallbench observe --record-profile` read are repeated: their mean, their 95th percentile, most often their median."""

from __future__ import annotations

import dataclasses
import random
import statistics
from pathlib import Path

import pytest

from stallbench.observe.profile.estimate import Load, estimate_load
from stallbench.observe.profile.file import write_profile
from stallbench.observe.profile.reading import LoadReading, Sampled
from stallbench.observe.profile.work_times import WorkTimes, find_work_times
from stallbench.queues.load_bounds import MOST_WORK_S
from stallbench.scenario.file import read_scenario

_RATE = 40.0
_EVERY_S = 5.0
_PHASE_S = 250.0
_DRAWN = random.Random(1)
_SHAPES = {
    "little spread": [_DRAWN.lognormvariate(-2, 0.3) for _ in range(500)],
    "much spread": [_DRAWN.lognormvariate(-2, 1.2) for _ in range(500)],
    "two kinds of jobs": [0.1] * 400 + [2.0] * 100,
    "as many of each kind": [0.1] * 251 + [2.0] * 249,
    "few, but very long": [0.1] * 470 + [30.0] * 30,
    "a long tail": [0.1] * 300 + [0.3] * 190 + [60.0] * 10,
}


def sampled_from(times_s: list[float]) -> Sampled:
    """What a reading at jobs with these work times sees."""
    percentiles = statistics.quantiles(times_s, n=20, method="inclusive")
    return Sampled(
        jobs=len(times_s),
        finished=len(times_s),
        work_s=statistics.fmean(times_s),
        work_p50_s=percentiles[9],
        work_p95_s=percentiles[18],
    )


def readings(sampled: Sampled | None) -> list[LoadReading]:
    return [
        LoadReading(at_s=n * _EVERY_S, inserted={7: round(n * _EVERY_S * _RATE)}, waiting=0, running=9, sampled=sampled)
        for n in range(13)
    ]


def load_with(sampled: Sampled | None) -> Load:
    return estimate_load(readings(sampled))


def times_of(found: WorkTimes) -> list[float]:
    """The work times of a thousand jobs, in ascending order."""
    longer = [group.takes_s for group in found.longer for _ in range(round(1000 * group.share))]
    return sorted([found.usual_s] * (1000 - len(longer)) + longer)


@pytest.mark.parametrize("shape", _SHAPES)
def test_mean_median_and_95th_percentile_are_those_of_the_jobs(shape: str) -> None:
    sampled = sampled_from(_SHAPES[shape])
    times_s = times_of(find_work_times(load_with(sampled), phase_s=_PHASE_S))
    assert statistics.fmean(times_s) == pytest.approx(sampled.work_s, rel=0.02)
    assert times_s[949] == pytest.approx(sampled.work_p95_s, rel=0.02)
    assert times_s[499] == pytest.approx(sampled.work_p50_s, rel=0.02)


def test_a_median_that_cannot_be_had_beside_the_mean_gives_way() -> None:
    """Half take 0.2 s and a twentieth 1 s, so that the rest takes less than the median."""
    sampled = Sampled(jobs=500, finished=500, work_s=0.2, work_p50_s=0.2, work_p95_s=1.0)
    times_s = times_of(find_work_times(load_with(sampled), phase_s=_PHASE_S))
    assert statistics.fmean(times_s) == pytest.approx(0.2)
    assert times_s[949] == pytest.approx(1.0)
    assert times_s[499] == pytest.approx((0.2 - 0.06 * 1.0) / 0.94)


def test_rare_jobs_that_take_all_of_the_time_keep_the_mean() -> None:
    sampled = Sampled(jobs=500, finished=500, work_s=0.55, work_p50_s=0.001, work_p95_s=10.0)
    times_s = times_of(find_work_times(load_with(sampled), phase_s=_PHASE_S))
    assert times_s[0] == 0
    assert statistics.fmean(times_s) == pytest.approx(0.55)


@pytest.mark.parametrize(
    ("sampled", "phase_s"),
    [
        (None, _PHASE_S),  # Little's law has only a mean
        (Sampled(jobs=500, finished=500, work_s=0.2), _PHASE_S),
        (Sampled(jobs=500, finished=500, work_s=0.2, work_p50_s=0.2, work_p95_s=0.23), _PHASE_S),  # all alike
        (
            Sampled(jobs=500, finished=100, work_s=0.2, work_p50_s=0.1, work_p95_s=2.0),
            _PHASE_S,
        ),  # the short ones of those that run
        (sampled_from(_SHAPES["two kinds of jobs"]), 2.4),  # 19.2 longer jobs
        (sampled_from(_SHAPES["a long tail"]), 49.9),  # 19.96 of the longest
        (
            Sampled(jobs=500, finished=500, work_s=2_000.0, work_p50_s=500.0, work_p95_s=7_000.0),
            80_000.0,
        ),  # longer than a scenario allows
        (Sampled(jobs=500, finished=500, work_s=100.0, work_p50_s=1.0, work_p95_s=2.0), 80_000.0),
        (Sampled(jobs=500, finished=500, work_s=100.0, work_p50_s=50.0, work_p95_s=300.0), _PHASE_S),  # longer than the phase
        (Sampled(jobs=500, finished=500, work_s=4_000.0, work_p50_s=3_900.0, work_p95_s=4_100.0), 80_000.0),
    ],
)
def test_every_job_takes_the_mean_if_the_spread_is_unknown_or_cannot_be_repeated(sampled: Sampled | None, phase_s: float) -> None:
    load = load_with(sampled)
    assert find_work_times(load, phase_s=phase_s) == WorkTimes(usual_s=min(load.work_s, MOST_WORK_S))


def test_twenty_longer_jobs_are_enough() -> None:
    assert find_work_times(load_with(sampled_from(_SHAPES["two kinds of jobs"])), phase_s=2.6).longer


def test_the_scenario_has_longer_jobs_beside_its_bursts(tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    steady = readings(sampled_from(_SHAPES["two kinds of jobs"]))
    twice = [dataclasses.replace(one, inserted={7: 2 * one.inserted[7] - 1_200}) for one in steady[6:]]
    of = [*steady[:6], *twice]
    write_profile(path, of, {"kind": "status_column"}, server="PostgreSQL 15", engine="postgres", every_s=_EVERY_S)
    scenario = read_scenario(str(path), variant="longtx")
    *bursts, longer = scenario.phases[-1].faults
    assert {burst.kind for burst in bursts} == {"burst"}
    assert (longer.kind, longer.on, longer.options) == ("long_jobs", "workers", {"takes": "2s", "share": 0.2})
    assert scenario.workers.work_s == pytest.approx(0.1)
    assert "lets 20.0% of the jobs take longer" in path.read_text()
    assert "95 % of them take at most 2s." in path.read_text()


def test_a_claim_outlasts_the_longest_job(tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    of = readings(sampled_from([0.1] * 470 + [58.0] * 30))
    write_profile(path, of, {"kind": "status_column"}, server="PostgreSQL 15", engine="postgres", every_s=_EVERY_S)
    scenario = read_scenario(str(path))
    (longer,) = scenario.phases[-1].faults
    assert longer.options["takes"] == "58s"
    assert scenario.queue.options["expire_after"] == 2 * 58
