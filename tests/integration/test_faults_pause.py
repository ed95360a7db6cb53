"""Suspended workers on real servers: they are resumed, and a job whose reservation has expired meanwhile is executed twice."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from pathlib import Path

import psutil
import pytest

from stallbench.processes.process import Process
from stallbench.records.events import Event
from tests.integration.faulty_run import FaultyRun, faulty_run

pytestmark = pytest.mark.integration

RETRY_AFTER_S = 1
PAUSES = 30


def is_stopped(process: Process) -> bool:
    return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED


def ends_of_worker_1(run: FaultyRun, since_ns: int = 0) -> list[dict[str, str]]:
    ends = [row for event in (Event.COMPLETED, Event.EXPIRED, Event.ERROR) for row in run.events(event, since_ns)]
    return [row for row in ends if row["process"] == "worker-1"]


def jobs_in_hand(run: FaultyRun) -> set[str]:
    """Jobs at which worker-1 is at work: one that it is just completing may be gone from the queue already."""
    ended = {row["job_id"] for row in [*run.events(Event.WORKED), *ends_of_worker_1(run)]}
    return {row["job_id"] for row in run.events(Event.CLAIMED) if row["process"] == "worker-1"} - ended


def pause_with_a_job_in_hand(run: FaultyRun) -> str:
    """Pause worker-1 for longer than a reservation lasts and return the job that it had meanwhile."""
    run.wait_until_jobs_complete(3)
    run.inject("pause", "worker-1")
    while not (in_hand := jobs_in_hand(run)):
        run.end_faults()
        run.wait_until_jobs_complete(1)
        run.inject("pause", "worker-1")
    (job_id,) = in_hand
    run.wait_until(
        lambda: any(row["job_id"] == job_id and row["process"] != "worker-1" for row in run.events(Event.CLAIMED)),
        f"another claim of job {job_id}",
    )
    run.go_on_for(0.5)
    run.end_faults()
    return job_id


@pytest.mark.parametrize("engine", ["postgres", pytest.param("mariadb", marks=pytest.mark.long)])  # the server takes no part
def test_laravel_completes_a_job_twice_when_a_worker_is_resumed_after_its_reservation(tmp_path: Path, engine: str) -> None:
    with faulty_run(
        tmp_path, engine=engine, queue="laravel", work="200ms", queue_options=f"retry_after = {RETRY_AFTER_S}"
    ) as run:
        job_id = pause_with_a_job_in_hand(run)
        run.wait_until(
            lambda: Counter(row["job_id"] for row in run.events(Event.COMPLETED))[job_id] >= 2, f"two completions of {job_id}"
        )


@pytest.mark.long
def test_beanstalkd_refuses_the_completion_of_a_worker_that_is_resumed_too_late(tmp_path: Path) -> None:
    with faulty_run(tmp_path, engine="beanstalkd", queue="beanstalkd", work="200ms", queue_options="ttr = 1") as run:
        run.wait_until_jobs_complete(3)
        # It forgets about half of the deadlines that pass while a connection is silent.
        for _ in range(PAUSES):
            run.inject("pause", "worker-1")
            run.go_on_for(2 * RETRY_AFTER_S)
            back_ns = time.time_ns()
            run.end_faults()
            run.wait_until(partial(ends_of_worker_1, run, back_ns), "the end of the job that it has or takes next")
            if gone := [row for row in ends_of_worker_1(run) if row["detail"].startswith("NotFoundError in complete")]:
                break
        job_id = gone[0]["job_id"]

        def times(event: Event) -> int:
            return sum(row["job_id"] == job_id for row in run.events(event))

        run.wait_until(lambda: times(Event.COMPLETED) >= 1, "its completion")
        # The other worker has it again; if the machine stands still for long, so may the first, and each but one finds it gone.
        run.wait_until(lambda: times(Event.CLAIMED) == times(Event.COMPLETED) + times(Event.ERROR), "the end of each claim")
        assert times(Event.COMPLETED) == 1
        assert times(Event.CLAIMED) >= 2


def test_all_are_suspended_until_they_are_resumed(run: FaultyRun) -> None:
    run.wait_until_jobs_complete(5)
    record = run.inject("pause", "workers")
    assert sorted(record.evidence["paused"]) == ["worker-1", "worker-2"]
    assert all(is_stopped(process) for process in run.load.running("worker"))
    before = len(run.events(Event.COMPLETED))
    run.go_on_for(0.5)
    assert len(run.events(Event.COMPLETED)) == before
    record = run.end_faults()
    assert record.active_to_end is True
    assert not any(is_stopped(process) for process in run.load.running("worker"))
    run.wait_until_jobs_complete(5)


def test_a_count_draws_some_of_them(run: FaultyRun) -> None:
    record = run.inject("pause", "workers", count=1)
    assert len(record.evidence["paused"]) == 1
    run.wait_until_jobs_complete(5)
    run.end_faults()


def test_a_process_that_was_resumed_is_noticed(run: FaultyRun) -> None:
    run.inject("pause", "worker-1")
    psutil.Process(run.process("worker-1").pid).resume()
    record = run.end_faults()
    assert record.active_to_end is False
    assert record.why_ended == "no longer paused: worker-1"
