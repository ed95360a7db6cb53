"""What an observation records of the jobs that it counted, and which metrics of them are uncertain."""

from __future__ import annotations

import pytest

from stallbench.observe.job_samples import JobSamples
from stallbench.observe.postgres.job_counts import MOST_COUNTED, JobCounts
from stallbench.observe.postgres.queues import TOO_LONG

RIVER = JobCounts(ready=20, oldest_s=3.0)
EMPTY = JobCounts(ready=0, oldest_s=None)
MANY = JobCounts(ready=MOST_COUNTED + 1, oldest_s=50.0)
UNKNOWN_LIBRARY = JobCounts(ready=7, oldest_s=None)
NOT_COUNTED = JobCounts(ready=None, oldest_s=None, why_not=TOO_LONG)


def take(samples: JobSamples, *counts: JobCounts) -> dict[str, object]:
    """Take the samples of one look at the queues A, B and so on."""
    return {one.metric: one.value for one in samples.take(dict(zip("ABC", counts, strict=False)))}


def uncertain(samples: JobSamples) -> dict[str, tuple[str, bool]]:
    return {one.metric: (one.why, one.is_at_least) for one in samples.find_uncertain()}


def test_whole_counts_are_certain() -> None:
    samples = JobSamples()
    assert take(samples, RIVER, JobCounts(ready=4, oldest_s=9.0)) == {"depth": 24, "oldest_job_s": 9.0}
    assert take(samples, EMPTY, EMPTY) == {"depth": 0, "oldest_job_s": 0.0}, "no job, no age"
    assert not samples.find_uncertain()


def test_the_age_of_jobs_is_not_recorded_as_nought_if_no_one_knows_it() -> None:
    samples = JobSamples()
    assert take(samples, UNKNOWN_LIBRARY) == {"depth": 7}
    assert uncertain(samples) == {
        f"oldest_job_s.{statistic}": (f"the age of the jobs of A is not known, {when}", False)
        for statistic, when in [
            ("first", "at the first reading"),
            ("last", "at the last reading"),
            *((name, "at 1 of 1 reading") for name in ("min", "max", "mean", "slope")),
        ]
    }


def test_a_count_that_reached_its_limit_is_at_least_that() -> None:
    samples = JobSamples()
    assert take(samples, MANY) == {"depth": MOST_COUNTED + 1, "oldest_job_s": 50.0}
    assert take(samples, RIVER) == {"depth": 20, "oldest_job_s": 3.0}
    found = uncertain(samples)
    assert found["depth.max"] == ("A has more than 10,000 ready jobs, of which only 10,000 were read, at 1 of 2 readings", True)
    assert found["oldest_job_s.mean"][1]
    assert not found["depth.slope"][1], "a count that stays at its limit does not grow"
    assert "depth.first" in found
    assert "depth.last" not in found, "the last look saw all jobs"


@pytest.mark.parametrize("missing", [NOT_COUNTED, JobCounts(ready=None, oldest_s=None, why_not="refused")])
def test_the_sum_of_some_queues_is_at_least_that(missing: JobCounts) -> None:
    samples = JobSamples()
    assert take(samples, RIVER, missing) == {"depth": 20, "oldest_job_s": 3.0}
    assert uncertain(samples)["depth.last"] == (f"B was not counted ({missing.why_not}), at the last reading", True)


def test_the_last_figure_is_not_the_last_good_one() -> None:
    samples = JobSamples()
    take(samples, RIVER)
    assert take(samples, NOT_COUNTED) == {}
    found = uncertain(samples)
    assert found["depth.last"] == (f"A was not counted ({TOO_LONG}), at the last reading", False)
    assert found["depth.max"][1], "other looks do not make the largest figure smaller"
    assert not found["depth.min"][1]
    assert "depth.first" not in found


def test_without_a_queue_nothing_is_recorded() -> None:
    samples = JobSamples()
    assert take(samples) == {}
    assert uncertain(samples)["depth.last"] == ("no queue was counted, at the last reading", False)


def test_a_look_at_which_the_server_could_not_be_read_leaves_the_greatest_figure_open() -> None:
    samples = JobSamples()
    take(samples, RIVER)
    samples.miss()
    take(samples, RIVER)
    found = uncertain(samples)
    assert found["depth.max"] == ("the server could not be read, at 1 of 3 readings", True)
    assert "depth.last" not in found
