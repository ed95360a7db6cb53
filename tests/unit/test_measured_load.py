"""A load that is a share of what the workers can do: who asks for one, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.comparison.plan import make_plan
from stallbench.measured_load import with_measured_load
from stallbench.scenario_file import read_scenario
from tests.unit.scenario_text import SMALL, find_lines, longrunners_here, read, write

__all__ = ["longrunners_here"]  # a fixture: pytest finds it by its name here

pytestmark = pytest.mark.usefixtures("longrunners_here")

SHARE = SMALL.replace("rate = 500", "capacity_share = 0.65")


def test_a_share_is_to_be_measured_until_there_is_a_rate(tmp_path: Path) -> None:
    scenario = read(tmp_path, SHARE)
    assert (scenario.producers.wants_rate, scenario.producers.has_load) == (True, True)
    rated = scenario.with_rate(588.4321)
    assert (rated.producers.wants_rate, rated.producers.rate, rated.producers.capacity_share) == (False, 588, 0.65)


@pytest.mark.parametrize("rate", [0, 300])
def test_a_rate_that_is_given_wins(rate: int, tmp_path: Path) -> None:
    scenario = read(tmp_path, SHARE, overrides=[f"producers.rate={rate}"])
    said: list[str] = []
    assert with_measured_load(scenario, said.append) is scenario
    assert (scenario.producers.wants_rate, scenario.producers.rate, said) == (False, rate, [])


@pytest.mark.parametrize(("rate", "change"), [(588.4321, "588"), (12.345, "12.3"), (0.0123456, "0.0123"), (1_000_000, "1e+06")])
def test_a_rate_that_was_measured_is_a_change_that_a_command_repeats(rate: float, change: str, tmp_path: Path) -> None:
    path = str(write(tmp_path, SHARE))
    rated = read_scenario(path, overrides=["workers.count=3"]).with_rate(rate)
    assert rated.changes == ("workers.count=3", f"producers.rate={change}")
    assert read_scenario(path, overrides=rated.changes) == rated


def test_all_that_are_compared_have_the_load_that_was_measured_once(tmp_path: Path) -> None:
    text = f'{SHARE}\n[variants.quick]\nworkers.count = 4\n[variants.slow]\nproducers.rate = 10\n[variants.other]\nqueue.kind = "skip_locked"\n'
    plan = make_plan(str(write(tmp_path, text)), variants=None, rounds=2, seed=1).with_rate(420)
    rates = {run.variant: plan.scenario_of(run).producers.rate for run in plan.runs}
    assert rates == {"control": 420, "quick": 420, "slow": 10, "other": 420}
    assert all("producers.rate=420" in plan.scenario_of(run).changes for run in plan.runs if run.variant != "slow")
    assert plan.scenario.changes == (), "it is measured anew when the command is repeated"


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("= 0.65", "= 0", "producers.capacity_share is 0; expected more than 0"),
        ("= 0.65", "= 65", "producers.capacity_share is 65; expected at most 10"),
        ("= 0.65", '= "65%"', 'producers.capacity_share is "65%"; expected a number'),
        (
            "capacity_share = 0.65",
            "",
            "producers.rate is missing; write it like rate = 500, or as a share, like capacity_share = 0.65",
        ),
        (
            "count = 2",
            "count = 0",
            "producers.capacity_share is of what the workers can do, but workers.count is 0; expected a rate",
        ),
        (
            'duration = "1s"',
            'duration = "1s"\nuntil = "drained"',
            'phases[0].until is "drained", but producers.capacity_share is 0.65, and the queue is never empty for long; expected rate = 0',
        ),
    ],
)
def test_a_share_that_cannot_be(old: str, new: str, line: str, tmp_path: Path) -> None:
    assert old in SHARE
    assert find_lines(tmp_path, SHARE.replace(old, new, 1)) == [line]
