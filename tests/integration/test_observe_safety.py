"""`stallbench observe` is safe by construction: it cannot write, and leaves no trace in the sessions of others."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import psycopg
import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.errors import NotCarriedOutError
from stallbench.observe.observer import ServerGoneError
from stallbench.observe.postgres.session import APPLICATION, STATEMENT_TIMEOUT_MS, ReadOnlySession, _Transaction
from stallbench.records.endpoint import Endpoint
from stallbench.servers.pgbouncer import Pgbouncer
from tests.integration.conftest import TestDatabase
from tests.integration.observed import cannot_see, look_at, observer_of, section_of, text_of
from tests.integration.pooled_queue import que, start_pooler
from tests.waiting import wait_for

pytestmark = pytest.mark.integration
__all__ = ["que", "start_pooler"]

_OF_OBSERVE = f"FROM pg_stat_activity WHERE application_name = '{APPLICATION}'"
HELD_SNAPSHOTS = f"SELECT extract(epoch FROM clock_timestamp() - xact_start)::float8 {_OF_OBSERVE} AND backend_xmin IS NOT NULL AND xact_start IS NOT NULL"
STATES = f"SELECT state {_OF_OBSERVE}"


@pytest.mark.parametrize(
    ("mode", "ignored"), [("transaction", ""), ("session", ""), ("transaction", "options"), ("session", "options")]
)
def test_through_a_pooler_no_setting_reaches_another_client(
    que: TestDatabase, start_pooler: Callable[..., Pgbouncer], mode: str, ignored: str
) -> None:
    pooler = start_pooler(mode, ignored=ignored)
    observation = look_at(pooler.endpoint)
    assert "through a pooler" in observation.title
    assert "Que 0.x (public.que_jobs) | 3 |" in text_of(section_of(observation, "Queues"))
    # The only connection of the pool, which the reading has used.
    with connect(pooler.endpoint.model_copy(update={"prepared_statements": False}), "application") as application:
        assert application.execute("SHOW default_transaction_read_only").fetchone() == ("off",)
        assert application.execute("SHOW statement_timeout").fetchone() == ("0",)
        application.execute("DELETE FROM que_jobs")


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_through_a_pooler_its_session_cannot_write(que: TestDatabase, start_pooler: Callable[..., Pgbouncer], mode: str) -> None:
    session = ReadOnlySession(start_pooler(mode).endpoint)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        session.execute("DELETE FROM public.que_jobs RETURNING 1")
    session.close()


def test_a_pooler_that_has_no_transactions_is_refused_with_what_to_do(
    que: TestDatabase, start_pooler: Callable[..., Pgbouncer]
) -> None:
    with pytest.raises(NotCarriedOutError) as caught:
        ReadOnlySession(start_pooler("statement").endpoint)
    assert "give the address of the PostgreSQL server itself" in str(caught.value)


@pytest.mark.parametrize("ignored", ["", pytest.param("options", marks=pytest.mark.long)])
def test_a_pool_that_is_in_use_is_reported_in_time(
    que: TestDatabase, start_pooler: Callable[..., Pgbouncer], ignored: str
) -> None:
    pooler = start_pooler("session", ignored=ignored)
    with connect(pooler.endpoint.model_copy(update={"prepared_statements": False}), "application") as application:
        application.execute("SELECT 1")
        began_s = time.monotonic()
        with pytest.raises(ServerGoneError) as caught:
            ReadOnlySession(pooler.endpoint)
        assert time.monotonic() - began_s < 30
        assert "no connection of the pool was free" in str(caught.value)


def test_its_session_cannot_write(que: TestDatabase) -> None:
    session = ReadOnlySession(que.direct)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        session.execute("DELETE FROM public.que_jobs RETURNING 1")
    session.close()


def test_what_a_user_may_not_see_is_not_said_to_be_absent(que: TestDatabase) -> None:
    primary, replica = que.direct, que.on(que.cluster.server("replica-1"))
    with connect(primary, "test") as admin:
        admin.execute("CREATE ROLE few LOGIN PASSWORD 'secret'")
        try:
            few = {"user": "few", "password": type(primary.password)("secret")}
            wait_for(lambda: has_role(replica, "few"), "the user on the replica")
            there = look_at(replica.model_copy(update=few))
            here = look_at(primary.model_copy(update=few))
        finally:
            admin.execute("DROP ROLE few")
    assert "WAL receiver running, its status hidden" in text_of(section_of(there, "Replication"))
    assert "replica replica-1 | hidden | hidden |" in text_of(section_of(here, "Replication"))
    assert "and no dump, COPY, rewrite of a table or REFRESH MATERIALIZED VIEW that this user may see." in text_of(
        section_of(here, "Long operations")
    )
    assert "0 clients not reading, of those that this user may see." in text_of(section_of(here, "Notifications"))


def has_role(endpoint: Endpoint, name: str) -> bool:
    with connect(endpoint, "test") as connection:
        return bool(connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).fetchall())


def test_it_takes_no_lock_stronger_than_access_share_and_reads_no_table_but_the_queue_s(
    que: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(que.direct, "test") as admin:
        admin.execute("CREATE TABLE secret (n int)")
    taken: set[tuple[str, str]] = set()
    roll_back = _Transaction.roll_back

    def list_locks_and_roll_back(self: _Transaction) -> None:
        """Ask for the locks within the transaction of the query, which keeps them until its end."""
        if self._connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
            locks = self._connection.execute(
                "SELECT mode, coalesce(nspname || '.' || relname, locktype) FROM pg_locks "
                "LEFT JOIN pg_class ON pg_class.oid = relation LEFT JOIN pg_namespace ON pg_namespace.oid = relnamespace "
                "WHERE pid = pg_backend_pid() AND locktype <> 'virtualxid'"
            )
            taken.update(locks.fetchall())
        roll_back(self)

    with observer_of(que.direct, records_load=True) as observer:
        observer.read()  # opens the session, which is not to be counted
        monkeypatch.setattr(_Transaction, "roll_back", list_locks_and_roll_back)
        observation = observer.read(reads_everything=True)
    assert "Que 0.x (public.que_jobs) | 3 |" in text_of(section_of(observation, "Queues"))
    assert {mode for mode, _ in taken} == {"AccessShareLock"}
    of_users = {name for _, name in taken if not name.startswith(("pg_catalog.", "pg_toast."))}
    assert of_users <= {"public.que_jobs", "public.que_jobs_pkey"}


def test_the_server_ends_a_query_that_takes_longer_than_its_limit(que: TestDatabase) -> None:
    session = ReadOnlySession(que.direct)
    with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
        session.execute("SELECT pg_sleep(60)")
    assert session.execute("SELECT 1").fetchall() == [(1,)], "the session can be used afterwards"
    session.close()


def test_a_query_that_met_the_limit_is_listed_and_the_others_are_reported(
    que: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = ReadOnlySession.execute

    def execute_slowly(self: ReadOnlySession, query: str, values: Any = None, **options: Any) -> Any:
        return execute(self, query if "pg_replication_slots" not in query else "SELECT pg_sleep(60)", values, **options)

    monkeypatch.setattr(ReadOnlySession, "execute", execute_slowly)
    with observer_of(que.direct) as observer:
        observation = observer.read()
    assert "replication slots: the query was cancelled: canceling statement due to statement timeout" in cannot_see(observation)
    assert "Que 0.x (public.que_jobs) | 3 |" in text_of(section_of(observation, "Queues"))


def test_it_holds_no_snapshot_between_two_looks_and_only_for_a_query_within_one(que: TestDatabase) -> None:
    """A monitoring session that held the horizon would be the problem that it looks for."""
    held_s: list[float] = []
    ended = Event()

    def sample() -> None:
        with connect(que.direct, "test") as admin:
            while not ended.wait(0.002):
                held_s.extend(age_s for (age_s,) in admin.execute(HELD_SNAPSHOTS).fetchall())

    with observer_of(que.direct, records_load=True) as observer:
        observer.read()
        sampler = Thread(target=sample)
        sampler.start()
        try:
            for _ in range(20):
                observer.read(reads_everything=True)
        finally:
            ended.set()
            sampler.join()
        with connect(que.direct, "test") as admin:
            assert admin.execute(HELD_SNAPSHOTS).fetchall() == []
            assert admin.execute(STATES).fetchall() == [("idle",)]
    assert held_s, "queries were seen at work"
    assert max(held_s) < STATEMENT_TIMEOUT_MS / 1000
