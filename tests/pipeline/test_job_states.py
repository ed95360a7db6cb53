"""The state of each job: every job of this run has its own history, which the test of that job describes."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from stallbench.records.events import Event
from tests.pipeline.conftest import MakeTables, ReadParts, Tables
from tests.synthetic_run import PRODUCER, SyntheticRun, at_ns

COMPLETED, QUEUED, CLAIMED, DIED_BEFORE_WORK, DIED_AFTER_WORK, RAISED_AFTER_WORK = range(1, 7)
RETRIED, LOST_RACE, ONLY_IN_SNAPSHOT, NOBODY_ENQUEUED, FAILED_AND_GONE, COMPLETED_YET_QUEUED = range(7, 13)
LEFT_OVER, LEFT_OVER_AND_GONE = range(13, 15)
END_NOT_SEEN_AFTER_WORK = 15


@pytest.fixture(scope="module")
def tables(make: MakeTables, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    run = SyntheticRun(tmp_path_factory.mktemp("states") / "run", phases={"baseline": 10})
    run.process("worker-2").process("worker-dead", exit_code=-9)
    run.process("worker-external", exit_code=None, end_s=None, intended="running", external=True)
    for job in (*range(COMPLETED, LOST_RACE + 1), FAILED_AND_GONE, COMPLETED_YET_QUEUED, END_NOT_SEEN_AFTER_WORK):
        run.enqueue(job, at_s=0.1 + job / 100)
    run.execute(COMPLETED, at_s=1)
    run.claim(CLAIMED, at_s=1, by="worker-2")
    run.claim(DIED_BEFORE_WORK, at_s=1, by="worker-dead")
    run.claim(DIED_AFTER_WORK, at_s=2, by="worker-dead").work(DIED_AFTER_WORK, at_s=2.1, by="worker-dead")
    run.claim(END_NOT_SEEN_AFTER_WORK, at_s=2, by="worker-external")
    run.work(END_NOT_SEEN_AFTER_WORK, at_s=2.1, by="worker-external")
    run.claim(RAISED_AFTER_WORK, at_s=2).work(RAISED_AFTER_WORK, at_s=2.1)
    run.raise_error("OperationalError in complete: gone", at_s=2.2, job=RAISED_AFTER_WORK)
    run.claim(RETRIED, at_s=3).event(Event.FAILED, at_s=3.1, by="worker-1", job=RETRIED).execute(RETRIED, at_s=4, by="worker-2")
    run.event(Event.LOST_RACE, at_s=0.9, by="worker-2", job=LOST_RACE).execute(LOST_RACE, at_s=1)
    run.execute(NOBODY_ENQUEUED, at_s=5)
    run.claim(FAILED_AND_GONE, at_s=5).event(Event.FAILED, at_s=5.1, by="worker-1", job=FAILED_AND_GONE)
    run.execute(COMPLETED_YET_QUEUED, at_s=6)
    run.execute(LEFT_OVER, at_s=7).garble("left_over.csv", f"{LEFT_OVER},queued\n{LEFT_OVER_AND_GONE},claimed\nend,2\n".encode())
    final_snapshot = {QUEUED: "queued", CLAIMED: "claimed", ONLY_IN_SNAPSHOT: "queued", COMPLETED_YET_QUEUED: "queued"}
    return make(run.write(final_snapshot=final_snapshot))


@pytest.fixture(scope="module")
def jobs(tables: Tables) -> pd.DataFrame:
    return tables("jobs").set_index("job_id")


@pytest.mark.parametrize(
    ("job", "state"),
    [
        pytest.param(COMPLETED, "completed", id="completed"),
        pytest.param(RETRIED, "completed", id="completed at the second attempt"),
        pytest.param(COMPLETED_YET_QUEUED, "completed", id="completed, and yet in the queue"),
        pytest.param(QUEUED, "queued", id="never claimed"),
        pytest.param(ONLY_IN_SNAPSHOT, "queued", id="known only to the final snapshot"),
        pytest.param(CLAIMED, "claimed", id="claimed to the end"),
        pytest.param(DIED_BEFORE_WORK, "lost", id="gone with a worker that died before the work"),
        pytest.param(FAILED_AND_GONE, "lost", id="failed, and dropped by the queue"),
        pytest.param(LEFT_OVER, "completed", id="left over from before, and completed"),
        pytest.param(LEFT_OVER_AND_GONE, "lost", id="left over from before, and never seen again"),
        pytest.param(DIED_AFTER_WORK, "completed_unrecorded", id="worked by a worker that died before it could say so"),
        pytest.param(
            END_NOT_SEEN_AFTER_WORK, "completed_unrecorded", id="worked by an external worker that did not record its own end"
        ),
        pytest.param(RAISED_AFTER_WORK, "completed_unrecorded", id="worked, and the call that completed it raised"),
    ],
)
def test_the_state_of_a_job(jobs: pd.DataFrame, job: int, state: str) -> None:
    assert jobs.state[job] == state


def test_a_job_has_its_times_and_its_latency_counts_from_when_it_was_intended(jobs: pd.DataFrame) -> None:
    job = jobs.loc[COMPLETED]
    assert job.intended_ns == at_ns(0.109)
    assert job.enqueued_ns == at_ns(0.110)
    assert job.first_claimed_ns == at_ns(1)
    assert job.first_completed_ns == at_ns(1.02)
    assert job.latency_ms == pytest.approx(911)


@pytest.mark.parametrize(
    ("job", "claims", "executions", "completions", "failures", "last_process"),
    [
        (COMPLETED, 1, 1, 1, 0, "worker-1"),
        (QUEUED, 0, 0, 0, 0, PRODUCER),
        (RETRIED, 2, 2, 1, 1, "worker-2"),
        (DIED_BEFORE_WORK, 1, 1, 0, 0, "worker-dead"),
    ],
)
def test_operations_are_counted(
    jobs: pd.DataFrame, job: int, claims: int, executions: int, completions: int, failures: int, last_process: str
) -> None:
    row = jobs.loc[job]
    assert (row.claims, row.executions, row.completions, row.failures) == (claims, executions, completions, failures)
    assert row.last_process == last_process


def test_a_lost_race_is_no_claim(jobs: pd.DataFrame) -> None:
    assert (jobs.claims[LOST_RACE], jobs.executions[LOST_RACE]) == (1, 1)


def test_conservation_counts_every_job_once_by_state_and_once_by_origin(tables: Tables) -> None:
    conservation = tables("conservation").set_index("state")
    assert conservation.jobs.to_dict() == {
        "completed": 6,
        "queued": 2,
        "claimed": 1,
        "completed_unrecorded": 3,
        "lost": 3,
        "enqueued": 11,
        "left_over": 2,
        "unexpected": 2,
        "held_after_completion": 1,
    }
    assert list(conservation.examples["lost"]) == [DIED_BEFORE_WORK, FAILED_AND_GONE, LEFT_OVER_AND_GONE]
    assert list(conservation.examples["held_after_completion"]) == [COMPLETED_YET_QUEUED]
    assert list(conservation.examples["unexpected"]) == [ONLY_IN_SNAPSHOT, NOBODY_ENQUEUED]


def test_what_calls_raised_is_counted_by_kind_and_operation(tables: Tables) -> None:
    (error,) = tables("errors").to_dict("records")
    assert error | {"faults": list(error["faults"])} == {
        "phase": "baseline",
        "latest_phase": "baseline",
        "process": "worker-1",
        "event": "error",
        "kind": "OperationalError",
        "operation": "complete",
        "faults": [],
        "count": 1,
    }


SENT, NOT_SENT = 1, 2


@pytest.mark.parametrize("is_library", [False, True])
def test_a_worker_that_died_before_it_sent_the_completion_excuses_no_missing_job(
    read_parts: ReadParts, tmp_path: Path, is_library: bool
) -> None:
    run = SyntheticRun(tmp_path / "run").process("worker-2", exit_code=-9).process("worker-3", exit_code=-9)
    if is_library:
        run.record["queue"]["library"] = {"title": "x", "version": "1", "language": "y", "completion": "z", "rescue": "a claim"}
    for job, worker in ((SENT, "worker-2"), (NOT_SENT, "worker-3")):
        run.enqueue(job, at_s=0.5).claim(job, at_s=1, by=worker).work(job, at_s=1.1, by=worker)
        point = "before_completion" if job == NOT_SENT else "before_completion_acknowledged"
        at = {"start_ns": at_ns(1), "verified_ns": at_ns(1), "end_ns": at_ns(2), "verified_gone_ns": at_ns(2)}
        fault = {"name": f"crash-{job}", "category": "fault", "kind": "crash_point", "on": "workers", "phase": "baseline"}
        run.record["injections"].append(
            fault | at | {"options": {"at": point, "action": "kill"}, "evidence": {"killed": [worker], "jobs": [job]}}
        )
    jobs = read_parts(run.write(final_snapshot={})).jobs
    states = {row["job_id"]: row["state"] for row in jobs.select("job_id", "state").collect()}
    assert states == {SENT: "completed_unrecorded", NOT_SENT: "lost"}
