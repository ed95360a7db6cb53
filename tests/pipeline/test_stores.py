"""What the stores of the Aerospike article do to a run: jobs that a full queue refuses, and claims that nothing ever ends."""

from __future__ import annotations

import pytest

from stallbench.records.events import Event
from tests.pipeline.conftest import MakeTables, Tables
from tests.synthetic_run import PRODUCER, SyntheticRun

DONE, DIED_BEFORE_WORK, DIED_AFTER_WORK, QUEUED = range(1, 5)


@pytest.fixture(scope="module")
def tables(make: MakeTables, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """A queue that gives nothing back, and that is full after four jobs."""
    run = SyntheticRun(tmp_path_factory.mktemp("stores") / "run", phases={"baseline": 10}, promise="at_most_once")
    run.record["queue"]["rescues_jobs"] = False
    run.process("worker-dead", exit_code=-9)
    for job in range(DONE, QUEUED + 1):
        run.enqueue(job, at_s=0.1 + job / 100)
    for at_s in (-1.0, 1.0, 2.0):
        run.event(Event.REFUSED, at_s=at_s, by=PRODUCER, intended_s=at_s, detail="record too big")
    run.execute(DONE, at_s=1)
    run.claim(DIED_BEFORE_WORK, at_s=1, by="worker-dead")
    run.claim(DIED_AFTER_WORK, at_s=2, by="worker-dead").work(DIED_AFTER_WORK, at_s=2.1, by="worker-dead")
    return make(run.write(final_snapshot={DIED_BEFORE_WORK: "claimed", DIED_AFTER_WORK: "claimed", QUEUED: "queued"}))


def test_a_job_that_its_dead_worker_had_taken_is_lost_although_its_record_is_there(tables: Tables) -> None:
    assert tables("jobs").set_index("job_id").state.to_dict() == {
        DONE: "completed",
        DIED_BEFORE_WORK: "lost",
        DIED_AFTER_WORK: "completed_unrecorded",
        QUEUED: "queued",
    }


def test_what_a_full_queue_refused_is_counted_as_refused_and_not_lost(tables: Tables) -> None:
    conservation = tables("conservation").set_index("state").jobs.to_dict()
    assert conservation == {"completed": 1, "completed_unrecorded": 1, "enqueued": 4, "lost": 1, "queued": 1, "refused": 3}


def test_refusals_are_counted_in_the_phase_that_they_are_in(tables: Tables) -> None:
    phases = tables("phases")
    refused = phases[(phases.phase == "baseline") & (phases.measure == "refused") & (phases.statistic == "count")]
    assert list(refused.value) == [2]


def test_refusals_make_no_enqueue_doubtful(tables: Tables) -> None:
    assert "enqueue_unrecorded" not in set(tables("conservation").state)
