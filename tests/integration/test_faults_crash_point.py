"""Processes that are killed or paused at a defined point: which they are, what they had recorded by then, and that all of them continue."""

from __future__ import annotations

import signal
from collections import defaultdict
from pathlib import Path

import pytest

from stallbench.queues.crash_points import CrashPoint
from stallbench.records.events import Event
from tests.integration.faulty_run import PATIENCE_S, FaultyRun, faulty_run
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

LAST_RECORD = {
    CrashPoint.BEFORE_ENQUEUE_ACKNOWLEDGED: Event.ENQUEUED,  # of the batch before
    CrashPoint.AFTER_ENQUEUE_ACKNOWLEDGED: Event.ENQUEUED,
    CrashPoint.AFTER_CLAIM: Event.CLAIMED,
    CrashPoint.DURING_WORK: Event.CLAIMED,
    CrashPoint.BEFORE_COMPLETION: Event.WORKED,
    CrashPoint.BEFORE_COMPLETION_ACKNOWLEDGED: Event.WORKED,
    CrashPoint.AFTER_COMPLETION_ACKNOWLEDGED: Event.COMPLETED,
}
"""What a process that dies at a point has recorded last, other than claims that found no job."""


def records_of(run: FaultyRun, process: str) -> list[tuple[str, str]]:
    """Return event and job of each record of a process, in order, without claims that found no job."""
    rows = [row for event in Event if event is not Event.EMPTY for row in run.events(event) if row["process"] == process]
    return [(row["event"], row["job_id"]) for row in sorted(rows, key=lambda row: int(row["t_ns"]))]


def test_processes_die_at_each_point_on_every_nth_passage_and_are_replaced(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1, work="10ms") as run:
        run.wait_until_jobs_complete(5)
        for point, last_event in LAST_RECORD.items():
            run.inject("crash_point", f"{point.role}s", at=str(point), every_nth=3, replace_after="0s")
            run.go_on_until_killed(point.role)
            record = run.end_faults()
            assert record.active_to_end is True
            killed, jobs = record.evidence["killed"], record.evidence["jobs"]
            assert killed
            for name, job_id in zip(killed, jobs, strict=True):
                assert run.process(name).exit_code == -signal.SIGKILL
                event, recorded = records_of(run, name)[-1]
                assert event == last_event, point
                assert point is CrashPoint.BEFORE_ENQUEUE_ACKNOWLEDGED or recorded == str(job_id)
            run.wait_until_jobs_complete(5)
        assert not run.processes.exited_unexpectedly()
        assert len(run.load.running("worker")) == 1
        assert len(run.load.running("producer")) == 1
        assert not list(run.folder.job_faults.iterdir())


def test_a_replacement_that_dies_before_the_bench_looks_again_is_replaced_too(run: FaultyRun) -> None:
    run.wait_until_jobs_complete(5)
    (first,) = run.load.running("producer")
    run.inject("crash_point", "producers", at="before_enqueue_acknowledged", every_nth=1, replace_after="0s")
    run.wait_until(lambda: first.poll() is not None, "the death of the producer")
    run.injections.run_due()
    (second,) = run.load.running("producer")
    wait_for(lambda: second.poll() is not None, "the death of its replacement", PATIENCE_S)
    run.injections.run_due()
    assert second.intended == "killed"
    record = run.end_faults()
    assert record.evidence["killed"][:2] == [first.name, second.name]
    assert not run.processes.exited_unexpectedly()


def test_the_producer_of_a_burst_passes_no_point(run: FaultyRun) -> None:
    """It belongs to another fault, which would have no producer any more, and nobody would replace it."""
    run.wait_until_jobs_complete(5)
    burst = run.inject("burst", "producers", rate=20).evidence["producer"]
    run.inject("crash_point", "producers", at="after_enqueue_acknowledged", every_nth=5, replace_after="0s")
    run.go_on_until_killed("producer")
    enqueued = len(records_of(run, burst))
    run.wait_until(lambda: len(records_of(run, burst)) >= enqueued + 20, "twenty more jobs of the burst")
    killed = run.end_faults().evidence["killed"]
    assert burst not in killed
    assert not run.processes.exited_unexpectedly()


def test_a_paused_worker_is_resumed_after_its_claim_has_expired_and_learns_that(tmp_path: Path) -> None:
    with faulty_run(tmp_path, queue="status_column", queue_options="expire_after = 1") as run:
        run.wait_until_jobs_complete(5)
        run.inject("crash_point", "worker-1", at="during_work", action="pause", every_nth=5)
        run.wait_until(lambda: run.events(Event.EXPIRED), "a completion that the queue refused")
        record = run.end_faults()
        assert record.evidence["paused"][0] == "worker-1"
        expired = run.events(Event.EXPIRED)[0]
        assert (expired["process"], int(expired["job_id"])) == ("worker-1", record.evidence["jobs"][0])
        claims = [row for row in run.events(Event.CLAIMED) if row["job_id"] == expired["job_id"]]
        assert {row["process"] for row in claims} == {"worker-1", "worker-2"}
        assert run.process("worker-1").poll() is None
        assert not run.process("worker-1").is_paused()
        run.wait_until_jobs_complete(10)


def test_a_mover_dies_between_the_stores_and_its_batch_is_in_both(tmp_path: Path) -> None:
    with faulty_run(tmp_path, queue="redis_batches", queue_options="batch = 5") as run:
        run.wait_until_jobs_complete(5)
        run.inject("crash_point", "scheduler", at="between_steps", in_turn=True, replace_after="0s")

        def is_any_completed_twice() -> bool:
            by: defaultdict[str, int] = defaultdict(int)
            for row in run.events(Event.COMPLETED):
                by[row["job_id"]] += 1
            return max(by.values()) > 1

        run.wait_until(is_any_completed_twice, "a job that was moved twice: it died between the push and the commit")
        run.end_faults()
        run.wait_until_jobs_complete(10)


def test_the_seed_decides_which_passages_crash(tmp_path: Path) -> None:
    """Two runs with one seed: each process that passes the point often enough dies after the same number of jobs."""
    done = []
    for attempt in ("first", "second"):
        folder = tmp_path / attempt
        folder.mkdir()
        with faulty_run(folder, workers=1) as run:
            run.inject("crash_point", "worker-1", at="after_completion_acknowledged", probability=0.2, replace_after="0s")
            run.go_on_until_killed("worker")
            run.go_on_until_killed("worker")
            run.end_faults()
            done.append(
                [sum(event == Event.COMPLETED for event, _ in records_of(run, name)) for name in ("worker-1", "worker-1-2")]
            )
    assert done[0][1] == done[1][1], "of the replacement, which meets the fault from its first job on"


def test_the_fault_resumes_at_its_end_what_it_has_paused(run: FaultyRun) -> None:
    run.wait_until_jobs_complete(5)
    run.inject("crash_point", "workers", at="after_claim", action="pause", every_nth=1, pause_for="1h")
    run.wait_until(lambda: all(process.is_paused() for process in run.load.running("worker")), "a pause of both workers")
    record = run.end_faults()
    assert sorted(record.evidence["paused"]) == ["worker-1", "worker-2"]
    run.wait_until_jobs_complete(10)


def test_a_fault_whose_point_nobody_comes_to_was_not_active(run: FaultyRun) -> None:
    run.wait_until_jobs_complete(5)
    run.inject("crash_point", "workers", at="after_claim", every_nth=1_000_000)
    run.wait_until_jobs_complete(5)
    record = run.end_faults()
    assert record.active_to_end is False
    assert "after_claim" in record.why_ended
