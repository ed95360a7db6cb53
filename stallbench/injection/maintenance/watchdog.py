"""Ends transactions that have been open for too long, as the server's timeouts would, for users who cannot change the server's settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.engines import ENGINES, SESSION_ENGINES
from stallbench.injection.maintenance.task import Task, TaskOptions


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
    engines = SESSION_ENGINES
    roles = ("primary", "replica")
    on_external = "never"
    options_type = WatchdogOptions

    def iterate(self, connection: Any) -> Iterator[str]:
        """End every session whose transaction is too old."""
        sessions = ENGINES[self.document.endpoint.engine].sessions()
        for old in sessions.find_old_transactions(connection, self.options.older_than_s):
            sessions.end(connection, old.id)
            yield f"ended session {old.id} ({old.name}, {old.state}), its transaction {old.age_s:.1f} s old"
