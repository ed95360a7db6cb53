"""`stallbench observe` on a server whose horizon a replication slot holds although its replica has gone."""

from __future__ import annotations

import psycopg
import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.observe.observer import Observation
from tests.integration.conftest import EmptyOn
from tests.integration.held_database import HeldDatabase, database_name, held, prompt_feedback
from tests.integration.observed import finding_about, look_at, section_of
from tests.waiting import wait_for

pytestmark = pytest.mark.integration
__all__ = ["database_name", "held", "prompt_feedback"]


@pytest.fixture
def every_inactive_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report a slot at once: from PostgreSQL 17 on, its consumer may be restarting at first."""
    monkeypatch.setattr("stallbench.observe.postgres.slots.BRIEFLY_INACTIVE_S", 0.0)


def test_the_slot_of_a_replica_that_has_gone_is_the_holder_and_its_statement_frees_the_horizon(
    held: HeldDatabase, every_inactive_slot: None
) -> None:
    endpoint = held.cluster.server("primary").direct.model_copy(update={"database": held.name})
    held.start(held.document("slot"))

    def find() -> tuple[str, ...] | None:
        rows = section_of(look_at(endpoint), "Who holds").rows
        return next((row for row in rows if "slot" in row[0]), None)

    row = wait_for(find, "the slot among the holders")
    (slot,) = held.primary.execute("SELECT slot_name FROM pg_replication_slots WHERE xmin IS NOT NULL").fetchone() or ("",)
    assert slot in row[0]
    assert row[-1] == f"SELECT pg_catalog.pg_drop_replication_slot('{slot}');"
    assert finding_about(look_at(endpoint), f"slot {slot}").statement == row[-1]
    with connect(endpoint, "test") as admin:
        admin.execute(row[-1])
    wait_for(lambda: find() is None, "a horizon that is free")


def test_what_dropping_a_slot_loses_depends_on_its_kind(held: HeldDatabase, every_inactive_slot: None) -> None:
    endpoint = held.cluster.server("primary").direct.model_copy(update={"database": held.name})
    held.primary.execute("SELECT pg_create_physical_replication_slot('of_a_replica', true)")
    held.primary.execute("SELECT pg_create_logical_replication_slot('of_a_subscriber', 'pgoutput')")
    try:
        observation = look_at(endpoint)
        assert finding_about(observation, "physical replication slot of_a_replica").caution.endswith(
            "a replica must be built again"
        )
        logical = finding_about(observation, "logical replication slot of_a_subscriber")
        assert logical.caution.endswith("a subscriber must copy its tables again")
    finally:
        for slot in ("of_a_replica", "of_a_subscriber"):
            held.primary.execute(f"SELECT pg_drop_replication_slot('{slot}')")


def test_the_copy_of_a_table_to_a_subscriber_is_not_taken_for_a_replica_s_feedback(held: HeldDatabase) -> None:
    """What a subscriber does first: it makes a temporary slot, whose snapshot the walsender then uses for a COPY."""
    endpoint = held.cluster.server("primary").direct.model_copy(update={"database": held.name})
    with psycopg.connect(
        host=endpoint.host,
        port=endpoint.port,
        dbname=endpoint.database,
        user=endpoint.user,
        password=endpoint.password.get_secret_value(),
        application_name="pg_1_sync_2",
        replication="database",
        autocommit=True,
    ) as subscriber:
        for command in (
            b"BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ",
            b"CREATE_REPLICATION_SLOT sync TEMPORARY LOGICAL pgoutput USE_SNAPSHOT",
        ):
            assert not subscriber.pgconn.exec_(command).error_message
        pid = subscriber.pgconn.backend_pid

        def find() -> tuple[Observation, tuple[str, ...]] | None:
            observation = look_at(endpoint)
            rows = section_of(observation, "Who holds").rows
            return next(((observation, row) for row in rows if f"walsender {pid} " in row[0]), None)

        observation, row = wait_for(find, "the walsender among the holders")
        assert row[0].startswith("copy of tables to a subscriber of logical replication, walsender")
        assert row[2] != ""
        assert row[-1] == f"SELECT pg_terminate_backend({pid});"
        assert "replica pg_1_sync_2" not in str(observation)


def test_a_slot_that_the_server_has_invalidated_is_said_to_keep_nothing(empty_on: EmptyOn) -> None:
    endpoint = empty_on("postgres")
    with connect(endpoint, "test") as admin:
        admin.execute("SELECT pg_create_physical_replication_slot('gone', true)")
        try:
            admin.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
            admin.execute("SELECT pg_reload_conf()")

            def invalidate() -> bool:
                admin.execute("SELECT pg_logical_emit_message(false, 'test', 'written'), pg_switch_wal()")
                admin.execute("CHECKPOINT")
                query = "SELECT wal_status = 'lost' FROM pg_replication_slots WHERE slot_name = 'gone'"
                return admin.execute(query).fetchone() == (True,)

            wait_for(invalidate, "a slot that is invalidated")
            finding = finding_about(look_at(endpoint), "slot gone is invalidated")
            assert "it keeps nothing any more" in finding.sentence
            admin.execute(finding.statement.encode())
            assert "slot gone" not in str(look_at(endpoint).findings)
        finally:
            admin.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = 'gone'")
            admin.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
            admin.execute("SELECT pg_reload_conf()")
