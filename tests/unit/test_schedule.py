"""An open-loop schedule depends on start and rate alone."""

from __future__ import annotations

import pytest

from producers.schedule import Schedule


def test_jobs_are_evenly_spaced() -> None:
    schedule = Schedule(rate=500)
    assert [schedule.due_ns(n) for n in range(3)] == [0, 2_000_000, 4_000_000]


def test_producers_take_turns_by_their_offsets() -> None:
    schedules = [Schedule(rate=250, offset_s=number / 500) for number in range(2)]
    due_ns = sorted(schedule.due_ns(n) for schedule in schedules for n in range(2))
    assert due_ns == [0, 2_000_000, 4_000_000, 6_000_000]


def test_the_first_job_is_due_at_once() -> None:
    assert Schedule(rate=1).due_count(0) == 1


@pytest.mark.parametrize("rate", [0.3, 1, 7, 333, 500, 2000, 99_999])
@pytest.mark.parametrize("offset_s", [0, 0.0013])
def test_exactly_the_jobs_whose_time_has_passed_are_due(rate: float, offset_s: float) -> None:
    schedule = Schedule(rate=rate, offset_s=offset_s)
    for elapsed_ns in (0, 1, 999_999, 1_000_000, 123_456_789, 3_600_000_000_000):
        count = schedule.due_count(elapsed_ns)
        assert count == 0 or schedule.due_ns(count - 1) <= elapsed_ns
        assert schedule.due_ns(count) > elapsed_ns


def test_a_long_run_does_not_drift() -> None:
    schedule = Schedule(rate=3)
    assert schedule.due_ns(3 * 86_400) == 86_400 * 1_000_000_000


def test_a_call_waits_for_a_full_batch_or_until_its_first_job_has_lingered() -> None:
    schedule = Schedule(rate=5)
    second_ns = 1_000_000_000
    assert schedule.call_ns(10, max_batch=50, linger_s=0) == schedule.due_ns(10) == 2 * second_ns
    assert schedule.call_ns(10, max_batch=50, linger_s=1.0) == 3 * second_ns
    assert schedule.call_ns(10, max_batch=3, linger_s=1.0) == schedule.due_ns(12)
