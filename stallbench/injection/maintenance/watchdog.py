"""Ends transactions that have been open for too long, as the server's timeouts would, for users who cannot change the server's settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.injection.maintenance.task import Task, TaskOptions

# Other maintenance is not ended: a REINDEX, for example, may take as long as it needs.
_OF_POSTGRES = """
SELECT pid, application_name, coalesce(state, ''), extract(epoch FROM pg_catalog.clock_timestamp() - xact_start)::double precision
FROM pg_catalog.pg_stat_activity
WHERE backend_type = 'client backend' AND application_name NOT LIKE 'stallbench:maintenance:%%'
AND xact_start < pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => %s)
ORDER BY xact_start
"""
_END_ON_POSTGRES = "SELECT pg_catalog.pg_terminate_backend(%s)"
_OF_INNODB = """
SELECT trx_mysql_thread_id, user, command, timestampdiff(MICROSECOND, trx_started, now(6)) / 1e6
FROM information_schema.innodb_trx JOIN information_schema.processlist ON id = trx_mysql_thread_id
WHERE trx_started < now(6) - INTERVAL %s SECOND AND id <> connection_id()
ORDER BY trx_started
"""
_END_ON_INNODB = "KILL %s"


class WatchdogOptions(TaskOptions):
    """Options of `Watchdog`."""

    every_s: Duration = Field(default=1.0, alias="every", gt=0, le=3600, description="pause between two iterations")
    older_than_s: Duration = Field(
        default=10.0, alias="older_than", gt=0, le=86_400, description="how long a transaction may be open"
    )


class Watchdog(Task[WatchdogOptions]):
    """Ends the session of each transaction that is older than a limit.

    It cannot end a holder of the horizon that has no session: a prepared transaction, a replication slot, or, on a primary, a replica's feedback. Against
    a replica's feedback, run it on the replica.
    """

    kind = "watchdog"
    summary = "ends the session of each transaction that is older than a limit"
    source = "usual practice: pg_terminate_backend from cron, or pt-kill; the only way if another team owns the server's settings"
    engines = frozenset({"postgres", "mariadb", "mysql"})
    roles = ("primary", "replica")
    on_external = "never"
    options_type = WatchdogOptions

    def iterate(self, connection: Any) -> Iterator[str]:
        """End every session whose transaction is too old."""
        is_postgres = self.document.endpoint.engine == "postgres"
        find, end = (_OF_POSTGRES, _END_ON_POSTGRES) if is_postgres else (_OF_INNODB, _END_ON_INNODB)
        with connection.cursor() as cursor:
            cursor.execute(find, (self.options.older_than_s,))
            for pid, name, state, age_s in cursor.fetchall():
                cursor.execute(end, (pid,))
                yield f"ended session {pid} ({name}, {state}), its transaction {age_s:.1f} s old"
