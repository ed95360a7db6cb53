"""The effect of a session in LISTEN that stays in a transaction: in the end no enqueue that notifies succeeds."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.processes.role_command import role_command
from stallbench.queues import NewJob
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from stallbench.setup.components import find_postgres
from tests.integration.faulty_run import PATIENCE_S, faulty_run

_POSTGRES = find_postgres()

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        _POSTGRES is not None and _POSTGRES.major < 17,
        reason="the notification queue takes 8 GB; a smaller one can be had from PostgreSQL 17 on (max_notify_queue_pages)",
    ),
]


def enqueue(endpoint: Endpoint, count: int) -> None:
    with opened_queue("skip_locked", {"notify": True}, endpoint, "notifying") as queue:
        for _ in range(0, count, 500):
            queue.enqueue([NewJob(payload="{}")] * 500)


def test_a_full_notification_queue_refuses_every_enqueue_that_notifies(tmp_path: Path) -> None:
    with faulty_run(tmp_path, workers=1, settings="{ max_notify_queue_pages = 64 }") as run:
        endpoint = run.cluster.server("primary").direct
        longrunner = run.processes.start(
            "listening_transaction-1",
            "longrunner",
            role_command("longrunners"),
            document={
                "name": "listening_transaction-1",
                "kind": "listening_transaction",
                "endpoint": endpoint.with_password(),
            },
            log=tmp_path / "longrunner.log",
            ready=True,
        )
        longrunner.wait_ready(PATIENCE_S)
        with pytest.raises(psycopg.Error, match="too many notifications in the NOTIFY queue"):
            enqueue(endpoint, 50_000)
        run.wait_until_jobs_complete(20)
        longrunner.stop(PATIENCE_S)
        with connect(endpoint, "test") as connection:
            run.wait_until(
                lambda: connection.execute("SELECT pg_notification_queue_usage()").fetchone() == (0,), "an empty queue"
            )
        enqueue(endpoint, 500)
