"""Jobs with keys, and jobs of other queues: what is counted and measured of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from stallbench.pipeline import measurements
from stallbench.pipeline.early_claims import find_preconditions
from stallbench.pipeline.measurements import measure_events, measure_number
from stallbench.records.events import Event
from tests.pipeline.conftest import MakeTables, Parts, ReadParts, Tables
from tests.synthetic_run import PRODUCER, SyntheticRun

OTHER = 100
"""The number of the job of another queue."""


@pytest.fixture(scope="module")
def keyed(make: MakeTables, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """A run in which some keys are repeated and others skipped, at last ten thousand million at once; one job is of another queue."""
    run = SyntheticRun(tmp_path_factory.mktemp("keyed") / "run", phases={"baseline": 5, "leader": 5, "sparse": 3})
    keys = [(1, 10), (2, 11), (6, 14), (6.1, 14), (7, 14), (8, 11), (11, 15), (12, 10_000_000_014)]
    for job, (at_s, key) in enumerate(keys, start=1):
        run.event(Event.ENQUEUED, at_s=at_s, by=PRODUCER, job=job, intended_s=at_s, detail=f"key:{key}")
        run.execute(job, at_s=at_s + 0.1)
    run.event(Event.ENQUEUED, at_s=1, by=PRODUCER, job=OTHER, intended_s=1, detail="queue:noisy").execute(OTHER, at_s=9)
    return make(run.write(final_snapshot={}))


def test_repeated_and_skipped_keys_are_counted_and_the_default_queue_has_a_latency_of_its_own(keyed: Tables) -> None:
    phases = keyed("phases").set_index(["phase", "measure", "statistic"]).value
    of_phases = ("baseline", "leader", "sparse", "run")
    # The second and third of key 14, the second of key 11.
    assert [phases[phase, "repeated_keys", "count"] for phase in of_phases] == [0, 3, 0, 3]
    # 12 and 13, and then those between 15 and the last.
    assert [phases[phase, "skipped_keys", "count"] for phase in of_phases] == [0, 2, 9_999_999_998, 10_000_000_000]
    assert phases["leader", "latency_ms", "max"] > 7_000
    assert phases["leader", "default_queue_latency_ms", "max"] < 2_000


def test_keys_that_are_skipped_between_two_count_in_the_second_of_the_later_one(keyed: Tables) -> None:
    skipped = keyed("windows").set_index("t_s").skipped_keys
    assert skipped[skipped != 0].to_dict() == {6: 2, 12: 9_999_999_998}


def test_periodic_jobs_of_a_library_are_counted_by_their_periods_and_are_no_jobs_of_the_bench(
    make: MakeTables, tmp_path: Path
) -> None:
    run = SyntheticRun(tmp_path / "run", phases={"one": 5, "two": 5}).live(1, at_s=1)
    executed = [(1, 100, "a"), (2, 101, "b"), (2.5, 101, "b"), (6, 104, "c"), (7, 104, "d"), (8, 101, "e")]
    for at_s, period, job in executed:  # b is executed twice, but was inserted once
        run.event(Event.FIRED, at_s=at_s, by="worker-1", job=period, detail=job)
    tables = make(run.write(final_snapshot={}))
    phases = tables("phases").set_index(["phase", "measure", "statistic"]).value
    of_phases = ("one", "two", "run")
    assert [phases[phase, "repeated_keys", "count"] for phase in of_phases] == [0, 2, 2]  # the second of 104, and of 101
    assert [phases[phase, "skipped_keys", "count"] for phase in of_phases] == [0, 2, 2]  # 102 and 103
    assert [phases[phase, "fired", "count"] for phase in of_phases] == [3, 3, 6]
    assert tables("conservation").set_index("state").jobs.to_dict() == {"completed": 1, "enqueued": 1}


SPARSE: dict[str, tuple[Sequence[int | str], int]] = {
    "two that are far apart": ([1, 10_000_000_000], 9_999_999_998),
    "as far apart as numbers can be": ([-(2**63), 2**63 - 1], 2**63 - 3),
    "one": ([5], 0),
    "neighbours": ([3, 4, 5], 0),
    "below zero, out of order, and twice": ([7, -3, 0, 7], 8),
    "no numbers": (["a", "10", "b7", str(10**30), "12"], 1),
    "many": (list(range(0, 3000, 3)), 1998),
}


JOBS_OF_A_CASE = 10_000


@pytest.fixture(scope="module")
def parts(read_parts: ReadParts, tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """A run with the jobs of all cases, so many numbers for each."""
    run = SyntheticRun(tmp_path_factory.mktemp("sparse") / "run")
    for number, (keys, _) in enumerate(SPARSE.values()):
        for job, key in enumerate(keys, start=1 + number * JOBS_OF_A_CASE):
            at_s = job / 10_000
            run.event(Event.ENQUEUED, at_s=at_s, by=PRODUCER, job=job, intended_s=at_s, detail=f"key:{key}")
    return read_parts(run.write(final_snapshot={}))


@pytest.mark.parametrize("partitions", [pytest.param(1, marks=pytest.mark.long), 4])
@pytest.mark.parametrize("case", SPARSE)
def test_keys_may_be_far_apart(parts: Parts, monkeypatch: pytest.MonkeyPatch, case: str, partitions: int) -> None:
    keys, between = SPARSE[case]
    monkeypatch.setattr(measurements, "choose_partitions", lambda rows: partitions)
    preconditions = find_preconditions(parts.records.events)
    of_case = F.floor(preconditions.job_id / JOBS_OF_A_CASE) == list(SPARSE).index(case)
    measured = measure_events(
        parts.records, jobs=parts.jobs, executions=None, again=None, preconditions=preconditions.filter(of_case)
    )
    skipped = measured.filter(measured.measure == measure_number("skipped_keys")).collect()
    assert sum(row["weight"] for row in skipped) == between
    assert len(skipped) < len(keys)
    assert {row["value_ns"] for row in skipped} <= {None}
