"""What an unused slot holds back: a physical one all tables, a logical one only the catalogs."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.pq import ExecStatus

from tests.integration.held_database import HeldDatabase, database_name, held, prompt_feedback
from tests.waiting import PATIENCE_S, wait_for

__all__ = ["database_name", "held", "prompt_feedback"]

pytestmark = pytest.mark.integration

_SLOT = (
    "SELECT active, xmin IS NOT NULL, catalog_xmin IS NOT NULL FROM pg_replication_slots WHERE slot_name = 'stallbench_slot_1'"
)


def rewrite_catalog(held: HeldDatabase) -> None:
    """Leave dead rows in the system catalogs."""
    held.primary.execute("CREATE TABLE short_lived (a int, b int, c int)")
    held.primary.execute("DROP TABLE short_lived")


def test_a_physical_slot_is_inactive_and_holds_all_tables(held: HeldDatabase) -> None:
    _, holder = held.start(held.document("slot", type="physical"))
    assert holder == {"kind": "slot", "key": "stallbench_slot_1", "catalog_only": False}
    assert held.primary.execute(_SLOT).fetchone() == (False, True, False)
    rewrite_catalog(held)
    held.delete_jobs()
    assert held.kept_dead_rows("jobs") == 10
    assert held.kept_dead_rows("pg_catalog.pg_attribute") > 0


def test_a_logical_slot_does_not_keep_vacuum_from_a_queue_but_from_the_catalogs(held: HeldDatabase) -> None:
    process, holder = held.start(held.document("slot", type="logical"))
    assert holder == {"kind": "slot", "key": "stallbench_slot_1", "catalog_only": True}
    assert held.primary.execute(_SLOT).fetchone() == (False, False, True)
    rewrite_catalog(held)
    held.delete_jobs()
    held.wait_until_vacuum_removes("jobs")
    assert held.kept_dead_rows("pg_catalog.pg_attribute") > 0
    found = held.find(holder)
    assert found is not None and found.catalog_only

    process.stop(PATIENCE_S)
    assert process.messages()[-1] == {"released": True}
    held.wait_until_vacuum_removes("pg_catalog.pg_attribute")


def test_it_reports_that_the_slot_is_in_use_again(held: HeldDatabase) -> None:
    process, _ = held.start(held.document("slot", type="logical"))
    info = held.primary.info
    with psycopg.connect(info.dsn, password=info.password, replication="database", autocommit=True) as connector:
        started = connector.pgconn.exec_(b"START_REPLICATION SLOT stallbench_slot_1 LOGICAL 0/0")
        assert started.status == ExecStatus.COPY_BOTH
        wait_for(lambda: process.poll() is not None, "the longrunner's end")
        backend_pid = connector.info.backend_pid
        connector.pgconn.finish()
    assert process.messages() == [{"lost": f"slot stallbench_slot_1 is in use again, by process {backend_pid} of the server"}]
    assert process.exit_code == 3
