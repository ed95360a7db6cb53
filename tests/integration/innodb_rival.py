"""A session that stands in the way of a Laravel worker on InnoDB, so that the server has to sacrifice the worker's transaction."""

from __future__ import annotations

from typing import Any, Self

from stallbench.engines import driver_of
from stallbench.records.endpoint import Endpoint
from tests.waiting import wait_for

PATIENCE_S = 60.0
_BALLAST_ROWS = 200
_POLL_EVERY_S = 0.12
"""InnoDB renews its list of transactions only if it has not been read for 0.1 s; the first query, too, may get an old list."""


class Rival:
    """Use as a context. Its transaction has changed so many rows that of two in a deadlock InnoDB rolls back the other."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Connect, as ``rival``."""
        self._driver = driver_of(endpoint.engine)
        self._connection = self._driver.connect(endpoint, "rival")
        self._watcher = self._driver.connect(endpoint, "watcher")
        self.run("CREATE TABLE IF NOT EXISTS ballast (n int)")
        self.run("BEGIN")
        self.run("INSERT INTO ballast VALUES " + ", ".join(["(1)"] * _BALLAST_ROWS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._driver.close(self._connection)
        self._driver.close(self._watcher)

    def run(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Run a statement in its transaction."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement, parameters or None)
            return list(cursor.fetchall())

    def hold_index(self, name: str = "jobs_queue_index") -> None:
        """Hold every entry of the queue in an index: who deletes a job waits, with the job's row in hand."""
        self.run(f"SELECT id FROM jobs FORCE INDEX ({name}) WHERE queue = 'default' LOCK IN SHARE MODE")

    def hold_row(self, job_id: int) -> None:
        """Hold a job's row: who claims it or completes it waits."""
        self.run("SELECT id FROM jobs FORCE INDEX (PRIMARY) WHERE id = %s FOR UPDATE", job_id)

    def wait_for_a_waiter(self) -> int:
        """Wait until another session waits for a lock of this one; returns the number of its connection."""
        waiting = wait_for(self._list_waiting, "a session that waits for a lock", PATIENCE_S, every_s=_POLL_EVERY_S)
        return int(waiting[0][0])

    def _list_waiting(self) -> Any:
        with self._watcher.cursor() as cursor:
            cursor.execute("SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")
            return cursor.fetchall()

    def kill(self, connection_number: int) -> None:
        """End another session's connection."""
        with self._watcher.cursor() as cursor:
            cursor.execute(f"KILL {connection_number}")

    def kill_query(self, connection_number: int) -> None:
        """End another session's statement."""
        with self._watcher.cursor() as cursor:
            cursor.execute(f"KILL QUERY {connection_number}")

    def make_deadlock(self, job_id: int) -> None:
        """Close the cycle with a session that holds the job's row and waits for the index; it is the one that is rolled back."""
        self.wait_for_a_waiter()
        self.hold_row(job_id)

    def let_go(self) -> None:
        """Roll back."""
        self.run("ROLLBACK")
