"""A server that has lost its last commits gives ids again: each confirmed enqueue is one job, and each of them is accounted for."""

from __future__ import annotations

import pytest

from stallbench.records.events import Event
from stallbench.records.job_ids import EARLIER_STEP, describe_job
from stallbench.verdicts.check import RunTables
from stallbench.verdicts.conservation import Conservation
from tests.pipeline.conftest import MakeTables, Tables
from tests.synthetic_run import SyntheticRun

USUAL, WAITING, COMPLETED, WORKED, CLAIMED, THRICE, LATER_LOST = range(1, 8)
AGAIN = range(WAITING, LATER_LOST + 1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SyntheticRun:
    """The power fails in second 2 and, for the last two jobs, once more in second 5."""
    run = SyntheticRun(tmp_path_factory.mktemp("reused") / "run", phases={"baseline": 10})
    run.process("worker-2").process("worker-dead", exit_code=-9)
    run.live(USUAL, at_s=0.5)
    for job in AGAIN:
        run.enqueue(job, at_s=1)
    run.execute(COMPLETED, at_s=1.1)
    run.claim(WORKED, at_s=1.2, by="worker-dead").work(WORKED, at_s=1.3, by="worker-dead")
    run.claim(CLAIMED, at_s=1.2).work(CLAIMED, at_s=4)
    run.complete(CLAIMED, at_s=4.1)  # it completes the job that it has claimed, by an id that another job has meanwhile
    for job in AGAIN:
        run.enqueue(job, at_s=3)
    for job in (WAITING, COMPLETED, WORKED):
        run.execute(job, at_s=3.5, by="worker-2")
    run.execute(THRICE, at_s=3.6).enqueue(THRICE, at_s=6)
    run.write(final_snapshot={THRICE: "queued"})
    return run


@pytest.fixture(scope="module")
def tables(run: SyntheticRun, make: MakeTables) -> Tables:
    return make(run.folder)


@pytest.mark.parametrize(
    ("job", "earlier", "later"),
    [
        pytest.param(WAITING, "lost", "completed", id="the earlier one was never executed"),
        pytest.param(COMPLETED, "completed", "completed", id="the earlier one was completed before the power failed"),
        pytest.param(WORKED, "completed_unrecorded", "completed", id="the earlier one was worked by a worker that died"),
        pytest.param(CLAIMED, "completed", "lost", id="the earlier one's worker completes it when its id is the later one's"),
        pytest.param(LATER_LOST, "lost", "lost", id="neither was executed"),
    ],
)
def test_each_job_has_a_state_of_its_own(tables: Tables, job: int, earlier: str, later: str) -> None:
    states = tables("jobs").set_index("job_id").state
    assert (states[-job], states[job]) == (earlier, later)


def test_an_id_may_be_given_more_than_twice(tables: Tables) -> None:
    states = tables("jobs").set_index("job_id").state
    assert (states[-THRICE], states[-THRICE - EARLIER_STEP], states[THRICE]) == ("lost", "completed", "queued")


def test_two_jobs_with_one_id_are_no_duplicate(tables: Tables) -> None:
    assert tables("duplicates").empty
    phases = tables("phases").set_index(["measure", "statistic", "phase"]).value
    assert phases["lost", "count", "run"] == 5


def test_every_enqueue_counts_and_the_lost_jobs_are_named(run: SyntheticRun, tables: Tables) -> None:
    counts = tables("conservation").set_index("state").jobs
    assert counts["enqueued"] == 1 + 2 * len(AGAIN) + 1
    (finding,) = Conservation().judge(RunTables(run.folder))
    assert finding.result == "fail"
    assert (
        "of 14 jobs enqueued: 5 lost (id 7 (assigned again), id 6 (assigned again), id 2 (assigned again), id 5, id 7)"
        in finding.reason
    )


@pytest.fixture(scope="module")
def of_later_jobs(make: MakeTables, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """One job is re-executed after its id has been assigned again; the claim of another expires after its id has been assigned again."""
    run = SyntheticRun(tmp_path_factory.mktemp("reused") / "run", phases={"baseline": 10})
    run.enqueue(COMPLETED, at_s=1).live(COMPLETED, at_s=3).execute(COMPLETED, at_s=4)
    run.enqueue(WAITING, at_s=1).claim(WAITING, at_s=1.5).enqueue(WAITING, at_s=3)
    run.event(Event.EXPIRED, at_s=3.5, by="worker-1", job=WAITING).execute(WAITING, at_s=4)
    return make(run.write(final_snapshot={}))


def test_a_real_second_completion_of_the_later_job_is_a_duplicate(of_later_jobs: Tables) -> None:
    duplicates = of_later_jobs("duplicates")
    assert list(duplicates.job_id) == [COMPLETED]
    assert list(duplicates.completions) == [2]


def test_a_worker_that_expires_a_claim_keeps_its_own_job(of_later_jobs: Tables) -> None:
    states = of_later_jobs("jobs").set_index("job_id").state
    assert (states[-WAITING], states[WAITING]) == ("lost", "completed")


def test_an_id_that_was_assigned_again_is_described() -> None:
    assert [describe_job(each) for each in (5, -5, -5 - EARLIER_STEP)] == ["5", "5 (assigned again)", "5 (assigned again)"]
