"""Why statements of libraries read past the jobs of another queue: by the pages that `EXPLAIN` counts, on the libraries' own tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from stallbench.queues import NewJob
from stallbench.queues.library_queue import LibraryQueue
from stallbench.queues.queue_client import opened_queue
from tests.integration.conftest import EmptyOn

pytestmark = [pytest.mark.integration, pytest.mark.libraries]

OTHER_JOBS = 100_000
PGQUEUER_COUNT = """
SELECT count(*) AS queued_work FROM (
  SELECT 1 FROM pgqueuer WHERE entrypoint = ANY($1) AND status = 'queued' AND execute_after <= now() LIMIT $2
) sub
"""
"""As the server shows it."""
LARAVEL_CLAIM = """
select * from jobs where queue = 'default'
and ((reserved_at is null and available_at <= extract(epoch from now())) or (reserved_at <= extract(epoch from now()) - 90))
order by id asc limit 1 for update skip locked
"""

Filled = Callable[[str, str], LibraryQueue]


@pytest.fixture
def filled(empty_on: EmptyOn) -> Iterator[Filled]:
    """Returns a library whose table has only jobs of another queue, while its statistics are of a time when it had only those of the workers."""
    with ExitStack() as stack:

        def fill(name: str, table: str) -> LibraryQueue:
            queue = stack.enter_context(opened_queue(f"library:{name}", {}, empty_on("postgres"), "test"))
            assert isinstance(queue, LibraryQueue)
            queue.require_programs(print)
            queue.install()
            queue.connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
            queue.enqueue([NewJob(payload="{}") for _ in range(20)])
            queue.connection.execute(f"ANALYZE {table}")
            queue.connection.execute(f"DELETE FROM {table}")
            queue.add_other_jobs(OTHER_JOBS, "ready")
            return queue

        yield fill


def count_pages(connection: Any, statement: str) -> int:
    ((plans,),) = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}").fetchall()
    plan = json.loads(plans)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def test_pgqueuer_s_count_of_its_jobs_reads_the_whole_table_by_a_generic_plan(filled: Filled) -> None:
    connection = filled("pgqueuer", "pgqueuer").connection
    connection.execute("ANALYZE pgqueuer")
    connection.execute(f"PREPARE work (text[], bigint) AS {PGQUEUER_COUNT}")
    pages = {}
    for mode in ("force_custom_plan", "force_generic_plan"):
        connection.execute(f"SET plan_cache_mode = {mode}")
        pages[mode] = count_pages(connection, "EXECUTE work (ARRAY['job'], 1)")
    assert pages["force_custom_plan"] < 20
    assert pages["force_generic_plan"] > 500


def test_laravel_s_claim_reads_past_the_other_jobs_until_the_table_is_analyzed(filled: Filled) -> None:
    connection = filled("laravel", "jobs").connection
    before = count_pages(connection, LARAVEL_CLAIM)
    connection.execute("ANALYZE jobs")
    assert before > 500
    assert count_pages(connection, LARAVEL_CLAIM) < 20


@pytest.mark.parametrize("emulated", [True, False])
def test_laravel_with_emulated_prepares_prepares_nothing_on_mariadb(empty_on: EmptyOn, emulated: bool) -> None:
    """The server's statistics of statements then count its claim."""
    with opened_queue("library:laravel", {"emulate_prepares": emulated}, empty_on("mariadb"), "test") as queue:
        queue.require_programs(print)
        queue.install()
        with queue.connection.cursor() as cursor:
            prepared = []
            for _ in range(2):
                cursor.execute("SHOW GLOBAL STATUS LIKE 'Com_stmt_prepare'")
                prepared.append(int(cursor.fetchone()[1]))
                queue.enqueue([NewJob(payload="{}")])
            assert (prepared[0] == prepared[1]) is emulated
