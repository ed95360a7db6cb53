"""`stallbench observe` through a pooler whose only session another client has left as it liked: it is not fooled, and changes nothing of that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.servers.pgbouncer import Pgbouncer
from tests.integration.conftest import Connection, TestDatabase
from tests.integration.observed import cannot_see, look_at, section_of, text_of
from tests.integration.pooled_queue import connect_through, que, start_pooler

pytestmark = pytest.mark.integration
__all__ = ["que", "start_pooler"]

SETTINGS = {
    "search_path": "trap, pg_catalog",
    "default_transaction_read_only": "off",
    "default_transaction_isolation": "serializable",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "row_security": "on",
    "TimeZone": "Asia/Kathmandu",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "standard_conforming_strings": "off",
    "quote_all_identifiers": "on",
    "enable_indexscan": "off",
    "lc_messages": "C",
}
OF_EACH_CLIENT = ("TimeZone", "DateStyle", "standard_conforming_strings")
"""PgBouncer itself sets these to what each client has."""
LEFT = """
CREATE TEMP TABLE que_jobs (LIKE public.que_jobs INCLUDING ALL);
CREATE TEMP TABLE pg_stat_activity (pid int, state text);
CREATE TEMP TABLE pg_class (oid oid, relname name);
CREATE TEMP TABLE pg_database (oid oid, datname name);
SELECT pg_advisory_lock(4711);
LISTEN left_behind;
PREPARE que_jobs AS SELECT 1;
"""
TRAP = """
CREATE SCHEMA trap;
CREATE FUNCTION trap.pg_backend_pid() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'executed'; END $$;
CREATE FUNCTION trap.same(name, name) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'executed'; END $$;
CREATE OPERATOR trap.= (LEFTARG = name, RIGHTARG = name, FUNCTION = trap.same)
"""


@pytest.fixture(autouse=True)
def _trap(que: TestDatabase) -> None:
    with connect(que.direct, "test") as admin:
        admin.execute(TRAP)


def shown(client: Connection) -> dict[str, str]:
    """Return the settings of the session, as they are in force."""
    return dict(
        client.execute(
            "SELECT name, setting FROM pg_catalog.pg_settings WHERE name = ANY(%s)", (list(SETTINGS.keys() - OF_EACH_CLIENT),)
        ).fetchall()
    )


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_what_another_client_left_in_the_session_of_a_pool_changes_nothing(
    que: TestDatabase, start_pooler: Callable[..., Pgbouncer], mode: str
) -> None:
    pooler = start_pooler(mode, resets=False).endpoint
    with connect_through(pooler, que.direct.database) as client:
        pid = client.info.backend_pid
        for name, value in SETTINGS.items():
            client.execute(f"SET {name} = {value if name == 'search_path' else repr(value)}")
        client.pgconn.exec_(LEFT.encode())
        left = shown(client)
        (server_pid,) = client.execute("SELECT pg_catalog.pg_backend_pid()").fetchone() or (pid,)
    observation = look_at(pooler)
    by_name = look_at(pooler, tables=("que_jobs",))
    directly = look_at(que.direct)
    assert "through a pooler" in observation.title
    for looked in (observation, by_name):
        assert "Que 0.x (public.que_jobs) | 3 |" in text_of(section_of(looked, "Queues"))
        assert "pg_temp" not in text_of(section_of(looked, "Queues"))
    assert "executed" not in cannot_see(observation)
    assert cannot_see(observation) == cannot_see(directly)
    with connect_through(pooler, que.direct.database) as client:
        assert client.execute("SELECT pg_catalog.pg_backend_pid()").fetchone() == (server_pid,), "the session was observed with"
        assert shown(client) == left
        assert client.execute("SELECT pg_catalog.count(*) FROM pg_temp.que_jobs").fetchone() == (0,)
        assert client.execute("SELECT * FROM pg_catalog.pg_listening_channels()").fetchall() == [("left_behind",)]
        held = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND pid = pg_catalog.pg_backend_pid()"
        assert client.execute(held).fetchone() == (1,)
        assert client.execute("EXECUTE que_jobs").fetchone() == (1,)
