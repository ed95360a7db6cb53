"""What is special about `shared_table`: which jobs a claim reads and finds when other jobs are in the table; test_queues.py tests what every queue
must do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.errors import BadInputError
from stallbench.queues import NewJob
from stallbench.queues.queue_client import close_queue, open_queue
from stallbench.queues.shared_table import SharedTable
from stallbench.records.endpoint import Endpoint
from stallbench.scenario.file import read_scenario
from tests.integration.conftest import EmptyOn
from tests.integration.faulty_run import faulty_run

pytestmark = pytest.mark.integration

OTHER_JOBS = 20_000


@pytest.fixture
def endpoint(empty_on: EmptyOn) -> Endpoint:
    return empty_on("postgres")


def installed(endpoint: Endpoint, **options: object) -> SharedTable:
    queue = opened(endpoint, **options)
    queue.install()
    return queue


def opened(endpoint: Endpoint, **options: object) -> SharedTable:
    queue = open_queue("shared_table", options, endpoint, "test")
    assert isinstance(queue, SharedTable)
    return queue


def count_pages_of_a_claim(queue: SharedTable, endpoint: Endpoint) -> float:
    """Claim seven jobs, more than PostgreSQL plans one by one, and return how many pages the last of these claims read."""
    ids = queue.enqueue([NewJob(payload="{}") for _ in range(7)])
    with connect(endpoint, "count") as watch:
        pages = 0
        for job_id in ids:
            before = read_pages(queue, watch)
            (claim,) = queue.claim()
            pages = read_pages(queue, watch) - before
            assert claim.job_id == job_id
            queue.complete(claim)
    close_queue(queue, "postgres")
    return pages


def read_pages(queue: SharedTable, watch: Any) -> int:
    """Return the pages of tables and indexes that all sessions have read so far, once the queue's own session has reported its own."""
    queue.connection.execute("SELECT pg_stat_force_next_flush()")
    statement = "SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit) FROM pg_statio_user_tables"
    return int(watch.execute(statement).fetchone()[0])


DEEP = pytest.mark.parametrize(
    ("options", "state", "reads_past"),
    [
        ({"index": "ready"}, "ready", True),
        ({"index": "queue"}, "ready", False),
        ({"index": "ready", "partitioned": True}, "ready", False),
        ({"index": "queue", "parameters": True}, "ready", True),
        ({"index": "queue"}, "future", True),
        ({"index": "run_at"}, "future", False),
        ({"index": "ready"}, "failed", False),
    ],
)


@DEEP
def test_which_jobs_a_claim_reads_past(endpoint: Endpoint, options: dict[str, object], state: str, reads_past: bool) -> None:
    queue = installed(endpoint, **options)
    queue.add_other_jobs(OTHER_JOBS, state)
    assert queue.count_other_jobs() == OTHER_JOBS
    queue.connection.execute("VACUUM ANALYZE shared_jobs")
    assert queue.depth() == 0
    assert list(queue.job_ids()) == []
    pages = count_pages_of_a_claim(queue, endpoint)
    assert (pages > 100) == reads_past, f"{pages} pages"


def test_the_planner_chooses_the_wrong_index_until_it_knows_of_the_other_jobs(endpoint: Endpoint) -> None:
    queue = installed(endpoint, index="ready_and_queue")
    queue.connection.execute("ALTER TABLE shared_jobs SET (autovacuum_enabled = off)")
    queue.enqueue([NewJob(payload="{}") for _ in range(20)])
    queue.connection.execute("ANALYZE shared_jobs")
    while claims := queue.claim():
        queue.complete(claims[0])
    queue.add_other_jobs(OTHER_JOBS, "ready")
    close_queue(queue, "postgres")
    assert count_pages_of_a_claim(opened(endpoint, index="ready_and_queue"), endpoint) > 100
    with connect(endpoint, "analyze") as connection:
        connection.execute("VACUUM ANALYZE shared_jobs")
    assert count_pages_of_a_claim(opened(endpoint, index="ready_and_queue"), endpoint) < 100


def test_other_jobs_come_and_go_and_are_not_claimed(tmp_path: Path) -> None:
    with faulty_run(tmp_path, queue="shared_table", workers=1) as run:
        run.wait_until_jobs_complete()
        record = run.inject("other_jobs", count=1000)
        assert (record.evidence["jobs"], record.evidence["state"]) == (1000, "ready")
        run.wait_until_jobs_complete()
        assert run.end_faults().active_to_end
        with connect(run.cluster.server("primary").direct, "test") as connection:
            assert connection.execute("SELECT count(*) FROM shared_jobs WHERE queue = 'other'").fetchone() == (0,)


def test_a_queue_that_shares_its_table_with_no_other_jobs_is_refused() -> None:
    with pytest.raises(BadInputError, match="its table has no jobs of other queues"):
        read_scenario("deep-backlog", overrides=["queue.kind=que"])


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({"claim": "all_queues"}, ["noisy", "noisy", "noisy", "default"]),
        ({"claim": "round_robin"}, ["default", "noisy", "noisy", "noisy"]),
        ({"claim": "limited", "limit": 2}, ["noisy", "noisy", "default"]),
        ({"claim": "one_queue"}, ["default"]),
        ({"claim": "strict"}, ["default", "noisy", "noisy", "noisy"]),
    ],
)
def test_which_tenant_is_next(endpoint: Endpoint, options: dict[str, object], order: list[str]) -> None:
    queue = installed(endpoint, **options)
    tenants: dict[int, str] = {}
    for tenant in ("noisy", "noisy", "noisy", "default"):
        (job_id,) = queue.enqueue([NewJob(payload="{}", queue=tenant)])
        tenants[job_id] = tenant
        recorded = queue.preconditions.get(job_id)
        assert (str(recorded) if recorded else "") == ("queue:noisy" if tenant == "noisy" else "")
    claimed = []
    while claims := queue.claim():
        claimed.append(tenants[claims[0].job_id])
    close_queue(queue, "postgres")
    assert claimed == order


def test_round_robin_alternates_between_tenants(endpoint: Endpoint) -> None:
    queue = installed(endpoint, claim="round_robin")
    tenants = {}
    for tenant in ("noisy", "noisy", "noisy", "default", "default"):
        (job_id,) = queue.enqueue([NewJob(payload="{}", queue=tenant)])
        tenants[job_id] = tenant
    claimed = [tenants[queue.claim()[0].job_id] for _ in range(5)]
    close_queue(queue, "postgres")
    assert claimed == ["default", "noisy", "default", "noisy", "noisy"]
