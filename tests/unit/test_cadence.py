"""When a collector takes its next sample."""

from __future__ import annotations

from stallbench.run.sampling.sampler import Cadence


def test_samples_are_taken_at_equal_intervals_from_the_start() -> None:
    cadence = Cadence(1.0, 100.0)
    assert [cadence.next_s(began_s, began_s + 0.1) for began_s in (100.0, 101.0, 102.0)] == [101.0, 102.0, 103.0]
    assert cadence.missed == 0


def test_a_slow_collector_samples_less_often_and_the_missed_samples_are_counted() -> None:
    cadence = Cadence(1.0, 100.0)
    cadence.next_s(100.0, 100.1)
    assert cadence.next_s(101.0, 101.5) == 104.0, (
        "half a second is a quarter of the time only if no sample follows for 1.5 s more"
    )
    assert cadence.missed == 2


def test_a_slow_first_sample_delays_no_other_because_it_includes_the_connection() -> None:
    assert Cadence(1.0, 100.0).next_s(100.0, 101.5) == 102.0


def test_an_expensive_sample_is_followed_by_the_next_one_only_after_the_time_that_it_demands() -> None:
    cadence = Cadence(1.0, 100.0)
    cadence.next_s(100.0, 100.01, every_s=2.5)
    assert [cadence.next_s(began_s, began_s + 0.01, every_s=2.5) for began_s in (101.0, 104.0)] == [104.0, 107.0]
    assert cadence.next_s(107.0, 107.01, every_s=0.5) == 108.0
    assert cadence.missed == 4
