"""What a worker and a producer do when an operation fails: in this process, on a queue that fails at the operations that a test chooses."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from producers.producer import Producer, ProducerDocument
from stallbench.processes.role import Stop
from stallbench.queues import Backlog, Claim, ClaimExpiredError, NewJob, Promise, Queue, QueueOptions
from stallbench.records.endpoint import Endpoint
from stallbench.records.events import EventLog
from stallbench.records.reading import read_events
from tests.waiting import PATIENCE_S
from workers.worker import Worker, WorkerDocument

BROKEN = sqlite3.OperationalError("broken")
ENDPOINT = Endpoint(engine="sqlite", host="", port=0, database="", user="")


class FailingQueue(Queue[QueueOptions]):
    """Each move raises the next error of its plan; with none left, it succeeds."""

    kind = "failing"
    summary = source = ""
    engines = frozenset({"sqlite"})
    options_type = QueueOptions
    promise = Promise.AT_LEAST_ONCE
    ordered = True
    tables = indexes = ()
    fail_in: dict[str, list[Exception]]
    is_fit = True
    is_closed = False
    ids_before: tuple[int, ...] = ()

    def __init__(self) -> None:
        super().__init__(sqlite3.connect(":memory:"), QueueOptions())

    def may_fail(self, move: str) -> None:
        if errors := self.fail_in.get(move):
            raise errors.pop(0)

    def install(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        self.unconfirmed_ids = self.ids_before
        self.may_fail("enqueue")
        return [1] * len(jobs)

    def claim(self) -> Sequence[Claim]:
        self.may_fail("claim")
        return [Claim(job_id=1, attempt=1, payload="")]

    def complete(self, claim: Claim) -> None:
        self.may_fail("complete")

    def fail(self, claim: Claim, error: str) -> None: ...

    def recover(self, error: Exception) -> bool:
        self.may_fail("recover")
        return self.is_fit

    def backlog(self) -> Backlog:
        return Backlog(depth=0, oldest_job_s=None)

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        yield from ()


Run = Callable[..., list[tuple[str, str]]]
"""Runs a process on a queue that fails by a plan until it has recorded some events; returns all of them and their details."""
_POLL_EVERY_S = 0.005


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[FailingQueue]:
    """Every queue that a process has opened."""
    queues: list[FailingQueue] = []

    def open_another(*_: object) -> FailingQueue:
        assert all(queue.is_closed for queue in queues), "a process has one connection at a time"
        if (errors := FailingQueue.fail_in.get("open")) and (error := errors.pop(0)):
            raise error
        queues.append(FailingQueue())
        return queues[-1]

    monkeypatch.setattr("stallbench.queues.queue_client.open_queue", open_another)
    return queues


@pytest.fixture
def run(opened: list[FailingQueue], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    def run_until(
        process: str,
        events: int,
        *,
        at_least_s: float = 0.0,
        is_fit: bool = True,
        per_call: bool = False,
        **plan: list[Exception | None],
    ) -> list[tuple[str, str]]:
        monkeypatch.setattr(FailingQueue, "fail_in", plan, raising=False)
        monkeypatch.setattr(FailingQueue, "is_fit", is_fit)
        path = tmp_path / "events.csv"
        stop = Stop(by=())
        told: dict[str, Any] = {"name": process, "endpoint": ENDPOINT, "queue": "failing", "events": path}
        with EventLog(path, process) as log:
            role = (
                Worker(WorkerDocument(**told, work_s=0.01), log, stop)
                if process == "worker"
                else Producer(ProducerDocument(**told, rate=100, connection_per_call=per_call), log, stop)
            )
            began_s = time.monotonic()

            def stop_when_seen() -> None:
                while (passed_s := time.monotonic() - began_s) < PATIENCE_S:
                    if passed_s >= at_least_s and path.read_bytes().count(b"\n") >= events:
                        break
                    time.sleep(_POLL_EVERY_S)
                stop.ask()

            threading.Thread(target=stop_when_seen, daemon=True).start()
            role.run()
        return [(str(record.event), record.detail) for record in read_events(path)]

    return run_until


ERROR_IN_CLAIM = ("error", "OperationalError in claim: broken")
ERROR_IN_ENQUEUE = ("error", "OperationalError in enqueue: broken")
ERROR_IN_RECOVER = ("error", "OperationalError in recover: broken")
ERROR_IN_CONNECT = ("error", "OperationalError in connect: broken")


def test_a_worker_keeps_a_connection_that_its_queue_has_recovered(run: Run, opened: list[FailingQueue]) -> None:
    assert run("worker", 2, claim=[BROKEN])[:2] == [ERROR_IN_CLAIM, ("claimed", "")]
    assert len(opened) == 1


def test_a_worker_opens_a_new_connection_if_the_queue_cannot_recover_it(run: Run, opened: list[FailingQueue]) -> None:
    assert run("worker", 2, is_fit=False, claim=[BROKEN])[:2] == [ERROR_IN_CLAIM, ("claimed", "")]
    assert len(opened) == 2


def test_a_worker_opens_a_new_connection_if_it_breaks_during_recovery(run: Run, opened: list[FailingQueue]) -> None:
    events = run("worker", 3, claim=[BROKEN], recover=[BROKEN])
    assert events[:3] == [ERROR_IN_CLAIM, ERROR_IN_RECOVER, ("claimed", "")]
    assert len(opened) == 2


def test_a_worker_writes_down_a_claim_that_expired_instead_of_a_completion(run: Run, opened: list[FailingQueue]) -> None:
    events = run("worker", 4, complete=[ClaimExpiredError(1)])
    assert [event for event, _ in events[:4]] == ["claimed", "worked", "expired", "claimed"]
    assert len(opened) == 1


def test_a_worker_that_is_refused_everything_does_not_ask_as_fast_as_it_can(run: Run) -> None:
    began_s = time.monotonic()
    events = run("worker", 7, at_least_s=0.5, claim=[BROKEN] * 100_000)
    took_s = time.monotonic() - began_s
    assert set(events) == {ERROR_IN_CLAIM}
    assert 6 < len(events) < 6 + took_s / 0.01


def test_a_producer_keeps_a_connection_that_its_queue_has_recovered(run: Run, opened: list[FailingQueue]) -> None:
    assert run("producer", 2, enqueue=[BROKEN])[:2] == [ERROR_IN_ENQUEUE, ("enqueued", "")]
    assert len(opened) == 1


def test_a_producer_opens_a_new_connection_if_it_breaks_during_recovery(run: Run, opened: list[FailingQueue]) -> None:
    events = run("producer", 3, enqueue=[BROKEN], recover=[BROKEN])
    assert events[:3] == [ERROR_IN_ENQUEUE, ERROR_IN_RECOVER, ("enqueued", "")]
    assert len(opened) == 2


def test_a_failed_enqueue_is_recorded_with_the_id_that_its_job_had_before(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FailingQueue, "ids_before", (7,))
    run("producer", 2, enqueue=[BROKEN])
    failed, enqueued = list(read_events(tmp_path / "events.csv"))[:2]
    assert (failed.event, failed.job_id) == ("error", 7)
    assert failed.intended_ns is not None
    assert enqueued.event == "enqueued"


@pytest.mark.parametrize("process", ["worker", "producer"])
def test_a_process_writes_down_that_its_first_connection_was_refused(run: Run, tmp_path: Path, process: str) -> None:
    with pytest.raises(sqlite3.OperationalError, match="broken"):
        run(process, 1, open=[BROKEN])
    assert [(str(record.event), record.detail) for record in read_events(tmp_path / "events.csv")] == [ERROR_IN_CONNECT]


def test_a_producer_with_a_connection_per_call_opens_one_for_each_and_closes_it(run: Run, opened: list[FailingQueue]) -> None:
    events = run("producer", 3, per_call=True)
    assert {event for event, _ in events} == {"enqueued"}
    assert len(opened) == 1 + len(events), "the first one shows that the server can be reached"
    assert all(queue.is_closed for queue in opened)


def test_jobs_without_a_connection_are_refused_and_the_next_call_tries_again(run: Run) -> None:
    events = run("producer", 4, per_call=True, open=[None, BROKEN, None])
    assert events[:3] == [ERROR_IN_CONNECT, ("refused", "no connection: OperationalError in connect: broken"), ("enqueued", "")]


def test_a_failed_call_with_a_connection_of_its_own_is_not_recovered(run: Run, opened: list[FailingQueue]) -> None:
    events = run("producer", 2, per_call=True, enqueue=[BROKEN], recover=[BROKEN] * 10)
    assert events[:2] == [ERROR_IN_ENQUEUE, ("enqueued", "")]
