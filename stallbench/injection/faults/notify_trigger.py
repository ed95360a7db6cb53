"""A trigger on the queue's table sends a notification for each enqueue: enqueues then commit one after the other.

Before it commits, a transaction with a NOTIFY takes a lock that all databases of the server share, and holds it until its commit is on disk. So two
such commits never share a flush: the commit rate depends only on the disk, and not on the number of clients.
"""

from __future__ import annotations

from psycopg import sql

from stallbench.engines.postgres.driver import Connection, connect, quote_table
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.fault import Fault, FaultOptions
from stallbench.records.injections import Evidence
from stallbench.servers.join import create_recorded

_NOTIFIED_WITHIN_S = 10.0

_CREATE = """
CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_catalog.pg_notify({channel}, ''); RETURN NULL; END $$;
CREATE TRIGGER {name} AFTER INSERT ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {name}()
"""
_DROP = "DROP TRIGGER IF EXISTS {name} ON {table}; DROP FUNCTION IF EXISTS {name}()"
_IS_ENABLED = "SELECT tgenabled = 'O' FROM pg_catalog.pg_trigger WHERE tgname = %s AND tgrelid = %s::pg_catalog.regclass"


class NotifyTrigger(Fault[FaultOptions]):
    """Every enqueue sends a notification."""

    kind = "notify_trigger"
    meanwhile = "each enqueue sent a NOTIFY"
    summary = "a trigger on the queue's table sends a NOTIFY for each enqueue, so that enqueues commit one after the other"
    source = "recall.ai, 'Postgres LISTEN/NOTIFY does not scale' (2025); the lock is in PreCommit_Notify of PostgreSQL's async.c"
    targets = ("primary",)
    engines = frozenset({"postgres"})

    def inject(self) -> Evidence:
        """Create the trigger, and wait for its first notification; without load there is none."""
        with self._connect() as connection:
            connection.execute(sql.SQL("LISTEN {name}").format(name=sql.Identifier(self._trigger)))
            # The trigger ends with its table, the function does not.
            create_recorded(self.context.cluster.server(self.on), connection, lambda: self._execute(connection, _CREATE))
            notified = next(connection.notifies(timeout=_NOTIFIED_WITHIN_S, stop_after=1), None)
        if notified is None:
            raise NotCarriedOutError(
                f"no enqueue sent a notification within {_NOTIFIED_WITHIN_S:g} s after the trigger on {self._table} was created"
            )
        return {"trigger": self._trigger, "table": self._table, "notified_by": notified.pid}

    def why_inactive(self) -> str | None:
        """Check that the trigger exists and is enabled."""
        with self._connect() as connection:
            row = connection.execute(_IS_ENABLED, (self._trigger, self._table)).fetchone()
        if row is None:
            return f"table {self._table} no longer has trigger {self._trigger}"
        return None if row[0] else f"trigger {self._trigger} is disabled"

    def undo(self) -> Evidence:
        """Drop the trigger and its function."""
        with self._connect() as connection:
            self._execute(connection, _DROP)
        return {}

    @property
    def _trigger(self) -> str:
        return f"stallbench_{self.name.replace('-', '_')}"

    @property
    def _table(self) -> str:
        """The table in which jobs wait."""
        return str(self.context.queue.tables[0])

    def _connect(self) -> Connection:
        return connect(self.context.cluster.server(self.on).direct, self.name)

    def _execute(self, connection: Connection, statement: str) -> None:
        name, table = sql.Identifier(self._trigger), quote_table(self._table)
        connection.execute(sql.SQL(statement).format(name=name, table=table, channel=sql.Literal(self._trigger)))
