"""`stallbench observe` is safe by construction: it cannot write, and leaves no trace in the sessions of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from stallbench.engines.postgres import connect
from stallbench.observe.postgres.session import ReadOnlySession
from stallbench.processes.queue_client import open_queue
from stallbench.queues import NewJob
from stallbench.servers.pgbouncer import Pgbouncer
from stallbench.setup.components import MissingComponentError
from tests.integration.conftest import TestDatabase
from tests.integration.observed import look_at, observer_of, section_of, text_of
from tests.integration.running_cluster import StartedCluster

pytestmark = pytest.mark.integration


@pytest.fixture
def que(database: TestDatabase) -> TestDatabase:
    """A database with Que's table and three jobs."""
    queue = open_queue("que", {}, database.direct, "fixture")
    with queue.connection:
        queue.install()
        queue.enqueue([NewJob(payload="{}")] * 3)
    return database


def test_through_a_pooler_no_setting_reaches_another_client(
    que: TestDatabase, started_cluster: StartedCluster, tmp_path: Path
) -> None:
    try:
        pooler = Pgbouncer(
            "pooler",
            que.direct,
            mode="transaction",
            pool_size=1,
            processes=started_cluster.processes,
            logs=tmp_path,
            scratch=started_cluster.scratch,
        )
    except MissingComponentError as error:
        pytest.skip(str(error))
    try:
        observation = look_at(pooler.endpoint)
        assert "through a pooler" in observation.title
        assert "Que 0.x (public.que_jobs) | 3 |" in text_of(section_of(observation, "Queues"))
        # The only connection of the pool, which the look has used.
        with connect(pooler.endpoint.model_copy(update={"prepared_statements": False}), "application") as application:
            assert application.execute("SHOW default_transaction_read_only").fetchone() == ("off",)
            assert application.execute("SHOW statement_timeout").fetchone() == ("0",)
            application.execute("DELETE FROM que_jobs")
    finally:
        pooler.stop()


def test_its_session_cannot_write(que: TestDatabase) -> None:
    session = ReadOnlySession(que.direct)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        session.execute("DELETE FROM public.que_jobs RETURNING 1")
    session.close()


def test_it_takes_no_lock_stronger_than_access_share_and_reads_no_table_but_the_queue_s(
    que: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(que.direct, "test") as admin:
        admin.execute("CREATE TABLE secret (n int)")
    taken: set[tuple[str, str]] = set()
    execute = ReadOnlySession.execute

    def execute_and_list_locks(self: ReadOnlySession, query: str, values: Any = None, *, timeout_ms: int | None = None) -> Any:
        """Ask for the locks within the transaction of the query, which keeps them until its end."""
        self._connection.execute("BEGIN", prepare=False)
        try:
            rows = execute(self, query, values)
            locks = self._connection.execute(
                "SELECT mode, coalesce(nspname || '.' || relname, locktype) FROM pg_locks "
                "LEFT JOIN pg_class ON pg_class.oid = relation LEFT JOIN pg_namespace ON pg_namespace.oid = relnamespace "
                "WHERE pid = pg_backend_pid() AND locktype <> 'virtualxid'"
            )
            taken.update(locks.fetchall())
            return rows
        finally:
            self._connection.execute("ROLLBACK", prepare=False)

    with observer_of(que.direct, records_load=True) as observer:
        observer.look()  # opens the session, which is not to be counted
        monkeypatch.setattr(ReadOnlySession, "execute", execute_and_list_locks)
        observation = observer.look(reads_everything=True)
    assert "Que 0.x (public.que_jobs) | 3 |" in text_of(section_of(observation, "Queues"))
    assert {mode for mode, _ in taken} == {"AccessShareLock"}
    of_users = {name for _, name in taken if not name.startswith(("pg_catalog.", "pg_toast."))}
    assert of_users <= {"public.que_jobs", "public.que_jobs_pkey"}
