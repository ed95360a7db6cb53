"""Whose tables `stallbench observe` reads by itself: those of an owner who gains nothing by it, and it locks no others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from stallbench.base.section import SettingValue
from stallbench.engines.database import Database
from stallbench.engines.postgres.driver import connect
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import database_on
from tests.integration.observed import cannot_see, look_at, section_of, text_of
from tests.integration.running_cluster import running_cluster
from tests.security.test_hostile_database import _OPEN, _OWNER, _READER, _TABLES, HostileDatabase, hostile, hostile_on

__all__ = ["hostile"]
pytestmark = pytest.mark.integration

COUNTED = "Procrastinate (tenant.procrastinate_jobs) | 1 |"
_CODE = """
CREATE SCHEMA tenant;
CREATE FUNCTION tenant.attack() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $f$ BEGIN
  RAISE LOG '{mark} %', current_user; RETURN true; END $f$;
"""
# The more there is to look at, the more time there is for the attack.
_SLOW = """DO $$ BEGIN FOR i IN 1..900 LOOP
  EXECUTE pg_catalog.format('CREATE TABLE tenant.child_%s (CHECK (id > 0)) INHERITS (tenant.procrastinate_jobs)', i); END LOOP; END $$;"""
_LOOKED_AT = (
    "SELECT 1 FROM pg_stat_activity WHERE application_name = 'stallbench:observe' AND query ~ 'pg_inherits' AND state = 'active'"
)
_CHILDREN = """DO $$ BEGIN FOR i IN 1..100 LOOP
  EXECUTE pg_catalog.format('CREATE TABLE aaa.child_{number}_%s () INHERITS (aaa.procrastinate_jobs)', i); END LOOP; END $$;"""
_FEW_LOCKS: dict[str, SettingValue] = {
    "max_connections": 15,
    "max_locks_per_transaction": 10,
    "fsync": False,
    "autovacuum": False,
}
_MORE_THAN_LOCKS = 12
"""Times the number of tables that one of `_CHILDREN` makes: three times of what `_FEW_LOCKS` have room for."""


def create_queue(owner: Endpoint) -> None:
    """Create a queue's tables that everybody may read."""
    with connect(owner, "test") as connection:
        connection.execute("CREATE SCHEMA tenant;" + _TABLES + _OPEN)


def queues_seen_by(endpoint: Endpoint) -> str:
    """Return what is shown of queues."""
    return text_of(section_of(look_at(endpoint), "Queues"))


def test_a_superuser_does_not_execute_the_index_that_the_owner_of_the_database_adds_after_the_check(
    hostile: HostileDatabase,
) -> None:
    with connect(hostile.owner, "test") as owner, connect(hostile.endpoint, "spy") as spy:
        owner.execute(_CODE.format(mark=hostile.mark) + _TABLES + _SLOW + _OPEN)
        for delay_s in (0.0, 0.01, 0.03, 0.1):
            observing = Thread(target=look_at, args=(hostile.endpoint,))
            owner.execute("BEGIN; CREATE INDEX trap ON tenant.procrastinate_jobs (id) WHERE tenant.attack()")
            observing.start()
            while observing.is_alive() and not spy.execute(_LOOKED_AT).fetchall():
                pass
            time.sleep(delay_s)
            owner.execute("COMMIT")
            observing.join()
            owner.execute("DROP INDEX tenant.trap")
            assert not hostile.was_called(), f"executed {delay_s} s after the look"
    assert f"belongs to {_OWNER}" in cannot_see(look_at(hostile.endpoint))


def test_a_reader_with_pg_monitor_sees_the_queue_of_the_owner_of_the_database(hostile: HostileDatabase) -> None:
    create_queue(hostile.owner)
    assert COUNTED in queues_seen_by(hostile.reader)


@pytest.mark.parametrize(
    "right",
    [
        "ALTER ROLE {reader} SUPERUSER",
        "ALTER ROLE {reader} CREATEROLE",
        "ALTER ROLE {reader} CREATEDB",
        "ALTER ROLE {reader} BYPASSRLS",
        "ALTER ROLE {reader} REPLICATION",
        "GRANT pg_execute_server_program TO {reader}",
        "GRANT pg_write_server_files TO {reader}",
        "GRANT pg_read_server_files TO {reader}",
        "GRANT pg_signal_backend TO {reader}",
        "CREATE TABLE public.of_the_reader (n int); ALTER TABLE public.of_the_reader OWNER TO {reader}",
        "GRANT {admin} TO {reader}",
    ],
)
def test_a_user_with_more_rights_trusts_the_owner_of_the_database_no_more(hostile: HostileDatabase, right: str) -> None:
    create_queue(hostile.owner)
    hostile.admin.execute(right.format(reader=_READER, admin=hostile.endpoint.user))
    assert f"belongs to {_OWNER}" in cannot_see(look_at(hostile.reader))
    hostile.admin.execute(f"ALTER SCHEMA tenant OWNER TO {_READER}")
    for table in ("jobs", "events", "workers"):
        hostile.admin.execute(f"ALTER TABLE tenant.procrastinate_{table} OWNER TO {_READER}")
    assert COUNTED in queues_seen_by(hostile.reader), "his own tables he reads"


def test_a_member_of_the_role_that_owns_the_database_sees_its_queue(hostile: HostileDatabase) -> None:
    create_queue(hostile.owner)
    hostile.admin.execute(f"GRANT {_OWNER} TO {_READER}")
    assert COUNTED in queues_seen_by(hostile.reader)


@pytest.fixture
def hostile_with_few_locks(tmp_path: Path) -> Iterator[HostileDatabase]:
    """On a server of its own: to use up the locks of another takes 20 000 tables."""
    with (
        running_cluster(Database(settings=_FEW_LOCKS), tmp_path) as started,
        database_on(started.cluster) as database,
        hostile_on(database) as made,
    ):
        yield made


def test_the_children_of_an_untrusted_table_are_not_locked_and_hide_no_other_queue(
    hostile_with_few_locks: HostileDatabase,
) -> None:
    hostile = hostile_with_few_locks
    create_queue(hostile.owner)
    with connect(hostile.attacker, "test") as attacker:
        attacker.execute("CREATE SCHEMA aaa;" + (_TABLES + _OPEN).replace("tenant", "aaa"))
        for number in range(_MORE_THAN_LOCKS):
            attacker.execute(_CHILDREN.format(number=number))
    try:
        observation = look_at(hostile.reader)
        assert COUNTED in text_of(section_of(observation, "Queues"))
        assert "aaa.procrastinate_jobs belongs to mallory" in cannot_see(observation)
        # That the user accepts the code does not make room for the locks: it is an error of this table alone.
        named = look_at(hostile.reader, tables=("aaa.procrastinate_jobs", "tenant.procrastinate_jobs"))
        assert COUNTED in text_of(section_of(named, "Queues"))
        assert "max_locks_per_transaction" in cannot_see(named)
    finally:
        with connect(hostile.attacker, "test") as attacker:
            for number in range(_MORE_THAN_LOCKS):
                attacker.execute(
                    _CHILDREN.format(number=number).replace("CREATE", "DROP").replace("() INHERITS (aaa.procrastinate_jobs)", "")
                )


def test_more_partitions_than_can_be_looked_at_are_not_read(hostile: HostileDatabase) -> None:
    create_queue(hostile.owner)
    with connect(hostile.owner, "test") as owner:
        owner.execute(_SLOW.replace("900", "1100"))
    assert "has more than 1000 partitions" in cannot_see(look_at(hostile.reader))
