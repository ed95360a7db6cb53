"""The collector `innodb_statements`: what MariaDB's performance schema counted of each statement, and which of them is the claim."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from stallbench.engines import EngineName, driver_of
from stallbench.engines.collectors.statement_counts import STATEMENTS_FILE
from stallbench.engines.innodb.collectors.statements import DigestCounts, InnoDBStatementsCollector, read_digest_texts
from stallbench.queues import NewJob, Queue, find_queues
from stallbench.queues.queue_client import close_queue, open_queue
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn
from tests.integration.watched_statements import sample, watch

pytestmark = pytest.mark.integration

CLAIMING_BY_SQL = [kind for kind, queue in find_queues().items() if queue.claim_pattern and "mariadb" in queue.engines]


def forget_statements(endpoint: Endpoint) -> None:
    with driver_of("mariadb").connect(endpoint, "test") as connection, connection.cursor() as cursor:
        cursor.execute("TRUNCATE performance_schema.events_statements_summary_by_digest")


@contextmanager
def installed(kind: str, endpoint: Endpoint) -> Iterator[Queue[Any]]:
    queue = open_queue(kind, {}, endpoint, "test")
    queue.install()
    try:
        yield queue
    finally:
        close_queue(queue, "mariadb")


@pytest.mark.parametrize("kind", CLAIMING_BY_SQL)
def test_only_the_claim_is_recognised_and_its_calls_and_time_are_counted(kind: str, empty_on: EmptyOn, tmp_path: Path) -> None:
    endpoint = empty_on("mariadb")
    forget_statements(endpoint)
    with installed(kind, endpoint) as queue, closing(watch(InnoDBStatementsCollector, endpoint, kind, tmp_path)) as collector:
        queue.enqueue([NewJob(payload="{}")] * 3)
        queue.backlog()
        list(queue.job_ids())
        assert ("claim_statement", "claim_statement_calls") not in sample(collector)
        for _ in range(2):
            (claim, *_) = queue.claim()
            queue.complete(claim)
        counted = sample(collector)
        assert counted["claim_statement", "claim_statement_calls"] == 2
        assert counted["claim_statement", "claim_statement_ms"] > 0
        assert ("claim_statement", "claim_statement_buffers") not in counted, "the server does not count them"
    claims = [line["text"] for line in map(json.loads, (tmp_path / STATEMENTS_FILE).read_text().splitlines()) if line["is_claim"]]
    assert len(claims) == 1, claims


@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
def test_after_the_first_reading_only_statements_that_were_called_since_are_fetched(
    engine: EngineName, empty_on: EmptyOn
) -> None:
    endpoint = empty_on(engine)
    many = 50
    with closing(driver_of(engine).connect(endpoint, "test")) as connection, connection.cursor() as cursor:
        for number in range(many):
            cursor.execute(f"SELECT {number} AS value_{number}")
        fetched = FetchedRows(connection)
        digests = DigestCounts()
        first = calls_of(digests, fetched)
        assert len(first) >= many
        time.sleep(4)  # longer than what two readings have in common
        calls_of(digests, fetched)
        fetched.rows = 0
        cursor.execute("SELECT 0 AS value_0")
        again = calls_of(digests, fetched)
        assert fetched.rows < many
        assert set(first) <= set(again), "those that were not called are still known"
        (called,) = [digest for digest, text in read_digest_texts(connection, list(first)) if "`value_0`" in (text or "")]
        assert again[called] == first[called] + 1
        forget_statements(endpoint)
        cursor.execute("SELECT 0 AS value_0")
        assert calls_of(digests, fetched)[called] == 1, "after a reset everything is fetched again"


def calls_of(digests: DigestCounts, fetched: FetchedRows) -> dict[int | str, int]:
    counts = digests.read(fetched)
    assert counts is not None
    return {one.statement: one.calls for one in counts}


class FetchedRows:
    """A connection that counts the rows of its cursors."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.rows = 0

    def cursor(self) -> Any:
        cursor = self._connection.cursor()
        fetch_all = cursor.fetchall

        def fetch() -> Any:
            rows = fetch_all()
            self.rows += len(rows)
            return rows

        cursor.fetchall = fetch
        return cursor
