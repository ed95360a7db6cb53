"""A fault that would do nothing is refused: the run would show it as active, and nothing of it."""

from __future__ import annotations

import pytest

from stallbench.scenario.file import ScenarioError, read_scenario
from stallbench.scenario.model import Scenario


def read_with(fault: str) -> Scenario:
    return read_scenario("baseline", overrides=["queue.kind=laravel", f"phases.baseline.faults=[{{{fault}}}]"])


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (
            'kind="burst",on="producers"',
            "at_once is 0, and so is rate: no job would be enqueued; expected at least one of them to be more",
        ),
        (
            'kind="clock_skew",on="workers"',
            "ahead is 0 s, and so is behind: no clock would change; expected two different values",
        ),
        (
            'kind="clock_skew",on="workers",ahead="2s",behind="2s"',
            "ahead is 2 s, and so is behind: no clock would change; expected two different values",
        ),
    ],
)
def test_a_fault_that_would_do_nothing_is_refused(fault: str, problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        read_with(fault)


@pytest.mark.parametrize(
    "fault",
    [
        'kind="burst",on="producers",rate=1',
        'kind="burst",on="producers",at_once=1',
        'kind="clock_skew",on="workers",ahead="2s"',
        'kind="clock_skew",on="workers",behind="2s"',
    ],
)
def test_one_of_the_options_is_enough(fault: str) -> None:
    assert read_with(fault).phases[1].faults
