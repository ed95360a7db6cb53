"""A replication slot that nobody uses any more: a replica that was taken away, a connector that was switched off.

A physical slot keeps the last feedback of its replica and holds everything with it. A logical slot holds only the system catalogs: queue
tables are vacuumed as ever, and what grows instead is the WAL.
"""

from __future__ import annotations

import struct
import time
from typing import Any, Literal

import psycopg
from psycopg.pq import ExecStatus
from pydantic import Field

from longrunners.longrunner import Longrunner, LongrunnerOptions, LostError
from stallbench.role import CannotGoOnError, Stop

_LOOK_EVERY_S = 0.5
_FEEDBACK_S = 5.0
_EPOCH_2000_S = 946_684_800


class SlotOptions(LongrunnerOptions):
    """Which slot is left behind."""

    type: Literal["physical", "logical"] = Field(default="physical", description="what the slot was for")


class Slot(Longrunner[SlotOptions]):
    """Leaves an inactive slot that holds ``xmin`` (physical) or ``catalog_xmin`` (logical) back."""

    kind = "slot"
    summary = "leaves an inactive replication slot behind that still holds xmin back"
    source = "PostgreSQL's documentation of replication slots warns of it"
    options_type = SlotOptions
    needs = {"wal_level": "logical, for a logical slot"}

    def hold(self) -> dict[str, Any]:
        """Create the slot, give it an xmin, and leave it."""
        with self.connect() as connection:
            if self.options.type == "logical":
                connection.execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", (self.object_name,))
            else:
                connection.execute("SELECT pg_create_physical_replication_slot(%s, true)", (self.object_name,))
                self._send_feedback(self._next_xid(connection))
        return {"kind": "slot", "slot": self.object_name}

    def keep(self, stop: Stop) -> None:
        """Look now and then whether it is still there and holds."""
        while not stop.wait(_LOOK_EVERY_S):
            if not self._holds():
                raise LostError(f"slot {self.object_name} holds nothing any more")

    def let_go(self) -> None:
        """Drop it."""
        with self.connect() as connection:
            connection.execute("SELECT pg_drop_replication_slot(%s)", (self.object_name,))

    def release(self) -> None:
        """Drop it if it is there."""
        with self.connect() as connection:
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
                (self.object_name,),
            )

    def _holds(self) -> bool:
        with self.connect() as connection:
            query = "SELECT coalesce(xmin, catalog_xmin) IS NOT NULL FROM pg_replication_slots WHERE slot_name = %s"
            row = connection.execute(query, (self.object_name,)).fetchone()
            return bool(row and row[0])

    def _next_xid(self, connection: psycopg.Connection[tuple[Any, ...]]) -> int:
        row = connection.execute("SELECT txid_snapshot_xmax(txid_current_snapshot())").fetchone()
        assert row is not None
        return int(row[0])

    def _send_feedback(self, full_xid: int) -> None:
        """Stream through the slot as a replica would, report ``full_xid`` as the oldest that is still wanted, and go."""
        endpoint = self.document.endpoint
        with psycopg.connect(
            host=endpoint.host,
            port=endpoint.port,
            user=endpoint.user,
            password=endpoint.password.get_secret_value(),
            application_name=f"stallbench:longrunner:{self.document.name}",
            replication="true",
            autocommit=True,
        ) as connection:
            pgconn = connection.pgconn
            identity = pgconn.exec_(b"IDENTIFY_SYSTEM")
            position = (identity.get_value(0, 2) or b"0/0").decode()
            started = pgconn.exec_(f'START_REPLICATION SLOT "{self.object_name}" PHYSICAL {position}'.encode())
            if started.status != ExecStatus.COPY_BOTH:
                raise CannotGoOnError(f"slot {self.object_name} does not stream: {started.get_error_message()}")
            now_us = int((time.time() - _EPOCH_2000_S) * 1e6)
            xid, epoch = full_xid & 0xFFFF_FFFF, full_xid >> 32
            # Hot standby feedback: time, xmin and its epoch, catalog xmin and its epoch (streaming replication protocol).
            pgconn.put_copy_data(b"h" + struct.pack("!qIIII", now_us, xid, epoch, 0, 0))
            pgconn.flush()
            until_s = time.monotonic() + _FEEDBACK_S
            while not self._holds():
                if time.monotonic() > until_s:
                    raise CannotGoOnError(f"slot {self.object_name} did not take the feedback within {_FEEDBACK_S:.0f} s")
                time.sleep(0.05)
            pgconn.finish()
