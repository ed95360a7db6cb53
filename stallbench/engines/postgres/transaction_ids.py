"""Moves a new PostgreSQL server close to the wraparound of transaction ids, where it refuses to assign any more.

A replication slot from the time before holds the horizon, so that no vacuum can move the limit. PostgreSQL's own tests consume two billion
transaction ids; ``pg_resetwal`` sets the next one on the stopped server's data folder, which takes no time.
"""

from __future__ import annotations

from pathlib import Path

from stallbench.engines.postgres.driver import connect
from stallbench.engines.postgres.server import PostgresInstallation
from stallbench.errors import NotCarriedOutError
from stallbench.records.endpoint import Endpoint

RESETWAL = "pg_resetwal"
"""The program that sets the next transaction id. Packages without client programs do not have it."""
HOLDER = "stallbench_wraparound"
"""The slot that holds the horizon: a logical one, which keeps the system catalogs from being frozen."""
_HALF = 2**31 - 1
_REFUSED_BEFORE = 3_000_000
"""PostgreSQL refuses to assign the last ids (`SetTransactionIdLimit` in varsup.c, since version 14)."""
_IDS_PER_SEGMENT = 1_048_576
_SEGMENT_BYTES = 262_144
"""Of a file in ``pg_xact``: two bits for each transaction id."""


def hold_horizon(endpoint: Endpoint) -> int:
    """Create the slot, and return the oldest transaction id of any database, from which the limit counts."""
    with connect(endpoint, "start") as connection:
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", (HOLDER,))
        (oldest,) = connection.execute("SELECT min(datfrozenxid::text::bigint) FROM pg_database").fetchone() or (None,)
    if oldest is None:
        raise NotCarriedOutError("the server names no oldest transaction id")
    return int(oldest)


def set_next_transaction_id(installation: PostgresInstallation, data: Path, oldest: int, left: int) -> int:
    """Set the next transaction id of the stopped server on ``data`` so that it assigns ``left`` more; return the id."""
    next_id = oldest + _HALF - _REFUSED_BEFORE - left
    installation.run(RESETWAL, f"--next-transaction-id={next_id}", "-D", str(data))
    segment = data / "pg_xact" / f"{next_id // _IDS_PER_SEGMENT:04X}"
    segment.write_bytes(bytes(_SEGMENT_BYTES))
    installation.own(segment, 0o600)
    return next_id
