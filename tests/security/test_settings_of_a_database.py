"""Who owns a database sets for all its sessions what he likes (``ALTER DATABASE .. SET``): it gives him no rights of who observes, and hides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from stallbench.engines.postgres.driver import connect
from tests.integration.observed import look_at, section_of, text_of
from tests.integration.statistics import publish_statistics
from tests.security.test_hostile_database import _OPEN, _OWNER, _TABLES, HostileDatabase, hostile
from tests.waiting import wait_for

__all__ = ["hostile"]
pytestmark = pytest.mark.integration

# Its owner is an ordinary user, whose session can do nothing of this; that of a superuser who has become him only by a setting can.
_AS_WHO_LOGGED_IN = """
CREATE FUNCTION tenant.execute() RETURNS void LANGUAGE plpgsql VOLATILE AS $f$ BEGIN
  EXECUTE $$COPY (SELECT current_user) TO PROGRAM 'cat > {trace}'$$; END $f$;
CREATE FUNCTION tenant.attack() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $f$ BEGIN
  IF session_user = 'operator' THEN RETURN true; END IF;
  PERFORM pg_catalog.set_config('role', 'none', false);
  PERFORM tenant.execute();
  RETURN true; END $f$;
CREATE INDEX ON tenant.procrastinate_jobs (id) WHERE tenant.attack();
"""


@contextmanager
def set_for_all_sessions(hostile: HostileDatabase, setting: str) -> Iterator[None]:
    """Let the owner of the database set something for the sessions that begin from now on."""
    with connect(hostile.owner, "test") as owner:
        owner.execute(f"ALTER DATABASE {hostile.endpoint.database} SET {setting}")
    try:
        yield
    finally:
        hostile.admin.execute(f"ALTER DATABASE {hostile.endpoint.database} RESET ALL")


def test_a_role_of_the_database_gives_its_owner_no_program_of_the_server(hostile: HostileDatabase) -> None:
    trace = f"/tmp/{hostile.mark.replace(' ', '-')}"
    with connect(hostile.owner, "test") as owner:
        owner.execute("CREATE SCHEMA tenant;" + _TABLES + _AS_WHO_LOGGED_IN.format(trace=trace) + _OPEN)
    with set_for_all_sessions(hostile, f"role = {_OWNER}"):
        report = hostile.observe()
    was_executed = hostile.admin.execute("SELECT pg_stat_file(%s, true) IS NOT NULL", (trace,)).fetchone() == (True,)
    hostile.admin.execute(f"COPY (SELECT 1) TO PROGRAM 'rm -f {trace}'")
    assert not was_executed
    assert f"read-only as {hostile.endpoint.user}" in report
    assert "is a superuser" in report


@pytest.mark.parametrize(
    "setting",
    [
        "quote_all_identifiers = on",
        "client_encoding = 'LATIN1'",
        "idle_session_timeout = 1",
        "statement_timeout = 1",
        "lock_timeout = 1",
        "idle_in_transaction_session_timeout = 1",
        "transaction_timeout = 1",
        "role = mallory",
        "session_authorization = mallory",
        "datestyle = 'German'",
        "intervalstyle = 'sql_standard'",
        "standard_conforming_strings = off",
        "default_transaction_isolation = 'serializable'",
        "search_path = tenant",
        "extra_float_digits = -15",
        "enable_hashjoin = off",
        "join_collapse_limit = 1",
        "work_mem = '64kB'",
    ],
)
def test_a_setting_of_the_database_hides_nothing(hostile: HostileDatabase, setting: str) -> None:
    hostile.admin.execute("CREATE SCHEMA tenant;" + _TABLES + _OPEN)
    hostile.admin.execute(
        'CREATE TABLE tenant."Ж" (n int); INSERT INTO tenant."Ж" SELECT generate_series(1, 20000); DELETE FROM tenant."Ж"'
    )
    publish_statistics(hostile.admin)
    dead = "SELECT 1 FROM pg_stat_all_tables WHERE relname = 'Ж' AND n_dead_tup > 10000"
    wait_for(lambda: hostile.admin.execute(dead).fetchall(), "the server to have counted its dead rows")
    before = {section.title for section in look_at(hostile.endpoint).sections}
    try:
        with set_for_all_sessions(hostile, setting):
            observation = look_at(hostile.endpoint)
    except (psycopg.errors.UndefinedObject, psycopg.errors.InsufficientPrivilege) as error:
        pytest.skip(f"this server does not let him: {error}")
    assert {section.title for section in observation.sections} >= before
    assert "Procrastinate (tenant.procrastinate_jobs) | 1 |" in text_of(section_of(observation, "Queues"))
    assert 'tenant."Ж"' in text_of(section_of(observation, "Tables"))
