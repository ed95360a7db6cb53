"""A load that is a share of the workers' capacity: how a scenario sets it, how the capacity is measured, and which rate results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from stallbench.errors import NotCarriedOutError
from stallbench.queues import find_queue
from stallbench.run import capacity as capacity_module
from stallbench.run.capacity import find_backlog_s, find_larger_backlog, measure_capacity, read_capacity, with_measured_load
from stallbench.run.folder import RunFolder
from stallbench.scenario.file import read_scenario
from stallbench.scenario.model import Scenario
from stallbench.studies.comparison.plan import make_plan
from stallbench.studies.comparison.record import begin_comparison
from stallbench.studies.comparison.report import format_command
from tests.unit.scenario_text import SMALL, find_lines, read, write

SHARE = SMALL.replace("rate = 500", "capacity_share = 0.65")
START_NS = 1_795_000_000_000_000_000


def write_log(path: Path, worker: int, completed_s: Iterable[float], *, empty_s: Iterable[float] = ()) -> None:
    """Write the log of a worker that claims at 0 s, completes jobs at ``completed_s``, and finds an empty queue at ``empty_s``."""
    operations = [(0.0, "claimed"), *((at, "completed") for at in completed_s), *((at, "empty") for at in empty_s)]
    lines = [f"{START_NS + int(at * 1e9)},0,worker-{worker},{event},0,0,0,0,0\n" for at, event in sorted(operations)]
    events = RunFolder(path).events
    events.mkdir(exist_ok=True)
    (events / f"worker-{worker}.csv").write_text("".join(lines))


def every(step_s: float, until_s: float = 4.0) -> list[float]:
    return [step_s * number for number in range(1, int(until_s / step_s) + 1)]


def test_a_share_of_the_capacity_becomes_a_rate(tmp_path: Path) -> None:
    scenario = read(tmp_path, SHARE)
    assert (scenario.producers.wants_rate, scenario.producers.has_load) == (True, True)
    rated = scenario.with_capacity(905.4321)
    assert (rated.producers.wants_rate, rated.producers.rate) == (False, 589)


def test_a_scenario_with_a_rate_needs_no_measurement(tmp_path: Path) -> None:
    scenario = read(tmp_path, SMALL)
    messages: list[str] = []
    assert with_measured_load(scenario, messages.append, tmp_path) is scenario
    assert messages == []


@pytest.mark.parametrize("capacity", [905.4321, 12.345, 0.0123456, 1_500_000])
def test_the_measured_load_is_a_change_that_a_command_can_repeat(capacity: float, tmp_path: Path) -> None:
    path = str(write(tmp_path, SHARE))
    rated = read_scenario(path, overrides=["producers.capacity_share=0.5", "workers.count=3"]).with_capacity(capacity)
    assert rated.changes[:-1] == ("producers.capacity_share=0.5", "workers.count=3")
    assert read_scenario(path, overrides=rated.changes) == rated


WITH_JOBS = SHARE.replace('duration = "1s"', 'duration = "1s"\njobs = 1000', 1)


@pytest.mark.parametrize(("capacity", "duration_s"), [(4000, 1), (1000, 2), (1, 3)], ids=["quick", "slow", "almost stopped"])
def test_a_phase_with_a_number_of_jobs_lasts_longer_on_a_slow_machine(capacity: float, duration_s: float, tmp_path: Path) -> None:
    scenario = read(tmp_path, WITH_JOBS)
    rated = scenario.with_capacity(capacity)
    name = scenario.phases[0].name
    assert rated.phases[0].duration_s == duration_s
    assert (f"phases.{name}.duration={duration_s}s" in rated.changes) == (duration_s > 1)
    assert read(tmp_path, WITH_JOBS, overrides=rated.changes) == rated, "a command can repeat it"


def test_the_duration_of_a_longer_phase_is_given_to_the_last_digit(tmp_path: Path) -> None:
    text = WITH_JOBS.replace('duration = "1s"\njobs = 1000', 'duration = "33.3333333s"\njobs = 10_000_000')
    rated = read(tmp_path, text).with_capacity(1)
    assert read(tmp_path, text, overrides=rated.changes) == rated


def test_a_duration_that_the_user_sets_is_kept(tmp_path: Path) -> None:
    name = read(tmp_path, WITH_JOBS).phases[0].name
    given = read(tmp_path, WITH_JOBS, overrides=[f"phases.{name}.duration=0.5s"])
    assert given.with_capacity(100).phases[0].duration_s == 0.5
    both = read(tmp_path, WITH_JOBS, overrides=[f"phases.{name}.duration=2s", f"phases.{name}.jobs=195"])
    assert both.with_capacity(100).phases[0].duration_s == 3


def test_a_rate_that_the_user_sets_makes_no_phase_longer(tmp_path: Path) -> None:
    scenario = read(tmp_path, WITH_JOBS, overrides=["producers.rate=1"])
    assert scenario.with_capacity(100) is scenario


def test_the_later_of_a_rate_and_a_share_counts(tmp_path: Path) -> None:
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


def test_the_rate_of_each_worker_is_computed_separately(tmp_path: Path) -> None:
    for worker in range(1, 9):
        write_log(tmp_path, worker, every(0.5))
    assert read_capacity(RunFolder(tmp_path), 8) == pytest.approx(16)


def test_the_warm_up_does_not_count(tmp_path: Path) -> None:
    write_log(tmp_path, 1, [*every(0.1, 1.0), *(1 + at for at in every(0.01, 3.0))])
    write_log(tmp_path, 2, every(0.02))
    assert read_capacity(RunFolder(tmp_path), 2) == pytest.approx(150, rel=0.01)


def test_completions_after_the_queue_was_empty_do_not_count(tmp_path: Path) -> None:
    write_log(tmp_path, 1, [*every(0.01, 2.0), 2.5, 3.0, 3.5], empty_s=[2.01])
    assert read_capacity(RunFolder(tmp_path), 1) == pytest.approx(100, rel=0.02)


def test_a_worker_without_a_job_does_not_end_the_measurement_if_jobs_are_left(tmp_path: Path) -> None:
    write_log(tmp_path, 1, every(0.01), empty_s=[0.4])
    RunFolder(tmp_path).final_snapshot.write_text("17,queued\nend,1\n")
    assert read_capacity(RunFolder(tmp_path), 1) == pytest.approx(100, rel=0.02)
    RunFolder(tmp_path).final_snapshot.write_text("end,0\n")
    with pytest.raises(NotCarriedOutError, match=r"until the queue was empty at 0\.4 s"):
        read_capacity(RunFolder(tmp_path), 1)


def test_the_time_in_which_a_worker_completed_nothing_counts(tmp_path: Path) -> None:
    write_log(tmp_path, 1, every(0.01))
    write_log(tmp_path, 2, [1.01, 1.02, 1.03, 1.04, 1.05, 4.0])
    assert read_capacity(RunFolder(tmp_path), 2) == pytest.approx(101.7, rel=0.01)


@pytest.mark.parametrize(
    ("completed_s", "empty_s", "message"),
    [
        (every(1.0), [], "worker-2 completed 4 jobs after its first second; expected 5 or more: give a rate"),
        ([], [], "worker-2 completed 0 jobs after its first second"),
        (every(0.01, 1.02), [1.03], "worker-1 completed 3 jobs after its first second, until the queue was empty at 1.0 s"),
    ],
)
def test_too_few_completions_are_an_error(completed_s: list[float], empty_s: list[float], message: str, tmp_path: Path) -> None:
    write_log(tmp_path, 1, every(0.01))
    write_log(tmp_path, 2, completed_s, empty_s=empty_s)
    with pytest.raises(NotCarriedOutError, match=message):
        read_capacity(RunFolder(tmp_path), 2)


def test_a_worker_without_events_is_an_error(tmp_path: Path) -> None:
    write_log(tmp_path, 1, every(0.01))
    with pytest.raises(NotCarriedOutError, match="worker-2 completed 0 jobs"):
        read_capacity(RunFolder(tmp_path), 2)


def test_all_variants_of_a_comparison_use_one_measured_capacity(tmp_path: Path) -> None:
    text = f'{SHARE}\n[variants.slow]\nproducers.rate = 10\n[variants.other]\nqueue.kind = "skip_locked"\n'
    plan = make_plan(str(write(tmp_path, text)), variants=None, rounds=2, seed=1).with_capacities({"control": 1000})
    rates = {run.variant: plan.scenario_of(run).producers.rate for run in plan.runs}
    assert rates == {"control": 650, "slow": 10, "other": 650}
    assert plan.measured == (), "a command with one rate would not repeat it: the rate would apply to all variants"


def test_the_command_that_repeats_a_comparison_sets_the_measured_rate_if_all_runs_had_it(tmp_path: Path) -> None:
    text = f'{SHARE}\n[variants.other]\nqueue.kind = "skip_locked"\n'
    plan = make_plan(str(write(tmp_path, text)), variants=None, rounds=2, seed=1).with_capacities({"control": 1000})
    _, record = begin_comparison(plan, tmp_path / "runs")
    assert format_command(record).endswith(" --seed 1 --set producers.rate=650")
    assert record.scenario.changes == (), "the scenario itself is unchanged"


def test_variants_with_different_shares_are_measured_again_when_the_command_is_repeated(tmp_path: Path) -> None:
    text = f"{SHARE}\n[variants.more]\nproducers.capacity_share = 1.5\n"
    plan = make_plan(str(write(tmp_path, text)), variants=None, rounds=1, seed=1).with_capacities({"control": 1000})
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
def test_an_invalid_share(old: str, new: str, line: str, tmp_path: Path) -> None:
    assert old in SHARE
    assert find_lines(tmp_path, SHARE.replace(old, new, 1)) == [line]


def test_an_interrupted_measurement_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "20260101T000000Z-small-measuring"

    @contextmanager
    def open_run(*arguments: object, **options: object) -> Iterator[SimpleNamespace]:
        folder.mkdir()
        yield SimpleNamespace(folder=RunFolder(folder))

    def interrupt(run: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(capacity_module, "open_run", open_run)
    monkeypatch.setattr(capacity_module, "_carry_out", interrupt)
    scenario = read_scenario(str(write(tmp_path, SMALL)))
    with pytest.raises(KeyboardInterrupt):
        measure_capacity(scenario, lambda _: None, tmp_path)
    assert not folder.exists()


def test_a_queue_that_is_empty_too_early_is_measured_again_with_more_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of a library execute many jobs at the same time: here 10 000 jobs/s, where one after the other would be 500."""
    backlogs: list[int] = []

    @contextmanager
    def open_run(measuring: Scenario, *arguments: object, **options: object) -> Iterator[SimpleNamespace]:
        folder = RunFolder(tmp_path / f"{len(backlogs)}")
        folder.path.mkdir()
        folder.final_snapshot.write_text("end,0\n")
        backlogs.append(measuring.producers.backlog)
        yield SimpleNamespace(folder=folder, backlog=measuring.producers.backlog)

    def complete_all(run: SimpleNamespace) -> None:
        for worker in (1, 2):
            write_log(run.folder.path, worker, every(1 / 5000, run.backlog / 10_000))

    monkeypatch.setattr(capacity_module, "open_run", open_run)
    monkeypatch.setattr(capacity_module, "_carry_out", complete_all)
    said: list[str] = []
    scenario = read(tmp_path, SMALL, overrides=["workers.work=4ms"])
    assert measure_capacity(scenario, said.append, tmp_path) == pytest.approx(10_000, rel=0.01)
    assert backlogs == [2_002, 50_000], "at most 50 000 jobs"
    assert said[1] == "the queue was empty after 0.2 s; measuring again with 50,000 jobs instead of 2,002"
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [], "the records of a measurement are removed"


def test_what_the_queue_needs_is_installed_before_the_measurement_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def open_run(*_: object, **__: object) -> Iterator[SimpleNamespace]:
        raise NotCarriedOutError("this is a test")
        yield

    monkeypatch.setattr(capacity_module, "open_run", open_run)
    scenario = read(tmp_path, SHARE)
    monkeypatch.setattr(find_queue(scenario.queue.kind), "require_programs", lambda say: say("installing it, once"))
    said: list[str] = []
    with pytest.raises(NotCarriedOutError, match="this is a test"):
        measure_capacity(scenario, said.append, tmp_path)
    assert said == ["installing it, once", "measuring what 2 workers can do: 4 s on a full queue"]


def test_a_larger_backlog_lasts_for_the_measurement() -> None:
    assert find_larger_backlog(8_000, 2.0, most=50_000) == 30_000
    assert find_larger_backlog(8_000, 3.9, most=50_000) == 16_000, "at least twice as many"
    assert find_larger_backlog(40_000, 2.0, most=50_000) == 50_000


def test_a_queue_with_jobs_at_the_end_was_never_empty(tmp_path: Path) -> None:
    write_log(tmp_path, 1, every(0.01, 2.0), empty_s=[1.5])
    RunFolder(tmp_path).final_snapshot.write_text("17,queued\nend,1\n")
    assert find_backlog_s(RunFolder(tmp_path)) == math.inf
    RunFolder(tmp_path).final_snapshot.write_text("end,0\n")
    assert find_backlog_s(RunFolder(tmp_path)) == pytest.approx(1.5)
