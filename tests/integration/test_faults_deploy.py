"""Deployments: workers finish their jobs or are killed after a grace period, and new ones take their places."""

from __future__ import annotations

from pathlib import Path

from stallbench.records.events import Event
from tests.integration.faulty_run import faulty_run


def test_all_workers_are_replaced_each_time_and_each_completes_its_job_first(tmp_path: Path) -> None:
    with faulty_run(tmp_path) as run:
        run.wait_until_jobs_complete(5)
        run.inject("deploy", "workers", times=2, pause="100ms")
        run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the end of both deployments")
        evidence = run.faults()[-1].evidence
        assert evidence["deployments"] == 2
        assert evidence["replaced"] == ["worker-1", "worker-2", "worker-1-2", "worker-2-2"]
        assert evidence["killed"] == []
        assert {process.name for process in run.load.running("worker")} == {"worker-1-3", "worker-2-3"}
        assert run.process("worker-1").exit_code == 0
        claimed, completed = (
            [row["job_id"] for row in run.events(event) if row["process"] == "worker-1"]
            for event in (Event.CLAIMED, Event.COMPLETED)
        )
        assert claimed == completed
        run.wait_until(lambda: any(row["process"] == "worker-2-3" for row in run.events(Event.COMPLETED)), "a job of worker-2-3")
        assert not run.processes.exited_unexpectedly()
        run.end_faults()


def test_a_worker_that_does_not_end_within_its_grace_period_is_killed(tmp_path: Path) -> None:
    with faulty_run(tmp_path, work="3s") as run:
        run.wait_until(lambda: len(run.events(Event.CLAIMED)) == 2, "a job in each worker")
        run.inject("deploy", "workers", at_a_time=2, grace="100ms")
        run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the end of the deployment")
        assert sorted(run.faults()[-1].evidence["killed"]) == ["worker-1", "worker-2"]
        assert run.process("worker-1").exit_code == -9
        assert not run.processes.exited_unexpectedly()
        run.end_faults()


def test_a_deployment_that_its_phase_is_too_short_for_was_not_carried_out_as_planned(tmp_path: Path) -> None:
    with faulty_run(tmp_path) as run:
        run.wait_until_jobs_complete(5)
        run.inject("deploy", "workers", times=50, pause="1s")
        run.go_on_for(0.3)
        record = run.end_faults()
        assert "of 50 deployments were complete" in str(record.why_ended)
        assert len(run.load.running("worker")) == 2, "no worker is missing afterwards"
