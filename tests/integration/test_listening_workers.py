"""Workers that wait for notifications, and workers that poll less often while they find no job."""

from __future__ import annotations

import time
from functools import partial
from itertools import takewhile
from pathlib import Path

import pytest

from stallbench.queues import NewJob
from stallbench.queues.queue_client import open_queue, opened_queue
from stallbench.queues.skip_locked import SkipLocked
from stallbench.records.events import Event
from tests.integration.conftest import EmptyOn
from tests.integration.faulty_run import faulty_run
from tests.integration.mitigating_queue import Open, open_

__all__ = ["open_"]  # the fixture

pytestmark = pytest.mark.integration

LONG_S = 120.0


def until_ended(_: float) -> bool:
    """Pause for no time; nobody asks to end."""
    return False


def test_a_worker_that_listens_is_woken_by_an_enqueue_and_takes_all_notifications_at_once(open_: Open) -> None:
    worker, producer = (open_("skip_locked", notify=True, listen=True) for _ in range(2))
    assert not worker.claim()
    producer.enqueue([NewJob(payload="{}")] * 3)
    assert worker.wait_for_jobs(LONG_S, until_ended)
    assert not worker.wait_for_jobs(0.0, until_ended)
    assert worker.claim()


@pytest.mark.parametrize(("notification", "notifications"), [("empty", 1), ("job_id", 3)])
def test_jobs_of_one_call_share_a_notification_without_content(open_: Open, notification: str, notifications: int) -> None:
    listener, producer = (open_("skip_locked", notify=True, listen=True, notification=notification) for _ in range(2))
    assert not listener.claim()
    producer.enqueue([NewJob(payload="{}")] * 3)
    producer.connection.execute("NOTIFY skip_locked_jobs, 'the last'")
    told = iter(partial(next, listener.connection.notifies(timeout=LONG_S)), None)
    assert len(list(takewhile(lambda one: one.payload != "the last", told))) == notifications


def test_it_waits_no_longer_than_its_interval_and_ends_when_asked(open_: Open) -> None:
    worker = open_("skip_locked", notify=True, listen=True)
    assert not worker.claim()
    assert not worker.wait_for_jobs(0.01, until_ended)
    began_s = time.monotonic()
    assert not worker.wait_for_jobs(LONG_S, lambda _: True)
    assert time.monotonic() - began_s < LONG_S


def test_after_a_notification_it_pauses_for_at_most_the_jitter(open_: Open) -> None:
    worker = open_("skip_locked", notify=True, listen=True, listen_jitter=5.0)
    pauses: list[float] = []

    def pause(pause_s: float) -> bool:
        pauses.append(pause_s)
        return False

    assert not worker.claim()
    worker.enqueue([NewJob(payload="{}")])
    assert worker.wait_for_jobs(LONG_S, pause)
    assert 0 < pauses[-1] <= 5


def test_only_the_first_workers_listen_if_there_are_fewer_listeners(empty_on: EmptyOn) -> None:
    endpoint = empty_on("postgres")
    with opened_queue("skip_locked", {}, endpoint, "install") as queue:
        queue.install()
    options = {"notify": True, "listen": True, "listeners": 2}
    listening = {}
    for name in ("worker-1", "worker-2", "worker-2-1", "worker-3", "producer-1"):
        queue = open_queue("skip_locked", options, endpoint, name)
        queue.claim()
        ((listening[name],),) = queue.connection.execute("SELECT count(*) FROM pg_listening_channels()").fetchall()
        queue.connection.close()
    assert listening == {"worker-1": 1, "worker-2": 1, "worker-2-1": 1, "worker-3": 0, "producer-1": 0}


def test_listening_needs_notifications() -> None:
    options = SkipLocked.options_type.model_validate({"listen": True})
    issue = SkipLocked.find_option_issue(options, "postgres")
    assert issue == ("listen", " is given without notify = true, so that there is no notification; add it")


def test_jobs_of_a_worker_that_only_listens_are_completed(tmp_path: Path) -> None:
    with faulty_run(tmp_path, queue="skip_locked", queue_options="notify = true\nlisten = true") as run:
        run.wait_until_jobs_complete()
        assert run.events(Event.COMPLETED)
