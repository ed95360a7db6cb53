"""A replication slot that is no longer used: its replica was removed, or its connector was switched off.

A physical slot keeps the last feedback of its replica and so holds back vacuum of all tables. A logical slot holds back only the system catalogs:
vacuum of the queue's tables continues, and the WAL grows instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from longrunners.feedback import send_feedback
from longrunners.longrunner import LongrunnerOptions
from longrunners.postgres_longrunner import Connection
from longrunners.sessionless import LeftoverLongrunner
from stallbench.processes.role import CannotContinueError
from stallbench.records.injections import Evidence

_NEEDED = "wal_level = 'logical' in database.settings, for a logical slot"
_STATE = """
SELECT active_pid, xmin IS NOT NULL, catalog_xmin IS NOT NULL, coalesce(wal_status, '') = 'lost'
FROM pg_catalog.pg_replication_slots WHERE slot_name = %s
"""
_DROP = "SELECT pg_catalog.pg_drop_replication_slot(slot_name) FROM pg_catalog.pg_replication_slots WHERE slot_name = %s"


class SlotOptions(LongrunnerOptions):
    """Which slot is left behind."""

    type: Literal["physical", "logical"] = Field(
        default="physical",
        description="physical, like that of a replica: holds all tables; logical, like that of a connector: holds catalogs only",
    )


class Slot(LeftoverLongrunner[SlotOptions]):
    """Leaves an inactive slot that holds ``xmin`` (physical) or ``catalog_xmin`` (logical) back."""

    kind = "slot"
    summary = "leaves an inactive replication slot behind that still holds xmin back"
    source = "PostgreSQL's documentation of replication slots warns of it"
    options_type = SlotOptions

    @classmethod
    def find_missing_setting(cls, options: SlotOptions, settings: Mapping[str, object]) -> str | None:
        """Check wal_level: by default PostgreSQL's WAL does not contain enough for a logical slot."""
        return _NEEDED if options.type == "logical" and settings.get("wal_level") != "logical" else None

    def make(self, connection: Connection) -> Evidence:
        """Create the slot, give it an xmin, and disconnect from it."""
        if self.options.type == "logical":
            if connection.execute("SHOW wal_level").fetchone() != ("logical",):
                raise CannotContinueError(f"wal_level is not logical on {self.document.on}; expected {_NEEDED}")
            connection.execute("SELECT pg_catalog.pg_create_logical_replication_slot(%s, 'test_decoding')", (self.object_name,))
        else:
            connection.execute("SELECT pg_catalog.pg_create_physical_replication_slot(%s, true)", (self.object_name,))
            try:
                send_feedback(self.document.endpoint, self.application_name, self.object_name, connection)
            except BaseException:
                self.remove(connection)
                raise
        return {"kind": "slot", "key": self.object_name, "catalog_only": self.options.type == "logical"}

    def find_loss(self, connection: Connection) -> str | None:
        """Check that the slot was not dropped, used or invalidated (``max_slot_wal_keep_size``)."""
        row = connection.execute(_STATE, (self.object_name,)).fetchone()
        if row is None:
            return f"slot {self.object_name} was dropped"
        active_pid, holds_tables, holds_catalogs, invalidated = row
        if active_pid is not None:
            return f"slot {self.object_name} is in use again, by process {active_pid} of the server"
        if invalidated:
            return f"the server has invalidated slot {self.object_name}: it kept more WAL than max_slot_wal_keep_size"
        holds = holds_catalogs if self.options.type == "logical" else holds_tables
        return None if holds else f"slot {self.object_name} no longer holds anything"

    def remove(self, connection: Connection) -> list[str]:
        """Drop the slot."""
        dropped = connection.execute(_DROP, (self.object_name,)).fetchall()
        return [f"slot {self.object_name}" for _ in dropped]
