"""A load that is a share of what the workers can do: who asks for one, how it is measured, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from stallbench.comparison.plan import make_plan
from stallbench.comparison.record import begin_comparison
from stallbench.comparison.report import format_command
from stallbench.errors import NotCarriedOutError
from stallbench.run.capacity import read_capacity, with_measured_load
from stallbench.run.folder import RunFolder
from stallbench.scenario.file import read_scenario
from tests.unit.scenario_text import SMALL, find_lines, longrunners_here, read, write

__all__ = ["longrunners_here"]  # a fixture: pytest finds it by its name here

pytestmark = pytest.mark.usefixtures("longrunners_here")

SHARE = SMALL.replace("rate = 500", "capacity_share = 0.65")
START_NS = 1_795_000_000_000_000_000


def log(path: Path, worker: int, completed_s: Iterable[float], *, empty_s: Iterable[float] = ()) -> None:
    """Write a worker's log: it claims at 0 s, and completes or finds nothing at the seconds that are given."""
    operations = [(0.0, "claimed"), *((at, "completed") for at in completed_s), *((at, "empty") for at in empty_s)]
    lines = [f"{START_NS + int(at * 1e9)},0,worker-{worker},{event},0,0,0,0,0\n" for at, event in sorted(operations)]
    events = RunFolder(path).events
    events.mkdir(exist_ok=True)
    (events / f"worker-{worker}.csv").write_text("".join(lines))


def every(step_s: float, until_s: float = 4.0) -> list[float]:
    return [step_s * number for number in range(1, int(until_s / step_s) + 1)]


def test_a_share_is_to_be_measured_and_becomes_a_rate(tmp_path: Path) -> None:
    scenario = read(tmp_path, SHARE)
    assert (scenario.producers.wants_rate, scenario.producers.has_load) == (True, True)
    rated = scenario.with_capacity(905.4321)
    assert (rated.producers.wants_rate, rated.producers.rate) == (False, 589)


def test_a_rate_is_not_measured(tmp_path: Path) -> None:
    scenario = read(tmp_path, SMALL)
    said: list[str] = []
    assert with_measured_load(scenario, said.append, tmp_path) is scenario
    assert said == []


@pytest.mark.parametrize("capacity", [905.4321, 12.345, 0.0123456, 1_500_000])
def test_what_was_measured_is_a_change_that_a_command_repeats(capacity: float, tmp_path: Path) -> None:
    path = str(write(tmp_path, SHARE))
    rated = read_scenario(path, overrides=["producers.capacity_share=0.5", "workers.count=3"]).with_capacity(capacity)
    assert rated.changes[:-1] == ("producers.capacity_share=0.5", "workers.count=3")
    assert read_scenario(path, overrides=rated.changes) == rated


WITH_JOBS = SHARE.replace('duration = "1s"', 'duration = "1s"\njobs = 1000', 1)


@pytest.mark.parametrize(("capacity", "duration_s"), [(4000, 1), (1000, 2), (1, 3)], ids=["quick", "slow", "standing still"])
def test_a_phase_of_so_many_jobs_lasts_longer_on_a_slow_machine(capacity: float, duration_s: float, tmp_path: Path) -> None:
    scenario = read(tmp_path, WITH_JOBS)
    rated = scenario.with_capacity(capacity)
    name = scenario.phases[0].name
    assert rated.phases[0].duration_s == duration_s
    assert (f"phases.{name}.duration={duration_s}s" in rated.changes) == (duration_s > 1)
    assert read(tmp_path, WITH_JOBS, overrides=rated.changes) == rated, "which a command repeats"


def test_a_longer_phase_is_told_to_the_last_digit(tmp_path: Path) -> None:
    text = WITH_JOBS.replace('duration = "1s"\njobs = 1000', 'duration = "33.3333333s"\njobs = 10_000_000')
    rated = read(tmp_path, text).with_capacity(1)
    assert read(tmp_path, text, overrides=rated.changes) == rated


def test_a_duration_that_somebody_gives_stands(tmp_path: Path) -> None:
    name = read(tmp_path, WITH_JOBS).phases[0].name
    given = read(tmp_path, WITH_JOBS, overrides=[f"phases.{name}.duration=0.5s"])
    assert given.with_capacity(100).phases[0].duration_s == 0.5
    both = read(tmp_path, WITH_JOBS, overrides=[f"phases.{name}.duration=2s", f"phases.{name}.jobs=195"])
    assert both.with_capacity(100).phases[0].duration_s == 3


def test_a_rate_that_somebody_gives_makes_no_phase_longer(tmp_path: Path) -> None:
    scenario = read(tmp_path, WITH_JOBS, overrides=["producers.rate=1"])
    assert scenario.with_capacity(100) is scenario


def test_of_a_rate_and_a_share_the_later_one_counts(tmp_path: Path) -> None:
    text = f"{SHARE}\n[variants.at_rate]\nproducers.rate = 10\n"
    share_again = ["producers.rate=3", "producers.capacity_share=0.9"]
    loads = [
        (each.producers.rate, each.producers.capacity_share)
        for each in (
            read(tmp_path, text, variant="at_rate"),
            read(tmp_path, text, variant="at_rate", overrides=["producers.capacity_share=0.5"]),
            read(tmp_path, text, overrides=["producers.rate=0"]),
            read(tmp_path, text, overrides=share_again),
        )
    ]
    assert loads == [(10, None), (0, 0.5), (0, None), (0, 0.9)]


def test_workers_that_keep_step_are_each_counted_by_themselves(tmp_path: Path) -> None:
    for worker in range(1, 9):
        log(tmp_path, worker, every(0.5))
    assert read_capacity(RunFolder(tmp_path), 8) == pytest.approx(16)


def test_the_first_second_does_not_count(tmp_path: Path) -> None:
    log(tmp_path, 1, [*every(0.1, 1.0), *(1 + at for at in every(0.01, 3.0))])
    log(tmp_path, 2, every(0.02))
    assert read_capacity(RunFolder(tmp_path), 2) == pytest.approx(150, rel=0.01)


def test_nothing_counts_once_the_queue_was_empty(tmp_path: Path) -> None:
    log(tmp_path, 1, [*every(0.01, 2.0), 2.5, 3.0, 3.5], empty_s=[2.01])
    assert read_capacity(RunFolder(tmp_path), 1) == pytest.approx(100, rel=0.02)


def test_a_worker_that_found_nothing_though_jobs_were_left_did_not_find_the_queue_empty(tmp_path: Path) -> None:
    log(tmp_path, 1, every(0.01), empty_s=[0.4])
    RunFolder(tmp_path).final_snapshot.write_text("17,queued\nend,1\n")
    assert read_capacity(RunFolder(tmp_path), 1) == pytest.approx(100, rel=0.02)
    RunFolder(tmp_path).final_snapshot.write_text("end,0\n")
    with pytest.raises(NotCarriedOutError, match=r"until 0\.4 s, when the queue was empty"):
        read_capacity(RunFolder(tmp_path), 1)


def test_the_time_in_which_a_worker_stood_still_counts(tmp_path: Path) -> None:
    log(tmp_path, 1, every(0.01))
    log(tmp_path, 2, [1.01, 1.02, 1.03, 1.04, 1.05, 4.0])
    assert read_capacity(RunFolder(tmp_path), 2) == pytest.approx(101.7, rel=0.01)


@pytest.mark.parametrize(
    ("completed_s", "empty_s", "told"),
    [
        (every(1.0), [], "worker-2 completed 4 jobs after its first second, and that was all; expected 5 or more: give a rate"),
        ([], [], "worker-2 completed 0 jobs after its first second, and that was all"),
        (every(0.01, 1.02), [1.03], "worker-1 completed 3 jobs after its first second, until 1.0 s, when the queue was empty"),
    ],
)
def test_too_few_jobs_tell_nothing(completed_s: list[float], empty_s: list[float], told: str, tmp_path: Path) -> None:
    log(tmp_path, 1, every(0.01))
    log(tmp_path, 2, completed_s, empty_s=empty_s)
    with pytest.raises(NotCarriedOutError, match=told):
        read_capacity(RunFolder(tmp_path), 2)


def test_a_worker_that_never_came_is_one_too_few(tmp_path: Path) -> None:
    log(tmp_path, 1, every(0.01))
    with pytest.raises(NotCarriedOutError, match="worker-2 completed 0 jobs"):
        read_capacity(RunFolder(tmp_path), 2)


def test_all_that_are_compared_have_their_share_of_what_was_measured_once(tmp_path: Path) -> None:
    text = f'{SHARE}\n[variants.slow]\nproducers.rate = 10\n[variants.other]\nqueue.kind = "skip_locked"\n'
    plan = make_plan(str(write(tmp_path, text)), variants=None, rounds=2, seed=1).with_capacity(1000)
    rates = {run.variant: plan.scenario_of(run).producers.rate for run in plan.runs}
    assert rates == {"control": 650, "slow": 10, "other": 650}
    assert plan.measured == (), "nor would a command with one rate repeat it, for it would give that to all"


def test_a_comparison_is_repeated_with_the_load_that_was_measured_if_it_was_that_of_every_run(tmp_path: Path) -> None:
    text = f'{SHARE}\n[variants.other]\nqueue.kind = "skip_locked"\n'
    plan = make_plan(str(write(tmp_path, text)), variants=None, rounds=2, seed=1).with_capacity(1000)
    _, record = begin_comparison(plan, tmp_path / "runs")
    assert format_command(record).endswith(" --seed 1 --set producers.rate=650")
    assert record.scenario.changes == (), "it is the scenario as it stands"


def test_shares_of_their_own_are_measured_anew_when_the_command_is_repeated(tmp_path: Path) -> None:
    text = f"{SHARE}\n[variants.more]\nproducers.capacity_share = 1.5\n"
    plan = make_plan(str(write(tmp_path, text)), variants=None, rounds=1, seed=1).with_capacity(1000)
    assert {run.variant: plan.scenario_of(run).producers.rate for run in plan.runs} == {"control": 650, "more": 1500}
    assert plan.measured == ()


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
            "capacity_share = 0.65",
            "capacity_share = 0.65\nrate = 500",
            "producers.capacity_share is given beside a rate; expected one of the two",
        ),
        (
            "count = 2",
            "count = 0",
            "producers.capacity_share is a share of what the workers can do, but workers.count is 0; expected a rate instead",
        ),
        (
            'duration = "1s"',
            'duration = "1s"\nuntil = "drained"',
            'phases[0].until is "drained", but producers.capacity_share is 0.65, so the queue is never empty for long; expected "caught_up", or rate = 0',
        ),
    ],
)
def test_a_share_that_cannot_be(old: str, new: str, line: str, tmp_path: Path) -> None:
    assert old in SHARE
    assert find_lines(tmp_path, SHARE.replace(old, new, 1)) == [line]
