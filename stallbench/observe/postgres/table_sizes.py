"""How large are tables and their indexes on disk?

The server opens a table to measure it, which takes ACCESS SHARE: one table that another session has locked would hide the sizes of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import psycopg

_SIZES = "SELECT oid::bigint, pg_relation_size(oid), pg_indexes_size(oid) FROM unnest(%s::oid[]) AS oid"
_NOT_LOCKED = """
WITH locked AS MATERIALIZED (
  SELECT relation FROM pg_locks
  WHERE locktype = 'relation' AND mode = 'AccessExclusiveLock'
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
SELECT oid::bigint FROM unnest(%s::oid[]) AS oid
WHERE oid NOT IN (SELECT relation FROM locked)
AND NOT EXISTS (SELECT FROM pg_index JOIN locked ON relation = indexrelid WHERE indrelid = oid)
"""
"""A session that waits for ACCESS EXCLUSIVE counts too: ACCESS SHARE would have to wait behind it."""


class Sizes(NamedTuple):
    """The sizes of one table in bytes; None if it was dropped."""

    table_bytes: int | None
    index_bytes: int | None


class TableSizes:
    """Measures tables, and leaves out those that are locked."""

    def __init__(self) -> None:
        """Expect no locked table."""
        self._was_locked = False

    def read(self, server: Any, tables: Sequence[int]) -> Mapping[int, Sizes]:
        """Return the sizes of those of ``tables``, by their oid, that no other session has locked. Raises psycopg's other errors."""
        if not self._was_locked:
            try:
                return _measure(server, tables)
            except psycopg.errors.LockNotAvailable:
                self._was_locked = True  # asking for the locks first, as long as there are any, saves the wait for them
        free = [oid for (oid,) in server.execute(_NOT_LOCKED, (list(tables),)).fetchall()]
        self._was_locked = len(free) < len(tables)
        try:
            return _measure(server, free)
        except psycopg.errors.LockNotAvailable:
            return {}  # one was locked in between


def _measure(server: Any, tables: Sequence[int]) -> Mapping[int, Sizes]:
    return {oid: Sizes(*sizes) for oid, *sizes in server.execute(_SIZES, (list(tables),)).fetchall()}
