"""Killed workers and producers: which are killed, what replaces them, and that no job is lost."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from stallbench.records.events import Event
from tests.integration.faulty_run import FaultyRun, faulty_run

pytestmark = pytest.mark.integration


def test_a_killed_worker_need_not_be_replaced(tmp_path: Path) -> None:
    with faulty_run(tmp_path) as run:
        run.wait_until_jobs_complete(5)
        run.inject("kill", "workers", replaced=False)
        run.go_on_for(0.3)
        run.end_faults()
        assert len(run.load.running("worker")) == 1


def see_a_replacement(run: FaultyRun, slot: str, event: Event) -> None:
    """Kill the process of ``slot``, which may be a replacement itself, and wait until the next one works."""
    run.wait_until(lambda: run.load.at_work(slot), f"a job of {slot}")
    (victim,) = run.load.named(slot)
    record = run.inject("kill", slot, replace_after="100ms")
    assert record.evidence["killed"] == [victim.name]
    assert record.verified_gone_ns == record.end_ns == record.verified_ns, "it is over at once"
    assert victim.exit_code == -signal.SIGKILL
    assert not run.processes.exited_unexpectedly()
    run.wait_until(lambda: run.load.at_work(slot), f"a successor of {victim.name} that has recorded an operation")
    (successor,) = run.load.at_work(slot)
    assert successor.name.startswith(f"{slot}-")
    assert successor.name != victim.name
    run.wait_until(lambda: any(row["process"] == successor.name for row in run.events(event)), f"a job of {successor.name}")
    run.end_faults()


def test_one_worker_is_killed_and_another_replaces_it(run: FaultyRun) -> None:
    see_a_replacement(run, "worker-1", Event.COMPLETED)


def test_a_producer_can_be_killed_too(run: FaultyRun) -> None:
    see_a_replacement(run, "producer-1", Event.ENQUEUED)


def test_workers_are_killed_repeatedly(run: FaultyRun) -> None:
    record = run.inject("kill", "workers", every="200ms", replace_after="0s")
    run.wait_until(lambda: len(record.evidence["killed"]) >= 5, "five kills")
    run.end_faults()
    run.wait_until_jobs_complete(5)
    assert len(run.load.running("worker")) == 2
