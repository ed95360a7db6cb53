"""How long a worker waits after a claim that found no job, with and without back-off."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stallbench.processes.role import Stop
from workers import worker
from workers.worker import Worker, WorkerDocument


class EmptyQueue:
    """Finds no job, and says when it has been notified of one."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []
        self.notified_at: set[int] = set()

    def wait_for_jobs(self, timeout_s: float, pause: object) -> bool:
        self.waits_s.append(timeout_s)
        return len(self.waits_s) in self.notified_at


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> EmptyQueue:
    made = EmptyQueue()
    monkeypatch.setattr(worker, "QueueClient", lambda *_, **__: SimpleNamespace(queue=made))
    return made


def wait_often(folder: Path, times: int, **fields: object) -> None:
    endpoint = {"engine": "postgres", "host": "h", "port": 1, "database": "d", "user": "u", "password": "p"}
    document = {"name": "worker-1", "endpoint": endpoint, "queue": "que", "events": folder / "e.csv", "poll_s": 0.1, **fields}
    made: Any = Worker(WorkerDocument.model_validate(document), None, Stop(by=()))  # type: ignore[arg-type]
    for _ in range(times):
        made._wait_for_jobs()


def test_without_back_off_it_waits_between_half_and_one_and_a_half_intervals(queue: EmptyQueue, tmp_path: Path) -> None:
    wait_often(tmp_path, 50)
    assert all(0.05 <= wait_s <= 0.15 for wait_s in queue.waits_s)


def test_with_back_off_the_interval_doubles_up_to_its_limit(queue: EmptyQueue, tmp_path: Path) -> None:
    wait_often(tmp_path, 50, max_poll_s=1.0)
    means_s = [0.1, 0.2, 0.4, 0.8, *[1.0] * 46]
    assert all(0.5 * mean_s <= wait_s <= 1.5 * mean_s for mean_s, wait_s in zip(means_s, queue.waits_s, strict=True))


def test_a_notification_resets_it(queue: EmptyQueue, tmp_path: Path) -> None:
    queue.notified_at = {6}
    wait_often(tmp_path, 7, max_poll_s=1.0)
    assert queue.waits_s[5] >= 0.5
    assert queue.waits_s[6] <= 0.15
