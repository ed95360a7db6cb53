"""Jobs that kill their workers, fail or take too long, workers with a wrong clock, and bursts, on real servers."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from stallbench.queues.queue_client import opened_queue
from stallbench.queues.sql_session import open_session
from stallbench.records.events import Event
from stallbench.records.reading import read_events
from tests.integration.faulty_run import FaultyRun, faulty_run

pytestmark = pytest.mark.integration

BOTH = pytest.mark.parametrize("engine", ["postgres", pytest.param("mariadb", marks=pytest.mark.long)])
"""The server takes no part in these faults."""
RESERVED = pytest.mark.parametrize(
    "run_of_module", [{"queue": "laravel", "queue_options": "retry_after = 60", "workers": 3}], ids=["laravel"], indirect=True
)
"""A poison job kills one worker and then stays reserved."""


def poison_job(run: FaultyRun) -> str:
    """Return the id of the job that the last fault has enqueued: its producer is the last."""
    records = read_events(run.folder.events / f"{run.processes.of_role('producer')[-1].name}.csv")
    (job_id,) = [record.job_id for record in records if record.event is Event.ENQUEUED]
    return str(job_id)


def test_a_worker_that_something_else_kills_has_exited_unexpectedly(tmp_path: Path) -> None:
    with faulty_run(tmp_path, queue="laravel", queue_options="retry_after = 60", workers=3) as run:
        run.wait_until_jobs_complete(5)
        poison = run.inject("poison_jobs", "workers", replace_after="1m")
        run.wait_until(lambda: poison.evidence["killed"], "the only kill, because the job stays reserved")
        victim = run.load.running("worker")[0]
        os.kill(victim.pid, signal.SIGKILL)
        run.wait_until(run.processes.exited_unexpectedly, "the unexpected exit")
        assert run.processes.exited_unexpectedly() == [victim]
        assert victim.name not in poison.evidence["killed"]


@BOTH
def test_a_poison_job_is_marked_as_failed_when_its_attempts_are_used_up(tmp_path: Path, engine: str) -> None:
    with faulty_run(tmp_path, engine=engine, queue="laravel", workers=1, queue_options="retry_after = 1\ntries = 2") as run:
        run.wait_until_jobs_complete(5)
        record = run.inject("poison_jobs", "workers", replace_after="0s")
        run.wait_until(lambda: len(record.evidence["killed"]) == 2, "two kills")
        job_id = poison_job(run)
        queue = run.queue
        with opened_queue(queue.kind, queue.options, run.cluster.server("primary").direct, "test") as opened:
            session = open_session(opened.connection)

            def put_aside() -> set[str]:
                return {str(row[0]) for row in session.run("SELECT id FROM failed_jobs").rows}

            run.wait_until(lambda: job_id in put_aside(), "a job that was put aside")
            # If workers are delayed for longer than a reservation lasts, other jobs use up their attempts, too.
            aside = put_aside()
            claims = Counter(row["job_id"] for row in run.events(Event.CLAIMED))
            assert {other: claims[other] for other in aside} == dict.fromkeys(aside, 2)
            assert int(job_id) in dict(opened.job_ids()), "it is accounted for"
        run.end_faults()
        assert len(record.evidence["killed"]) == 2
        run.wait_until_jobs_complete(5)


@BOTH
def test_failed_jobs_are_offered_again_at_once(tmp_path: Path, engine: str) -> None:
    with faulty_run(tmp_path, engine=engine, queue="laravel") as run:
        run.wait_until_jobs_complete(5)
        name = run.inject("failing_jobs", "workers").name
        run.wait_until(
            lambda: max(Counter(row["job_id"] for row in run.events(Event.FAILED)).values(), default=0) >= 5,
            "five failures of a job",
        )
        run.wait_until(lambda: len({row["process"] for row in run.events(Event.FAILED)}) == 2, "a failure of either worker")
        run.wait_until(lambda: len(run.load.workers_that_met(name)) == 2, "the reports of both workers")
        record = run.end_faults()
        assert record.active_to_end is True
        assert record.evidence["met"] == ["worker-1", "worker-2"]
        failed = {row["job_id"] for row in run.events(Event.FAILED)}
        run.wait_until(
            lambda: failed <= {row["job_id"] for row in run.events(Event.COMPLETED)}, "the completion of all that failed"
        )


def test_failed_jobs_wait_for_the_delay(tmp_path: Path) -> None:
    with faulty_run(tmp_path, queue="laravel", workers=1, queue_options="delay = 3600") as run:
        run.inject("failing_jobs", "workers")
        run.wait_until(lambda: len(run.events(Event.FAILED)) >= 20, "twenty failures")
        run.end_faults()
        assert max(Counter(row["job_id"] for row in run.events(Event.FAILED)).values()) == 1


def test_failed_jobs_are_marked_as_failed_after_their_attempts(tmp_path: Path) -> None:
    with faulty_run(tmp_path, queue="laravel", workers=1, queue_options="tries = 2") as run:
        run.inject("failing_jobs", "workers")
        run.wait_until(lambda: len(run.events(Event.FAILED)) >= 40, "forty failures")
        run.end_faults()
        assert max(Counter(row["job_id"] for row in run.events(Event.FAILED)).values()) == 2


@BOTH
def test_a_job_that_takes_longer_than_its_reservation_is_executed_twice(tmp_path: Path, engine: str) -> None:
    with faulty_run(tmp_path, engine=engine, queue="laravel", workers=4, queue_options="retry_after = 1") as run:
        fault = run.inject("long_jobs", "workers", takes="3s")
        run.wait_until(lambda: run.load.workers_that_met(fault.name), "a worker with a long job")
        met_ns = time.time_ns()
        run.wait_until(
            lambda: max(Counter(row["job_id"] for row in run.events(Event.COMPLETED, met_ns)).values(), default=0) >= 2,
            "two completions of a job",
        )
        assert run.end_faults().active_to_end is True


@BOTH
def test_a_worker_whose_clock_is_ahead_claims_jobs_that_others_have_reserved(tmp_path: Path, engine: str) -> None:
    with faulty_run(tmp_path, engine=engine, queue="laravel", work="1s", queue_options="retry_after = 60") as run:
        run.wait_until_jobs_complete(2)
        began_ns = time.time_ns()
        run.inject("clock_skew", "worker-1", ahead="2m")
        run.wait_until(
            lambda: max(Counter(row["job_id"] for row in run.events(Event.COMPLETED, began_ns)).values(), default=0) >= 2,
            "two completions of a job",
        )
        record = run.end_faults()
        assert record.evidence["met"] == ["worker-1"]
        assert record.active_to_end is True


def test_a_job_fault_that_no_worker_met_is_noticed(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1) as run:
        run.load.stop()
        run.inject("failing_jobs", "workers")
        record = run.end_faults()
        assert record.active_to_end is False
        assert record.why_ended == "it affected no worker"


@RESERVED
def test_a_worker_that_announced_its_kill_before_the_fault_ended_counts_as_killed(run: FaultyRun) -> None:
    run.wait_until_jobs_complete(5)
    record = run.inject("poison_jobs", "workers", replace_after="1m")
    run.wait_until(lambda: record.evidence["killed"], "the only kill, because the job stays reserved")
    alive = run.load.running("worker")[0]
    (job_fault,) = run.folder.job_faults.glob("*.json")
    job_fault.with_name(f"{job_fault.stem}.{alive.name}.killed").touch()
    threading.Timer(0.3, lambda: os.kill(alive.pid, signal.SIGKILL)).start()
    run.end_faults()
    assert alive.name in record.evidence["killed"]
    assert not run.processes.exited_unexpectedly()
    assert len(run.load.running("worker")) == 3, "it has been replaced, too"
    assert not list(run.folder.job_faults.iterdir())


@RESERVED
def test_a_worker_that_another_fault_kills_is_not_counted_and_is_replaced_once(run: FaultyRun) -> None:
    run.wait_until_jobs_complete(5)
    poison = run.inject("poison_jobs", "workers", replace_after="0s")
    run.wait_until(lambda: poison.evidence["killed"], "the only kill, because the job stays reserved")
    killed = run.inject("kill", "workers", replace_after="0s").evidence["killed"]
    run.wait_until_jobs_complete(5)
    run.end_faults()
    assert len(killed) == len(poison.evidence["killed"]) == 1
    assert killed != poison.evidence["killed"]
    assert len(run.load.running("worker")) == 3
    assert not run.processes.exited_unexpectedly()


@RESERVED
def test_two_poison_faults_each_count_their_own_kills(run: FaultyRun) -> None:
    run.wait_until_jobs_complete(5)
    first = run.inject("poison_jobs", "workers", replace_after="0s")
    run.wait_until(lambda: first.evidence["killed"], "a kill by the first")
    second = run.inject("poison_jobs", "workers", replace_after="0s")
    run.wait_until(lambda: second.evidence["killed"], "a kill by the second")
    run.end_faults()
    assert len(first.evidence["killed"]) == len(second.evidence["killed"]) == 1
    assert len(run.load.running("worker")) == 3
    assert not run.processes.exited_unexpectedly()


def test_a_poison_job_kills_one_worker_after_the_other_until_the_fault_ends(run: FaultyRun) -> None:
    run.wait_until_jobs_complete(5)
    record = run.inject("poison_jobs", "workers", replace_after="0s")
    killed = record.evidence["killed"]
    run.wait_until(lambda: len(killed) >= 3, "three deaths")
    assert all(run.process(name).exit_code == -signal.SIGKILL for name in killed)
    assert not run.processes.exited_unexpectedly()
    record = run.end_faults()
    assert record.active_to_end is True
    job_id = poison_job(run)
    run.wait_until(
        lambda: any(row["job_id"] == job_id for row in run.events(Event.COMPLETED)),
        "the completion of the job that no longer fails",
    )
    assert Counter(row["job_id"] for row in run.events(Event.CLAIMED))[job_id] >= 4
    run.wait_until_jobs_complete(5)
    assert not run.processes.exited_unexpectedly()
    assert not list(run.folder.job_faults.iterdir())


def test_a_wrong_clock_does_not_affect_a_queue_that_does_not_use_it(run: FaultyRun) -> None:
    name = run.inject("clock_skew", "worker-1", behind="1h").name
    run.wait_until(lambda: run.load.workers_that_met(name), "the report of worker-1 or its replacement")
    (met,) = run.load.workers_that_met(name)
    assert met.startswith("worker-1")
    met_ns = time.time_ns()
    run.wait_until(lambda: any(row["process"] == met for row in run.events(Event.COMPLETED, met_ns)), f"a job of {met}")
    run.wait_until_jobs_complete(20)
    assert run.end_faults().active_to_end is True
    assert max(Counter(row["job_id"] for row in run.events(Event.COMPLETED)).values()) == 1


def test_a_burst_enqueues_jobs_at_once_and_at_a_higher_rate(run: FaultyRun) -> None:
    record = run.inject("burst", "producers", rate=50, at_once=200, payload_bytes=5000)
    name = record.evidence["producer"]
    run.wait_until(lambda: sum(row["process"] == name for row in run.events(Event.ENQUEUED)) >= 210, "the burst's jobs")
    assert run.load.running("producer")[-1].name == name
    assert run.end_faults().active_to_end is True
    assert run.process(name).exit_code == 0
    assert not run.processes.exited_unexpectedly()
