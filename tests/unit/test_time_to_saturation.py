"""When a queue is saturated, from its depth at each second."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd
import pytest

from stallbench.studies.saturation import find_time_to_saturation_s

RATE = 100


def find(depth: Callable[[int], float], rate: float = RATE) -> float | None:
    """Return the time to saturation in the seconds 20 to 59 of a run."""
    t_s = range(20, 60)
    return find_time_to_saturation_s(pd.DataFrame({"t_s": t_s, "depth": [float(depth(t)) for t in t_s]}), rate)


@pytest.mark.parametrize(
    ("depth", "time_s"),
    [
        (lambda t: 0, math.inf),
        (lambda t: 100, math.inf),
        (lambda t: 101, 0.0),
        (lambda t: 0 if t < 35 else 500, 15.0),
        (lambda t: 500 if 25 <= t < 30 or t >= 45 else 0, 25.0),
        (lambda t: 500 if 25 <= t < 30 else 0, math.inf),
    ],
    ids=["never", "not more than one second's worth", "from the start", "at 15 s", "permanently only at 25 s", "temporarily"],
)
def test_a_queue_is_saturated_from_when_more_than_one_second_s_worth_of_jobs_waits_until_the_end(
    depth: Callable[[int], float], time_s: float
) -> None:
    assert find(depth) == time_s


def test_seconds_without_a_sample_of_the_depth_are_left_out() -> None:
    assert find(lambda t: math.nan if t % 2 else 0 if t < 40 else 500) == 19


def test_without_a_sample_of_the_depth_or_without_a_rate_it_is_unknown() -> None:
    assert find(lambda t: math.nan) is None
    assert find(lambda t: 0, rate=0) is None
