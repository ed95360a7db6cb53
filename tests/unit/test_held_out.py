"""For how long a queue holds out in a phase, from its depth second by second."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stallbench.comparison.time_to_saturation import find_time_to_saturation_s
from tests.unit.made_up_run import make_record, make_run, make_windows


def find(tmp_path: Path, depth: Callable[[int], float], phase: str = "longtx") -> float | None:
    run = make_run(
        tmp_path, make_record(), windows=make_windows(lambda t: 0, lambda t: 1.0).assign(depth=lambda w: w["t_s"].map(depth))
    )
    return find_time_to_saturation_s(run, phase)


@pytest.mark.parametrize(
    ("depth", "held_out_s"),
    [
        (lambda t: 0, 40.0),
        (lambda t: 100, 40.0),
        (lambda t: 101, 0.0),
        (lambda t: 0 if t < 35 else 500, 15.0),
        (lambda t: 500 if 25 <= t < 30 or t >= 45 else 0, 25.0),
        (lambda t: 500 if 25 <= t < 30 else 0, 40.0),
    ],
    ids=["never", "not more than a second's worth", "from the beginning", "at 15 s", "for good only at 25 s", "only for a while"],
)
def test_until_it_falls_behind_for_good(tmp_path: Path, depth: Callable[[int], float], held_out_s: float) -> None:
    assert find(tmp_path, depth) == held_out_s


def test_without_a_look_at_the_depth_nothing_is_known(tmp_path: Path) -> None:
    assert find(tmp_path, lambda t: float("nan")) is None
