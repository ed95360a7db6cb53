"""Claim time against place, in a line that can be worked out by hand. `tests/end_to_end/test_laravel.py` has it of a real run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stallbench.pipeline.claim_growth import count_parts, make_growth_metrics
from tests.pipeline.conftest import ReadParts
from tests.synthetic_run import SyntheticRun

CLAIMS = 500

Growth = Callable[..., dict[str, float]]


def run_of(folder: Path, *, ms_each: float, backlog: int, ms_each_squared: float = 0) -> SyntheticRun:
    """A run in which each claim takes ``ms_each`` longer than the one before, from 2 ms on; every hundredth is stalled.

    ``ms_each_squared``: how much longer a claim takes with the square of its place.
    """
    run = SyntheticRun(folder / "run", phases={"drain": 60})
    run.record["scenario"]["producers"]["backlog"] = backlog
    for place in range(1, CLAIMS + 1):
        run.enqueue(place, at_s=-10 + place / 1000)
        stalled_ms = 1000 if place % 100 == 50 else 0
        run.claim(place, at_s=place / 10, took_ms=2 + ms_each * place + ms_each_squared * place**2 + stalled_ms).complete(
            place, at_s=place / 10 + 0.01
        )
    return run


@pytest.fixture(params=[1, 3])
def growth(read_parts: ReadParts, tmp_path: Path, request: pytest.FixtureRequest) -> Growth:
    """Return the line of such a run; its claims are sorted in one partition, or in several."""

    def compute(**story: float) -> dict[str, float]:
        parts = read_parts(run_of(tmp_path, backlog=CLAIMS, **story).write(final_snapshot={}))
        metrics = make_growth_metrics(count_parts(parts.records.events, CLAIMS, request.param))
        return dict(zip(metrics["statistic"], metrics["value"], strict=True))

    return compute


def test_a_claim_that_takes_longer_the_more_were_before_it(growth: Growth) -> None:
    line = growth(ms_each=0.01)
    assert line["slope_us"] == pytest.approx(10, rel=0.02)
    assert line["first_ms"] == pytest.approx(2.01, rel=0.02)
    assert line["last_ms"] == pytest.approx(7, rel=0.02)
    assert line["times"] == pytest.approx(7 / 2.01, rel=0.03)
    assert line["r2"] > 0.99


def test_a_claim_that_always_takes_the_same(growth: Growth) -> None:
    line = growth(ms_each=0)
    assert line["times"] == pytest.approx(1, rel=0.01)
    assert line["slope_us"] == pytest.approx(0, abs=0.1)


def test_a_line_that_begins_below_zero_is_not_followed_below_the_quickest_claims(growth: Growth) -> None:
    line = growth(ms_each=0, ms_each_squared=0.0004)
    assert line["first_ms"] < 0
    assert line["times"] == pytest.approx(line["last_ms"] / 2, rel=0.05)
