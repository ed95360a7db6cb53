"""Large tables of another application keep every autovacuum worker busy, so the queue's table waits.

In production, a worker needs hours for a large table at the usual cost limits. The tables here are small, but their own cost settings make a worker
equally slow. Tables with their own settings do not use the cost limit that the other workers share.
"""

from __future__ import annotations

import time

from psycopg import sql
from pydantic import Field

from stallbench.engines.postgres.driver import Connection, connect
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.fault import Fault, FaultOptions
from stallbench.records.injections import Evidence
from stallbench.waiting import wait_until

_LONGEST_NAPTIME_S = 10
_EXTRA_S = 20.0
_POLL_S = 1.0
_PAGES = 1000
"""A worker sleeps for up to 0.4 s a page, so one round takes seven minutes."""

# One row a page, so that little is written; the next version of the row fits on the same page.
_CREATE = """
CREATE TABLE {table} (n integer, padding text) WITH (
  fillfactor = 10,
  autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_insert_threshold = -1,
  autovacuum_analyze_threshold = 2147483647,
  autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1
)
"""
_FILL = "INSERT INTO {table} SELECT n, pg_catalog.repeat('x', 800) FROM pg_catalog.generate_series(1, {pages}) AS n"
_MAKE_DUE = "UPDATE {table} SET n = n"
_WORKERS = """
SELECT relid::pg_catalog.regclass::pg_catalog.text, pid FROM pg_catalog.pg_stat_progress_vacuum JOIN pg_catalog.pg_stat_activity USING (pid)
WHERE backend_type = 'autovacuum worker' AND relid = ANY(%s::pg_catalog.regclass[])
"""
_ROUNDS = "SELECT name, pg_catalog.pg_stat_get_autovacuum_count(name::pg_catalog.regclass) FROM pg_catalog.unnest(%s::pg_catalog.text[]) AS name"
_SETTINGS = """
SELECT pg_catalog.current_setting('autovacuum')::boolean, pg_catalog.current_setting('autovacuum_max_workers')::int,
  extract(epoch FROM pg_catalog.current_setting('autovacuum_naptime')::interval)::double precision
"""


class AutovacuumStarvationOptions(FaultOptions):
    """Options of `AutovacuumStarvation`."""

    tables: int = Field(
        default=3,
        ge=1,
        le=64,
        description="large tables, each of which occupies one worker; the default is the default number of workers",
    )


class AutovacuumStarvation(Fault[AutovacuumStarvationOptions]):
    """Autovacuum has no free worker for the queue."""

    kind = "autovacuum_starvation"
    meanwhile = "other tables kept all autovacuum workers busy"
    summary = "large tables of another application keep all autovacuum workers busy"
    source = "PostgreSQL's documentation of the autovacuum daemon: several large tables may occupy all workers for a long time"
    targets = ("primary",)
    on_external = "never"
    engines = frozenset({"postgres"})
    options_type = AutovacuumStarvationOptions

    def inject(self) -> Evidence:
        """Create the tables, and wait until each is being vacuumed, or every worker vacuums one.

        PostgreSQL starts one worker every ``autovacuum_naptime``; raises `NotCarriedOutError` if that is too long to wait for.
        """
        self._next_poll_s = time.monotonic()
        if self.context.cluster.server(self.on).control.process is None:
            raise NotCarriedOutError(f"{self.on} is an external server, and its other databases would also have no worker")
        with self._connect() as connection:
            row = connection.execute(_SETTINGS).fetchone()
            assert row is not None
            is_on, most_workers, naptime_s = row
            if not is_on:
                raise NotCarriedOutError(
                    "autovacuum is off, so there are no workers to keep busy; remove database.settings.autovacuum"
                )
            if naptime_s > _LONGEST_NAPTIME_S:
                raise NotCarriedOutError(
                    f"autovacuum_naptime is {naptime_s:g} s, and PostgreSQL starts a worker only that often; "
                    f'expected at most {_LONGEST_NAPTIME_S} s, like database.settings.autovacuum_naptime = "1s"'
                )
            for table in self._tables:
                for statement in (_CREATE, _FILL, _MAKE_DUE):
                    self._execute(connection, statement, table)
            self._rounds = dict.fromkeys(self._tables, 0)
            self._expected = min(len(self._tables), most_workers)
            self._workers_within_s = naptime_s * (self._expected + 1) + _EXTRA_S
            workers = self._wait_for_workers(connection)
        if len(workers) < self._expected:
            raise NotCarriedOutError(
                f"autovacuum workers vacuum {len(workers)} of {self._expected} large tables after {self._workers_within_s:.0f} s"
            )
        return {"workers": workers, "autovacuum_max_workers": most_workers}

    def tick(self) -> None:
        """Make a table due again as soon as a worker has finished it."""
        if time.monotonic() < self._next_poll_s:
            return
        self._next_poll_s = time.monotonic() + _POLL_S
        with self._connect() as connection:
            rounds: dict[str, int] = dict(connection.execute(_ROUNDS, (self._tables,)).fetchall())
            for table in self._tables:
                if rounds[table] > self._rounds[table]:
                    self._execute(connection, _MAKE_DUE, table)
        self._rounds = rounds

    def why_inactive(self) -> str | None:
        """Check that the workers are still busy; between two rounds one may be idle for a moment."""
        with self._connect() as connection:
            workers = self._wait_for_workers(connection)
        if len(workers) == self._expected:
            return None
        return f"autovacuum workers vacuum {len(workers)} of {self._expected} large tables"

    def undo(self) -> Evidence:
        """Drop the tables: the server cancels a worker that vacuums one after ``deadlock_timeout``."""
        with self._connect() as connection:
            for table in self._tables:
                self._execute(connection, "DROP TABLE IF EXISTS {table}", table)
        return {}

    @property
    def _tables(self) -> list[str]:
        return [f"stallbench_{self.name.replace('-', '_')}_{number}" for number in range(1, self.options.tables + 1)]

    def _connect(self) -> Connection:
        return connect(self.context.cluster.server(self.on).direct, self.name)

    def _execute(self, connection: Connection, statement: str, table: str) -> None:
        connection.execute(sql.SQL(statement).format(table=sql.Identifier(table), pages=sql.Literal(_PAGES)))

    def _wait_for_workers(self, connection: Connection) -> dict[str, int]:
        """Wait for the expected workers; return, for each table that is being vacuumed, the process id of its worker."""

        def read_workers() -> dict[str, int]:
            return dict(connection.execute(_WORKERS, (self._tables,)).fetchall())

        wait_until(lambda: len(read_workers()) >= self._expected, within_s=self._workers_within_s)
        return read_workers()
