"""Killed workers and producers: which are killed, what replaces them, and that no job is lost."""

from __future__ import annotations

from pathlib import Path

from stallbench.records.events import Event
from tests.integration.faulty_run import faulty_run


def test_one_worker_is_killed_and_another_replaces_it(tmp_path: Path) -> None:
    with faulty_run(tmp_path) as run:
        run.wait_until_jobs_complete(5)
        record = run.inject("kill", "worker-1", replace_after="100ms")
        assert record.evidence["killed"] == ["worker-1"]
        assert record.verified_gone_ns == record.end_ns == record.verified_ns, "it is over at once"
        assert run.process("worker-1").exit_code == -9
        assert not run.processes.exited_unexpectedly()
        run.wait_until(lambda: any(row["process"] == "worker-1-2" for row in run.events(Event.COMPLETED)), "a job of worker-1-2")
        run.end_faults()


def test_workers_are_killed_repeatedly(tmp_path: Path) -> None:
    with faulty_run(tmp_path) as run:
        run.wait_until_jobs_complete(5)
        record = run.inject("kill", "workers", every="200ms", replace_after="0s")
        run.wait_until(lambda: len(record.evidence["killed"]) >= 5, "five kills")
        run.end_faults()
        run.wait_until_jobs_complete(5)
        assert len(run.load.running("worker")) == 2


def test_a_killed_worker_need_not_be_replaced(tmp_path: Path) -> None:
    with faulty_run(tmp_path) as run:
        run.wait_until_jobs_complete(5)
        run.inject("kill", "workers", replaced=False)
        run.go_on_for(0.3)
        run.end_faults()
        assert len(run.load.running("worker")) == 1


def test_a_producer_can_be_killed_too(tmp_path: Path) -> None:
    with faulty_run(tmp_path) as run:
        run.wait_until_jobs_complete(5)
        run.inject("kill", "producer-1", replace_after="0s")
        run.wait_until(
            lambda: any(row["process"] == "producer-1-2" for row in run.events(Event.ENQUEUED)), "a job of producer-1-2"
        )
        run.end_faults()
