"""A statement that `observe` offers is executed by who administers the server, with a search_path on which others may create functions."""

from __future__ import annotations

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.engines.postgres.ending import statement_to_terminate
from stallbench.observe.postgres.sessions import statement_to_cancel
from tests.integration.conftest import TestDatabase
from tests.integration.observed import finding_about, look_at
from tests.integration.test_observe_encodings import IN_LATIN1, database_without_an_encoding
from tests.security.test_hostile_database import _ATTACKER, HostileDatabase, hostile

__all__ = ["hostile"]
pytestmark = pytest.mark.integration
SLOT = "of_a_replica_that_is_gone"
_FITTING = {
    "pg_drop_replication_slot": ("text",),
    "pg_terminate_backend": ("integer", "bigint", "text"),
    "pg_cancel_backend": ("bigint", "text"),
    "pg_reload_conf": ("integer DEFAULT 0",),
}
"""By the name of a function of the server: arguments with which a function of somebody else could be taken for it."""


def test_no_function_of_another_user_is_called_in_the_place_of_the_server_s(
    hostile: HostileDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stallbench.observe.postgres.slots.BRIEFLY_INACTIVE_S", 0.0)
    hostile.admin.execute(f"GRANT CREATE ON SCHEMA public TO {_ATTACKER}")
    body = f"BEGIN RAISE LOG '{hostile.mark} %', current_user; RETURN true; END"
    with connect(hostile.attacker, "test") as attacker:
        for name, arguments in ((name, each) for name, fitting in _FITTING.items() for each in fitting):
            attacker.execute(
                f"CREATE FUNCTION public.{name}({arguments}) RETURNS boolean LANGUAGE plpgsql AS $f${body}$f$".encode()
            )
    hostile.admin.execute("SELECT pg_catalog.pg_create_physical_replication_slot(%s, true)", (SLOT,))
    try:
        offered = finding_about(look_at(hostile.endpoint), f"slot {SLOT} ").statement
        with connect(hostile.endpoint, "administrator") as administrator:
            for statement in (offered, statement_to_terminate(0), statement_to_cancel(0), "SELECT pg_reload_conf();"):
                administrator.execute(statement.encode())
        assert not hostile.was_called()
        assert hostile.admin.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (SLOT,)).fetchall() == []
    finally:
        query = "SELECT pg_catalog.pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
        hostile.admin.execute(query, (SLOT,))


def test_no_function_of_another_user_is_called_in_the_place_of_an_extension_s_in_the_same_schema(database: TestDatabase) -> None:
    with database_without_an_encoding(database) as elsewhere, connect(database.direct, "administrator") as administrator:
        with connect(elsewhere, "old application") as other:
            other.execute(IN_LATIN1)
        administrator.execute("CREATE ROLE attacker")
        try:
            administrator.execute("GRANT CREATE ON SCHEMA public TO attacker; SET ROLE attacker")
            administrator.execute(
                "CREATE FUNCTION public.pg_stat_statements_reset(integer, integer, integer) RETURNS text LANGUAGE sql AS $$SELECT 'hers'::text$$"
            )
            administrator.execute("RESET ROLE")
            (remedy,) = [one.remedy for one in look_at(database.direct).not_visible if one.what.startswith("texts of statements")]
            assert administrator.execute(remedy.split(";")[0].encode()).fetchone() != ("hers",)
        finally:
            administrator.execute("DROP OWNED BY attacker; DROP ROLE attacker")
