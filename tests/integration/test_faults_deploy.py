"""Deployments: workers finish their jobs or are killed after a grace period, and new ones take their places."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stallbench.engines import driver_of
from stallbench.records.events import Event
from tests.integration.faulty_run import FaultyRun, faulty_run

pytestmark = pytest.mark.integration

FEW_CONNECTIONS = "{ max_connections = 25 }"


@contextmanager
def full_server(run: FaultyRun) -> Iterator[None]:
    """Take every connection that the server has left."""
    driver, connections, code = driver_of("postgres"), [], ""
    try:
        while not code:
            try:
                connections.append(driver.connect(run.cluster.server("primary").direct, "others"))
            except driver.errors as error:
                code = driver.code(error)
        assert code == "53300"
        yield
    finally:
        for connection in connections:
            driver.close(connection)


def test_a_worker_that_does_not_end_within_its_grace_period_is_killed(tmp_path: Path) -> None:
    with faulty_run(tmp_path, work="3s") as run:
        run.wait_until(lambda: len(run.events(Event.CLAIMED)) == 2, "a job in each worker")
        run.inject("deploy", "workers", at_a_time=2, grace="100ms")
        run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the end of the deployment")
        assert sorted(run.faults()[-1].evidence["killed"]) == ["worker-1", "worker-2"]
        assert run.process("worker-1").exit_code == -9
        assert not run.processes.exited_unexpectedly()
        run.end_faults()


def test_new_workers_that_the_server_refuses_are_started_again_while_the_old_ones_continue(tmp_path: Path) -> None:
    with faulty_run(tmp_path, settings=FEW_CONNECTIONS) as run:
        run.wait_until_jobs_complete(5)
        with full_server(run):
            run.inject("deploy", "workers", surge=2, restart_after="200ms")
            refused = "53300 in connect: "
            run.wait_until(
                lambda: (
                    {row["process"] for row in run.events(Event.ERROR) if row["detail"].startswith(refused)}
                    >= {"worker-1-2", "worker-2-2", "worker-1-3", "worker-2-3"}
                ),
                "the refusal of each new worker, twice",
            )
            run.wait_until_jobs_complete(5)
            assert {"worker-1", "worker-2"} <= {process.name for process in run.load.running("worker")}
            assert not run.processes.exited_unexpectedly()
        run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the end of the deployment")
        evidence = run.faults()[-1].evidence
        assert evidence["could_not_start"] >= 4
        assert "too many clients" in evidence["first_failure"]
        assert sorted(evidence["replaced"]) == ["worker-1", "worker-2"]
        assert len(run.load.running("worker")) == 2
        assert run.process("worker-1-2").record().intended == "restarted"
        began_ns = time.time_ns()
        names = {process.name for process in run.load.running("worker")}
        run.wait_until(lambda: {row["process"] for row in run.events(Event.COMPLETED, began_ns)} == names, "a job of each")
        assert not run.processes.exited_unexpectedly()
        run.end_faults()


def test_a_surge_that_finds_no_connection_in_its_phase_leaves_the_old_workers(tmp_path: Path) -> None:
    with faulty_run(tmp_path, settings=FEW_CONNECTIONS) as run:
        run.wait_until_jobs_complete(5)
        with full_server(run):
            run.inject("deploy", "workers", surge=2, restart_after="100ms")
            run.wait_until(lambda: run.events(Event.ERROR), "a refused connection")
            record = run.end_faults()
        assert "only 0 of 1 deployments were complete" in record.why_ended
        assert sorted(process.name for process in run.load.running("worker")) == ["worker-1", "worker-2"]
        assert not run.processes.exited_unexpectedly()
        run.wait_until_jobs_complete(5)


def test_all_workers_are_replaced_each_time_and_each_completes_its_job_first(run: FaultyRun) -> None:
    run.wait_until_jobs_complete(5)
    first = [process.name for process in run.load.running("worker")]
    run.inject("deploy", "workers", times=2, pause="100ms")
    run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the end of both deployments")
    evidence = run.faults()[-1].evidence
    assert evidence["deployments"] == 2
    assert evidence["replaced"][:2] == first
    assert evidence["killed"] == []
    third = {process.name for process in run.load.running("worker")}
    assert len(third | set(evidence["replaced"])) == 6, "the first, the second and the third of either worker"
    assert run.process(first[0]).exit_code == 0
    claimed, completed = (
        [row["job_id"] for row in run.events(event) if row["process"] == first[0]] for event in (Event.CLAIMED, Event.COMPLETED)
    )
    assert claimed == completed
    run.wait_until(lambda: third <= {row["process"] for row in run.events(Event.COMPLETED)}, "a job of each of the third")
    assert not run.processes.exited_unexpectedly()
    run.end_faults()


def test_a_deployment_that_its_phase_is_too_short_for_was_not_carried_out_as_planned(run: FaultyRun) -> None:
    run.wait_until_jobs_complete(5)
    run.inject("deploy", "workers", times=50, pause="1s")
    run.go_on_for(0.3)
    record = run.end_faults()
    assert "of 50 deployments were complete" in str(record.why_ended)
    assert len(run.load.running("worker")) == 2, "no worker is missing afterwards"


def test_with_a_surge_each_new_worker_is_ready_before_the_old_one_ends(run: FaultyRun) -> None:
    run.wait_until_jobs_complete(5)
    first = [process.name for process in run.load.running("worker")]
    run.inject("deploy", "workers", surge=1, ready_for="300ms")
    run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the end of the deployment")
    assert run.faults()[-1].evidence["replaced"] == first
    second = run.load.running("worker")
    old, new = [run.process(name).record() for name in first], [process.record() for process in second]
    for before, after in zip(old, new, strict=True):
        assert before.end_ns is not None
        assert after.start_ns < before.end_ns - 300_000_000
    assert old[0].end_ns is not None
    assert new[1].start_ns > old[0].end_ns, "one at a time"
    assert [process.name.split("-")[:2] for process in second] == [name.split("-")[:2] for name in first]
    assert not run.processes.exited_unexpectedly()
    run.end_faults()
