"""The collector `statements`: what the server counted of each statement, and which of them is the claim."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from stallbench.engines.collectors.statement_counts import STATEMENTS_FILE
from stallbench.engines.postgres.collectors.statements import StatementsCollector
from stallbench.engines.postgres.driver import connect
from stallbench.queues import NewJob, Queue, find_queue, find_queues
from stallbench.queues.queue_client import close_queue, open_queue
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn
from tests.integration.watched_statements import sample, watch

pytestmark = pytest.mark.integration

CLAIMING_BY_SQL = [kind for kind, queue in find_queues().items() if queue.claim_pattern and "postgres" in queue.engines]


def count_statements(endpoint: Endpoint) -> None:
    with connect(endpoint, "test") as connection:
        connection.execute("CREATE EXTENSION pg_stat_statements")
        connection.execute("SELECT pg_stat_statements_reset()")


@contextmanager
def installed(kind: str, endpoint: Endpoint, empty_on: EmptyOn) -> Iterator[Queue[Any]]:
    second = find_queue(kind).second_engine
    if second == "redis":
        endpoint = endpoint.model_copy(update={"second": empty_on("redis")})
    queue = open_queue(kind, {}, endpoint, "test")
    queue.install()
    try:
        yield queue
    finally:
        close_queue(queue, "postgres")


def test_a_server_that_does_not_count_statements_says_so(empty_on: EmptyOn, tmp_path: Path) -> None:
    with closing(watch(StatementsCollector, empty_on("postgres"), "que", tmp_path)) as collector:
        assert sample(collector) == {("server", "statements_counted"): 0}


def test_a_claim_that_reads_past_dead_rows_reads_more_buffers(empty_on: EmptyOn, tmp_path: Path) -> None:
    endpoint = empty_on("postgres")
    count_statements(endpoint)
    with (
        installed("que", endpoint, empty_on) as queue,
        closing(watch(StatementsCollector, endpoint, "que", tmp_path)) as collector,
    ):
        queue.enqueue([NewJob(payload="{}")] * 500)

        def buffers_of_one_claim() -> float:
            before = sample(collector)
            (claim,) = queue.claim()
            after = sample(collector)
            assert (
                after["claim_statement", "claim_statement_calls"]
                == before.get(("claim_statement", "claim_statement_calls"), 0) + 1
            )
            queue.complete(claim)
            return float(
                after["claim_statement", "claim_statement_buffers"]
                - before.get(("claim_statement", "claim_statement_buffers"), 0)
            )

        first = buffers_of_one_claim()
        with connect(endpoint, "holder") as holder:
            holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            holder.execute("SELECT count(*) FROM que_jobs")
            with connect(endpoint, "test") as connection:
                connection.execute("DELETE FROM que_jobs WHERE job_id < 400")
            assert buffers_of_one_claim() > first + 4


def test_the_text_of_each_statement_is_written_once(empty_on: EmptyOn, tmp_path: Path) -> None:
    endpoint = empty_on("postgres")
    count_statements(endpoint)
    with (
        installed("que", endpoint, empty_on) as queue,
        closing(watch(StatementsCollector, endpoint, "que", tmp_path)) as collector,
    ):
        queue.claim()
        sample(collector)
        sample(collector)
    lines = [json.loads(line) for line in (tmp_path / STATEMENTS_FILE).read_text().splitlines()]
    assert len({line["statement"] for line in lines}) == len(lines)
    (claim,) = [line for line in lines if line["is_claim"]]
    assert claim["text"].startswith("WITH RECURSIVE job AS ( SELECT (j).*, pg_try_advisory_lock")


@pytest.mark.parametrize("kind", CLAIMING_BY_SQL)
def test_only_the_claim_is_recognised(kind: str, empty_on: EmptyOn, tmp_path: Path) -> None:
    endpoint = empty_on("postgres")
    count_statements(endpoint)
    with installed(kind, endpoint, empty_on) as queue, closing(watch(StatementsCollector, endpoint, kind, tmp_path)) as collector:
        queue.enqueue([NewJob(payload="{}")] * 3)
        queue.backlog()
        list(queue.job_ids())
        assert ("claim_statement", "claim_statement_calls") not in sample(collector)
        while queue.claims_after_schedule and queue.schedule() == 0:
            pass
        (claim, *_) = queue.claim()
        queue.complete(claim)  # the server counts a statement of an open transaction when the next one begins
        assert sample(collector)["claim_statement", "claim_statement_calls"] >= 1
    claims = [line["text"] for line in map(json.loads, (tmp_path / STATEMENTS_FILE).read_text().splitlines()) if line["is_claim"]]
    assert len(claims) == 1, claims
