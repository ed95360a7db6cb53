"""Foreign keys' row locks and subtransactions, as the collector `slru` and the longrunners `key_share` and `savepoints` show them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stallbench.engines.collectors.document import CollectorsDocument, WatchedQueue, WatchedServer
from stallbench.engines.postgres.collectors.slru import SlruCollector
from stallbench.queues import Queue
from tests.integration.held_database import HeldDatabase, database_name, held, prompt_feedback
from tests.integration.mitigating_queue import JOBS, Open, open_
from tests.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.integration

__all__ = ["database_name", "held", "open_", "prompt_feedback"]

LISTED_IN_A_SNAPSHOT = 64


def count_lookups(held: HeldDatabase, folder: Path, metric: str, act: Callable[[], object]) -> int:
    """Return by how much a metric of the collector grows while this session does ``act``."""

    def read() -> int:
        (found,) = (sample.value for sample in collector.sample() if sample.metric == metric)
        return int(found)

    primary = WatchedServer(name="primary", role="primary", endpoint=held.cluster.server("primary").direct)
    queue = WatchedQueue(kind="que", tables=(), indexes=())
    document = CollectorsDocument(name="collectors", run_folder=folder, interval_s=1, servers=(primary,), queue=queue)
    with closing(SlruCollector(document)) as collector:
        before = read()
        act()
        held.primary.execute("SELECT pg_stat_force_next_flush()")
        held.primary.execute("SELECT 1")
        return read() - before


def take_transaction_id(held: HeldDatabase) -> int:
    (xid,) = held.primary.execute("SELECT txid_current()").fetchone() or (0,)
    return int(xid)


def write_rows(held: HeldDatabase) -> None:
    """Leave rows of ten committed transactions."""
    for number in range(10):
        held.primary.execute("INSERT INTO jobs VALUES (%s)", (number,))


@pytest.mark.parametrize(("savepoints", "looks_up"), [(LISTED_IN_A_SNAPSHOT, False), (2 * LISTED_IN_A_SNAPSHOT, True)])
def test_more_savepoints_than_a_snapshot_lists_make_other_sessions_look_up(
    held: HeldDatabase, tmp_path: Path, savepoints: int, looks_up: bool
) -> None:
    first_xid = take_transaction_id(held)
    process, _ = held.start(held.document("savepoints", per_s=100_000, at_most=savepoints))
    wait_for(lambda: take_transaction_id(held) - first_xid > savepoints, "all savepoints")
    write_rows(held)
    lookups = count_lookups(
        held, tmp_path, "subtransaction_lookups", lambda: held.primary.execute("SELECT count(*) FROM jobs").fetchone()
    )
    assert (lookups >= 10) is looks_up
    process.stop(PATIENCE_S)
    assert process.messages()[-1] == {"released": True}


def test_a_row_lock_that_is_shared_is_looked_up_by_the_next_that_shares_it(held: HeldDatabase, tmp_path: Path) -> None:
    write_rows(held)
    held.start(held.document("key_share", sessions=3, table="jobs"))
    lockers = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE application_name = 'stallbench:longrunner:key_share-1' AND backend_xid IS NOT NULL"
    )
    assert held.primary.execute(lockers).fetchone() == (3,)
    share = "SELECT 1 FROM jobs FOR KEY SHARE"
    assert count_lookups(held, tmp_path, "multixact_lookups", lambda: held.primary.execute(share).fetchall()) > 0


def locks_the_queue(queue: Queue[Any], other: Queue[Any]) -> bool:
    """Whether an enqueue that is not committed keeps the queue's row from being deleted."""
    queue.connection.execute("BEGIN")
    queue.enqueue(JOBS[:1])
    found = other.connection.execute("SELECT name FROM status_column_queues FOR UPDATE SKIP LOCKED").fetchall()
    queue.connection.execute("ROLLBACK")
    return not found


@pytest.mark.parametrize(("parent", "is_locked"), [("referenced", True), ("unreferenced", False)])
def test_an_enqueue_locks_the_queue_that_its_job_refers_to(open_: Open, parent: str, is_locked: bool) -> None:
    assert locks_the_queue(open_("status_column", parent=parent), open_("status_column")) is is_locked
