"""Large tables elsewhere keep every autovacuum worker busy, and the queue's table waits.

What makes a table large is the time that a worker needs for it: hours, at the usual cost limits. The tables here are small, and their own
cost settings make a worker as slow on them. By the same settings they take nothing from the cost limit that the other workers share.
"""

from __future__ import annotations

import time
from typing import Any

from psycopg import sql
from pydantic import Field

from stallbench.engines.postgres import Connection, connect
from stallbench.errors import NotCarriedOutError
from stallbench.faults.fault import Fault, FaultOptions

_LONGEST_NAPTIME_S = 10
_SLACK_S = 20.0
_LOOK_EVERY_S = 1.0
_PAGES = 1000
"""At 0.4 s each, the longest that a worker sleeps for a page, one round takes seven minutes."""

# One row a page, so that little is written; its next version is put beside it.
_CREATE = """
CREATE TABLE {table} (n integer, padding text) WITH (
  fillfactor = 10,
  autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_insert_threshold = -1,
  autovacuum_analyze_threshold = 2147483647,
  autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1
)
"""
_FILL = "INSERT INTO {table} SELECT n, repeat('x', 800) FROM generate_series(1, {pages}) AS n"
_MAKE_DUE = "UPDATE {table} SET n = n"
_WORKERS = """
SELECT relid::regclass::text, pid FROM pg_stat_progress_vacuum JOIN pg_stat_activity USING (pid)
WHERE backend_type = 'autovacuum worker' AND relid = ANY(%s::regclass[])
"""
_ROUNDS = "SELECT name, pg_stat_get_autovacuum_count(name::regclass) FROM unnest(%s::text[]) AS name"
_SETTINGS = """
SELECT current_setting('autovacuum')::bool, current_setting('autovacuum_max_workers')::int,
  extract(epoch FROM current_setting('autovacuum_naptime')::interval)::float8
"""


class AutovacuumStarvationOptions(FaultOptions):
    """Options of `AutovacuumStarvation`."""

    tables: int = Field(
        default=3, ge=1, le=64, description="large tables, each for one worker; as many as there are workers by default"
    )


class AutovacuumStarvation(Fault[AutovacuumStarvationOptions]):
    """Autovacuum has no worker left for the queue."""

    kind = "autovacuum_starvation"
    summary = "large tables elsewhere keep autovacuum's workers busy"
    source = "PostgreSQL's documentation of the autovacuum daemon: several large tables may occupy all workers for a long time"
    places = ("server",)
    on_external = "never"
    engines = frozenset({"postgres"})
    options_type = AutovacuumStarvationOptions

    def inject(self) -> dict[str, Any]:
        """Make the tables, and wait until a worker is at each, or every worker at one.

        One worker comes each ``autovacuum_naptime``; raises `NotCarriedOutError` if that is too long to be waited for.
        """
        self._look_at_s = time.monotonic()
        if self.context.cluster.server(self.on).control.process is None:
            raise NotCarriedOutError(f"{self.on} was joined, and its other databases would be left without a worker too")
        with self._connect() as connection:
            row = connection.execute(_SETTINGS).fetchone()
            assert row is not None
            is_on, most_workers, naptime_s = row
            if not is_on:
                raise NotCarriedOutError("autovacuum is off, so that nothing can starve; leave database.settings.autovacuum out")
            if naptime_s > _LONGEST_NAPTIME_S:
                raise NotCarriedOutError(
                    f"autovacuum_naptime is {naptime_s:g} s, and a worker comes only that often; "
                    f'expected at most {_LONGEST_NAPTIME_S} s, like database.settings.autovacuum_naptime = "1s"'
                )
            for table in self._tables:
                for statement in (_CREATE, _FILL, _MAKE_DUE):
                    self._execute(connection, statement, table)
            self._rounds = dict.fromkeys(self._tables, 0)
            self._expected = min(len(self._tables), most_workers)
            self._patience_s = naptime_s * (self._expected + 1) + _SLACK_S
            workers = self._wait_for_workers(connection, self._patience_s)
        if len(workers) < self._expected:
            raise NotCarriedOutError(
                f"autovacuum's workers are at {len(workers)} of {self._expected} large tables after {self._patience_s:.0f} s"
            )
        return {"workers": workers, "autovacuum_max_workers": most_workers}

    def keep_up(self) -> None:
        """Give a worker that is done with a table the same again."""
        if time.monotonic() < self._look_at_s:
            return
        self._look_at_s = time.monotonic() + _LOOK_EVERY_S
        with self._connect() as connection:
            rounds: dict[str, int] = dict(connection.execute(_ROUNDS, (self._tables,)).fetchall())
            for table in self._tables:
                if rounds[table] > self._rounds[table]:
                    self._execute(connection, _MAKE_DUE, table)
        self._rounds = rounds

    def find_lapse(self) -> str | None:
        """Look whether the workers are still there; between two rounds one may be away for a moment."""
        with self._connect() as connection:
            workers = self._wait_for_workers(connection, self._patience_s)
        if len(workers) == self._expected:
            return None
        return f"autovacuum's workers are at {len(workers)} of {self._expected} large tables"

    def undo(self) -> dict[str, Any]:
        """Drop the tables: the server calls a worker off that is at one, after ``deadlock_timeout``."""
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

    def _wait_for_workers(self, connection: Connection, patience_s: float) -> dict[str, int]:
        """Return, for each table that an autovacuum worker is at, its process id; waits for all that are expected."""
        until_s = time.monotonic() + patience_s
        while True:
            workers: dict[str, int] = dict(connection.execute(_WORKERS, (self._tables,)).fetchall())
            if len(workers) >= self._expected or time.monotonic() > until_s:
                return workers
            time.sleep(0.1)
