"""A backlog that is loaded by several calls: every job is in the queue once, under the id that was recorded. How long that takes is
measured by `benchmarks.loading`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stallbench.engines import EngineName, driver_of
from stallbench.queues import find_queues
from stallbench.queues.queue import NewJob
from stallbench.queues.queue_client import opened_queue
from stallbench.records.events import Event
from tests.integration.conftest import EmptyOn
from tests.integration.engines import PrivateServers
from tests.integration.real_processes import start_recording

pytestmark = pytest.mark.integration

SQL: tuple[EngineName, ...] = ("postgres", "mariadb", "mysql", "sqlite")
SEVERAL_CALLS = 10_003
TRIED = (("laravel", "mariadb"), ("laravel", "sqlite"))
"""By `make test`: of the engines that a queue shares with others, the first, and each driver once."""
OPTIONS: dict[str, list[dict[str, object]]] = {
    "postgrestue": [{}, {"fifo_share": 0.2, "scheduled_share": 0.2, "schedule": 600, "blocked_share": 0.2}]
}


@pytest.mark.parametrize(
    ("kind", "engine", "options"),
    [
        pytest.param(
            kind,
            engine,
            options,
            id=f"{kind}-{engine}{'-waiting' if options else ''}",
            marks=()
            if (kind, engine) in TRIED or engine == next(each for each in SQL if each in queue.engines)
            else pytest.mark.long,
        )
        for kind, queue in find_queues().items()
        for engine in SQL
        if engine in queue.engines
        for options in OPTIONS.get(kind, [{}])
    ],
)
def test_a_backlog_is_whole(
    kind: str, engine: EngineName, options: dict[str, Any], empty_on: EmptyOn, servers: PrivateServers, tmp_path: Path
) -> None:
    endpoint = empty_on(engine)
    if second := find_queues()[kind].second_engine:
        endpoint = endpoint.model_copy(update={"second": empty_on(second)})
    with opened_queue(kind, options, endpoint, "test") as queue:
        queue.install()
        producer = start_recording(
            servers.processes,
            "producer",
            "backlog",
            endpoint,
            kind,
            tmp_path,
            queue_options=options,
            rate=0,
            backlog=SEVERAL_CALLS,
            payload_bytes=16,
        )
        producer.end()
        recorded = [record.job_id for record in producer.of(Event.ENQUEUED)]
        held = dict(queue.job_ids())
        assert len(recorded) == SEVERAL_CALLS
        assert set(held) == set(recorded)
        assert len(held) == SEVERAL_CALLS
        assert not any(held.values())
        while queue.claims_after_schedule and queue.schedule() == 0:
            pass
        (claim,) = queue.claim()
        assert claim.job_id in held


def test_the_planner_has_statistics_of_a_backlog_before_the_first_claim(empty_on: EmptyOn) -> None:
    endpoint = empty_on("postgres")
    with opened_queue("insert_only_log", {}, endpoint, "test") as queue:
        queue.install()
        queue.load([NewJob(payload="{}")] * SEVERAL_CALLS)
        driver_of("postgres").vacuum_and_analyze(queue.connection, queue.tables)
        known = queue.connection.execute(
            "SELECT relname, reltuples, relallvisible FROM pg_class WHERE relname = ANY(%s)", [list(queue.tables)]
        ).fetchall()
    assert {name: tuples for name, tuples, _ in known} == {"log_entries": SEVERAL_CALLS, "log_ranges": 0, "log_positions": 0}


def test_the_statistics_of_a_table_in_another_schema_are_made_too(empty_on: EmptyOn) -> None:
    driver = driver_of("postgres")
    with driver.connect(empty_on("postgres"), "test") as connection:
        connection.execute('CREATE SCHEMA "other"')
        connection.execute("CREATE TABLE other.jobs AS SELECT * FROM generate_series(1, 10)")
        driver.vacuum_and_analyze(connection, ("other.jobs",))
        assert connection.execute("SELECT reltuples FROM pg_class WHERE relname = 'jobs'").fetchall() == [(10,)]
