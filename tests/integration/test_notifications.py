"""Listeners, the notification queue and what the collector sees of both, on a real server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from psycopg import errors

from stallbench.engines.collectors.document import CollectorsDocument, WatchedQueue, WatchedServer
from stallbench.engines.postgres.collectors.notifications import NotificationsCollector
from stallbench.engines.postgres.driver import connect
from stallbench.queues import NewJob
from stallbench.queues.queue_client import opened_queue
from tests.integration.conftest import Connection, TestDatabase
from tests.integration.held_database import HeldDatabase, database_name, held, prompt_feedback
from tests.waiting import PATIENCE_S, wait_for

__all__ = ["database_name", "held", "prompt_feedback"]

pytestmark = pytest.mark.integration


def collector_of(held: HeldDatabase, folder: Path) -> NotificationsCollector:
    primary = held.cluster.server("primary")
    endpoint = primary.direct.model_copy(update={"database": held.name})
    server = WatchedServer(name="primary", role="primary", endpoint=endpoint)
    queue = WatchedQueue(kind="skip_locked", tables=("skip_locked_jobs",), indexes=())
    return NotificationsCollector(
        CollectorsDocument(name="collectors", run_folder=folder, interval_s=1, servers=(server,), queue=queue)
    )


def look(collector: NotificationsCollector) -> dict[tuple[str, str], Any]:
    return {(sample.subject, sample.metric): sample.value for sample in collector.sample()}


def test_a_stuck_listener_is_idle_and_yet_in_a_transaction(held: HeldDatabase, tmp_path: Path) -> None:
    process, holder = held.start(held.document("stuck_listener"))
    row = held.primary.execute(
        "SELECT state, wait_event, xact_start IS NOT NULL, backend_xmin IS NOT NULL FROM pg_stat_activity WHERE pid = %s",
        (holder["pid"],),
    ).fetchone()
    assert row == ("idle", "ClientWrite", True, True)
    with closing(collector_of(held, tmp_path)) as collector:
        assert look(collector)["server", "stuck_clients"] == 0, "it has been seen for no second yet"
        values = wait_for(lambda: found if (found := look(collector))["server", "stuck_clients"] else None, "a stuck client")
        (subject,) = {subject for subject, _ in values if subject.startswith("client_write:")}
        assert values[subject, "pid"] == holder["pid"]
        assert values[subject, "application"] == "stallbench:longrunner:stuck_listener-1"
        assert values["server", "notification_queue_bytes"] > 1_000_000
        process.stop(PATIENCE_S)
        assert process.exit_code == 0, process.tail_log()
        wait_for(lambda: look(collector)["server", "stuck_clients"] == 0, "the end of its session")


def test_a_stuck_listener_reports_that_its_session_was_ended(held: HeldDatabase) -> None:
    process, holder = held.start(held.document("stuck_listener"))
    held.primary.execute("SELECT pg_terminate_backend(%s)", (holder["pid"],))
    wait_for(lambda: process.poll() is not None, "the longrunner's end")
    (message,) = process.messages()
    # It may be looked at in the moment in which it ends.
    ending = f"session {holder['pid']} is no longer stuck in ClientWrite: it waits for "
    ended = f"session {holder['pid']}, stuck in ClientWrite, was ended: the server no longer has it"
    assert message["lost"] == ended or message["lost"].startswith(ending)
    assert process.exit_code == 3


def test_a_listening_transaction_keeps_the_notification_queue_until_it_ends(held: HeldDatabase, tmp_path: Path) -> None:
    fill = "SELECT count(pg_notify('filling', n || repeat('x', 7900))) FROM generate_series(1, 100) AS n"
    with closing(collector_of(held, tmp_path)) as collector:
        process, _ = held.start(held.document("listening_transaction"))
        before = look(collector)["server", "notification_queue_bytes"]
        held.primary.execute(fill)
        held.primary.execute(fill)
        kept = look(collector)["server", "notification_queue_bytes"]
        assert kept - before > 1_500_000
        process.stop(PATIENCE_S)
        held.primary.execute(fill)
        wait_for(lambda: look(collector)["server", "notification_queue_bytes"] < kept / 2, "the end of the session that kept it")


@pytest.fixture
def notifying(database: TestDatabase) -> Callable[[Connection], list[str]]:
    """Enqueues two jobs and then one, with ``notify``; returns the notifications that a listener received."""

    def enqueue(listener: Connection) -> list[str]:
        with opened_queue("skip_locked", {"notify": True}, database.direct, "test") as queue:
            queue.install()
            ids = [*queue.enqueue([NewJob(payload="{}")] * 2), *queue.enqueue([NewJob(payload="{}")])]
        told = [notification.payload for notification in listener.notifies(timeout=PATIENCE_S, stop_after=3)]
        assert [int(payload) for payload in told] == ids
        return told

    return enqueue


def test_every_job_of_an_enqueue_is_notified(database: TestDatabase, notifying: Callable[[Connection], list[str]]) -> None:
    with connect(database.direct, "listener") as listener:
        listener.execute("LISTEN skip_locked_jobs")
        assert len(notifying(listener)) == 3


def test_a_notification_with_the_whole_job_limits_the_size_of_its_arguments(database: TestDatabase) -> None:
    options = {"notify": True, "notification": "job"}
    with connect(database.direct, "listener") as listener, opened_queue("skip_locked", options, database.direct, "test") as queue:
        queue.install()
        listener.execute("LISTEN skip_locked_jobs")
        (job_id,) = queue.enqueue([NewJob(payload='{"n":1}')])
        (told,) = listener.notifies(timeout=PATIENCE_S, stop_after=1)
        assert (json.loads(told.payload)["job_id"], json.loads(told.payload)["payload"]) == (job_id, {"n": 1})
        with pytest.raises(errors.InvalidParameterValue, match="payload string too long"):
            queue.enqueue([NewJob(payload=f'{{"filling":"{"x" * 8000}"}}')])
        assert [job_id for job_id, _ in queue.job_ids()] == [job_id]


def test_a_commit_that_notifies_waits_for_another_s(held: HeldDatabase, tmp_path: Path) -> None:
    endpoint = held.cluster.server("primary").direct.model_copy(update={"database": held.name})
    stop = threading.Event()

    def notify_on() -> None:
        with connect(endpoint, "notifier") as connection:
            while not stop.is_set():
                connection.execute("SELECT pg_notify('jobs', '')")

    threads = [threading.Thread(target=notify_on, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    try:
        with closing(collector_of(held, tmp_path)) as collector:
            waiting = wait_for(lambda: look(collector)["server", "notify_lock_waits"], "a waiting session", every_s=0)
            assert 1 <= waiting <= 5
    finally:
        stop.set()
        for thread in threads:
            thread.join()
