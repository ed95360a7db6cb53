"""One worker that a deployment replaces: which process ends and starts when, with processes that a test lets go on by hand."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.replacement import Replacement, ReplacementPolicy, RestartPolicy

CONSTANT = RestartPolicy(after_s=1.0, max_after_s=None, has_jitter=False)


class Worker:
    """A process that does nothing by itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.intended = "running"
        self.is_ready = False
        self.may_fail_to_start = False
        self.exit_code: int | None = None
        self.was_asked = False

    def poll(self) -> int | None:
        return self.exit_code

    def ask_to_stop(self) -> None:
        self.was_asked = True

    def stop(self, grace_s: float) -> None:
        self.exit_code = -15

    def kill(self) -> None:
        self.exit_code = -9

    def describe_end(self) -> str:
        return f"ended with exit code {self.exit_code}"

    def tail_log(self) -> str:
        return "; it printed last: too many clients"


class Fleet:
    """Starts replacements, and is the clock."""

    def __init__(self) -> None:
        self.started: list[Worker] = []
        self.now_s = 100.0

    def replace(self, old: Worker) -> Worker:
        self.started.append(Worker(f"worker-1-{len(self.started) + 2}"))
        return self.started[-1]


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    made = Fleet()
    monkeypatch.setattr("stallbench.injection.faults.replacement.time.monotonic", lambda: made.now_s)
    return made


def replace(
    fleet: Fleet, *, starts_first: bool = True, ready_for_s: float = 0.0, restarts: RestartPolicy | None = CONSTANT
) -> tuple[Worker, Any]:
    old: Any = Worker("worker-1")
    policy = ReplacementPolicy(starts_first=starts_first, grace_s=5.0, ready_for_s=ready_for_s, restarts=restarts)
    any_fleet: Any = fleet
    return old, Replacement(old, policy, any_fleet, random.Random(1))


def test_the_old_worker_is_asked_to_stop_when_the_new_one_has_been_ready_for_long_enough(fleet: Fleet) -> None:
    old, made = replace(fleet, ready_for_s=2.0)
    made.go_on()
    (new,) = fleet.started
    made.go_on()
    assert not old.was_asked
    new.is_ready = True
    made.go_on()
    fleet.now_s += 1.9
    made.go_on()
    assert not old.was_asked
    fleet.now_s += 0.2
    made.go_on()
    assert old.was_asked
    assert not made.is_complete
    old.exit_code = 0
    made.go_on()
    assert made.is_complete


def test_without_a_surge_the_new_worker_starts_when_the_old_one_has_ended(fleet: Fleet) -> None:
    old, made = replace(fleet, starts_first=False)
    made.go_on()
    assert old.was_asked
    assert not fleet.started
    old.exit_code = 0
    made.go_on()
    fleet.started[0].is_ready = True
    made.go_on()
    made.go_on()
    assert made.is_complete


def test_a_worker_that_outlives_its_grace_period_is_killed(fleet: Fleet) -> None:
    old, made = replace(fleet, starts_first=False)
    made.go_on()
    fleet.now_s += 5.1
    made.go_on()
    assert made.was_killed
    assert old.exit_code == -9
    assert len(fleet.started) == 1


def test_a_new_worker_that_could_not_start_is_started_again_after_the_delay(fleet: Fleet) -> None:
    old, made = replace(fleet)
    made.go_on()
    fleet.started[0].exit_code = 3
    made.go_on()
    assert fleet.started[0].intended == "restarted"
    assert made.take_failures() == ["ended with exit code 3; it printed last: too many clients"]
    assert made.take_failures() == []
    fleet.now_s += 0.9
    made.go_on()
    assert len(fleet.started) == 1
    fleet.now_s += 0.2
    made.go_on()
    assert len(fleet.started) == 2
    assert not old.was_asked


def test_without_restarts_it_ends_the_run(fleet: Fleet) -> None:
    _, made = replace(fleet, restarts=None)
    made.go_on()
    assert not fleet.started[0].may_fail_to_start
    fleet.started[0].exit_code = 3
    with pytest.raises(NotCarriedOutError, match="worker-1-2 did not get ready; it printed last: too many clients"):
        made.go_on()


def test_when_time_is_over_the_old_worker_stays_if_the_new_one_is_not_ready(fleet: Fleet) -> None:
    old, made = replace(fleet)
    made.go_on()
    assert made.wind_up()
    assert fleet.started[0].exit_code is not None
    assert fleet.started[0].intended == "killed"
    assert not old.was_asked


def test_when_time_is_over_the_old_worker_ends_if_the_new_one_is_ready(fleet: Fleet) -> None:
    old, made = replace(fleet, ready_for_s=60.0)
    made.go_on()
    fleet.started[0].is_ready = True
    assert not made.wind_up()
    assert old.was_asked
    old.exit_code = 0
    assert made.wind_up()
    assert fleet.started[0].exit_code is None


def test_a_constant_delay_does_not_grow() -> None:
    assert [CONSTANT.draw_delay_s(failures, random.Random(1)) for failures in (1, 2, 50)] == [1.0, 1.0, 1.0]


def test_back_off_doubles_the_delay_up_to_its_limit() -> None:
    policy = RestartPolicy(after_s=1.0, max_after_s=6.0, has_jitter=False)
    assert [policy.draw_delay_s(failures, random.Random(1)) for failures in (1, 2, 3, 4, 5_000)] == [1.0, 2.0, 4.0, 6.0, 6.0]


def test_jitter_draws_between_zero_and_the_whole_delay() -> None:
    policy, source = RestartPolicy(after_s=1.0, max_after_s=8.0, has_jitter=True), random.Random(1)
    drawn = [policy.draw_delay_s(4, source) for _ in range(1000)]
    assert 0 <= min(drawn) < 0.5
    assert 7.5 < max(drawn) <= 8
