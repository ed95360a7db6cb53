"""Drops inactive replication slots that keep too much WAL, before the disk is full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.injection.maintenance.task import Task, TaskOptions

_FIND = """
SELECT slot_name, pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), restart_lsn) / 1048576
FROM pg_catalog.pg_replication_slots
WHERE NOT active AND pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), restart_lsn) > %s * 1048576.0
ORDER BY slot_name
"""


class SlotGuardOptions(TaskOptions):
    """Options of `SlotGuard`."""

    every_s: Duration = Field(default=1.0, alias="every", gt=0, le=3600, description="pause between two iterations")
    keeps_more_than_mb: int = Field(default=1024, ge=1, description="how much WAL an inactive slot may keep, in MB")


class SlotGuard(Task[SlotGuardOptions]):
    """Does what an operator does after an alert. The slot's consumer has to be set up again, as after ``max_slot_wal_keep_size``."""

    kind = "slot_guard"
    summary = "drops each inactive replication slot that keeps more WAL than a limit"
    source = (
        "runbooks for alerts on inactive replication slots and on the WAL that they keep; zalando/postgres-operator issue 2012"
    )
    engines = frozenset({"postgres"})
    on_external = "never"
    options_type = SlotGuardOptions

    def iterate(self, connection: Any) -> Iterator[str]:
        """Drop every slot over the limit."""
        for name, kept_mb in connection.execute(_FIND, (self.options.keeps_more_than_mb,)).fetchall():
            connection.execute("SELECT pg_catalog.pg_drop_replication_slot(%s)", (name,))
            yield f"dropped slot {name}, which kept {kept_mb:.0f} MB of WAL"
