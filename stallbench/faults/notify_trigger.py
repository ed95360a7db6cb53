"""Somebody lets each enqueue notify, by a trigger on the queue's table: from then on enqueues commit one after the other.

A transaction that has notified takes one lock, common to all databases of the server, before it commits, and keeps it until its commit is on
disk; so no two of them share a flush. What a commit costs then depends on the disk alone, and not on how many clients there are.
"""

from __future__ import annotations

from typing import Any

from psycopg import sql

from stallbench.engines.postgres import Connection, connect
from stallbench.errors import NotCarriedOutError
from stallbench.faults.fault import Fault, FaultOptions

_PATIENCE_S = 10.0

_CREATE = """
CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify({channel}, ''); RETURN NULL; END $$;
CREATE TRIGGER {name} AFTER INSERT ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {name}()
"""
_DROP = "DROP TRIGGER IF EXISTS {name} ON {table}; DROP FUNCTION IF EXISTS {name}()"
_IS_ENABLED = "SELECT tgenabled = 'O' FROM pg_trigger WHERE tgname = %s AND tgrelid = %s::regclass"


class NotifyTrigger(Fault[FaultOptions]):
    """Every enqueue notifies."""

    kind = "notify_trigger"
    summary = "a trigger on the queue's table notifies (NOTIFY) of each enqueue, so that enqueues commit one after the other"
    source = "recall.ai, 'Postgres LISTEN/NOTIFY does not scale' (2025); the lock is in PreCommit_Notify of PostgreSQL's async.c"
    places = ("server",)
    engines = frozenset({"postgres"})

    def inject(self) -> dict[str, Any]:
        """Create the trigger, and wait for the first notification that it brings about; without load there is none."""
        with self._connect() as connection:
            connection.execute(sql.SQL("LISTEN {name}").format(name=sql.Identifier(self._trigger)))
            self._execute(connection, _CREATE)
            notified = next(connection.notifies(timeout=_PATIENCE_S, stop_after=1), None)
        if notified is None:
            raise NotCarriedOutError(f"no enqueue has notified within {_PATIENCE_S:g} s of the trigger on {self._table}")
        return {"trigger": self._trigger, "table": self._table, "notified_by": notified.pid}

    def find_lapse(self) -> str | None:
        """Look for the trigger."""
        with self._connect() as connection:
            row = connection.execute(_IS_ENABLED, (self._trigger, self._table)).fetchone()
        if row is None:
            return f"table {self._table} no longer has trigger {self._trigger}"
        return None if row[0] else f"trigger {self._trigger} is disabled"

    def undo(self) -> dict[str, Any]:
        """Drop it."""
        with self._connect() as connection:
            self._execute(connection, _DROP)
        return {}

    @property
    def _trigger(self) -> str:
        return f"stallbench_{self.name.replace('-', '_')}"

    @property
    def _table(self) -> str:
        """The one that jobs wait in."""
        return str(self.context.queue["tables"][0])

    def _connect(self) -> Connection:
        return connect(self.context.cluster.server(self.on).direct, self.name)

    def _execute(self, connection: Connection, statement: str) -> None:
        name, table = sql.Identifier(self._trigger), sql.Identifier(self._table)
        connection.execute(sql.SQL(statement).format(name=name, table=table, channel=sql.Literal(self._trigger)))
