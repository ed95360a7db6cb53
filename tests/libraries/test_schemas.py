"""Faults and statistics of tables that are not in the schema `public`, as those of PGMQ."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.queues import find_queue
from tests.integration.faulty_run import FaultyRun, faulty_run

pytestmark = [pytest.mark.integration, pytest.mark.libraries]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyRun]:
    """One run for all tests of this file; each puts it right again."""
    find_queue("library:pgmq").require_programs(print)
    with faulty_run(tmp_path_factory.mktemp("schemas"), queue="library:pgmq") as running:
        yield running


def test_each_enqueue_notifies(run: FaultyRun) -> None:
    record = run.inject("notify_trigger")
    with connect(run.cluster.server("primary").direct, "listener") as listener:
        listener.execute(f"LISTEN {record.evidence['trigger']}")
        assert len(list(listener.notifies(timeout=60, stop_after=3))) == 3
    assert run.end_faults().active_to_end is True


def test_a_column_is_added_and_removed(run: FaultyRun) -> None:
    run.wait_until_jobs_complete()
    run.inject("alter_table", reader_for="1s")
    run.wait_until(lambda: run.faults()[-1].verified_gone_ns is not None, "the column", within_s=60)
    assert run.faults()[-1].evidence["done"] is True
    with connect(run.cluster.server("primary").direct, "test") as connection:
        assert (
            connection.execute("SELECT 1 FROM pg_attribute WHERE attname LIKE 'of_alter_table%' AND NOT attisdropped").fetchall()
            == []
        )
