"""How large are tables, their TOAST tables and their indexes on disk, and how much of that holds no live row?

The server opens a table to measure it, which takes ACCESS SHARE: one table that another session has locked would hide the sizes of all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import psycopg

from stallbench.sql_names import write_quoted
from stallbench.visible_text import raw_of

ROW_OVERHEAD_BYTES = 28
"""Header and item pointer of a row."""
FILLED = 0.9
"""Share of a page that rows fill when nothing is bloated."""
_INDEX_FILLED = 0.65
"""Of an index: pages that were split for keys in random order are two thirds full, and need not be more."""
_CHUNK_BYTES = 1996 + 12 + ROW_OVERHEAD_BYTES
"""Largest row of a TOAST table: a part of a value, its number and that of the value."""
_ENTRY_OVERHEAD_BYTES = 16
"""Header, item pointer and alignment of an entry of a B-tree."""
_PAGE_BYTES = 8192


def _live_rows(oid: str) -> str:
    """Return an expression for the live rows of a table; NULL if nothing is known of them.

    The server counts rows with a delay of seconds, and from 0 after a crash or a reset of its statistics; the last vacuum or analyze knew some, too.
    """
    return f"""(
    SELECT CASE WHEN counted > 0 OR reltuples > 0 OR pg_catalog.pg_stat_get_vacuum_count({oid}) + pg_catalog.pg_stat_get_autovacuum_count({oid}) > 0
      THEN greatest(counted, reltuples, 0) END
    FROM pg_catalog.pg_class AS own, pg_catalog.pg_stat_get_live_tuples({oid}) AS counted
    WHERE own.oid = {oid}
  )"""


# Of a partial index only the last vacuum or analyze knows the entries. What is deduplicated in an index, and the last part of each TOAST value, needs
# less than is assumed here: of both the bloat is at least what is computed.
_SIZES = f"""
SELECT measured.oid::bigint, pg_catalog.pg_relation_size(measured.oid), pg_catalog.pg_indexes_size(measured.oid),
  pg_catalog.pg_relation_size(toast), pg_catalog.pg_relation_size(toast) - {_live_rows("toast")} * {_CHUNK_BYTES} / {FILLED},
  (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(indexrelid::pg_catalog.regclass::pg_catalog.text,
     pg_catalog.pg_relation_size(indexrelid),
     greatest(0, pg_catalog.pg_relation_size(indexrelid) - {_PAGE_BYTES}
     - CASE WHEN indpred IS NOT NULL AND own.reltuples >= 0 THEN least(live, own.reltuples) ELSE live END
     * (entry_bytes + {_ENTRY_OVERHEAD_BYTES}) / {_INDEX_FILLED}),
     indisvalid AND NOT indisexclusion))
   FROM pg_catalog.pg_index
   JOIN pg_catalog.pg_class AS own ON own.oid = indexrelid
   JOIN pg_catalog.pg_am ON pg_am.oid = own.relam AND amname = 'btree'
   CROSS JOIN LATERAL (
     SELECT CASE WHEN pg_catalog.bool_and(bytes IS NOT NULL) THEN pg_catalog.sum(bytes) END AS entry_bytes
     FROM pg_catalog.pg_attribute AS entry
     LEFT JOIN pg_catalog.pg_attribute AS field ON field.attrelid = indrelid AND field.attnum = nullif(indkey[entry.attnum - 1], 0)
     CROSS JOIN LATERAL (
       SELECT CASE WHEN entry.attlen > 0 THEN entry.attlen ELSE (
         SELECT avg_width FROM pg_catalog.pg_stats
         WHERE schemaname = nspname AND tablename = CASE WHEN field.attname IS NULL THEN own.relname ELSE measured.relname END
         AND attname = coalesce(field.attname, entry.attname) LIMIT 1
       ) END AS bytes
     ) AS width
     WHERE entry.attrelid = indexrelid AND entry.attnum > 0
   ) AS entries
   WHERE indrelid = measured.oid AND entry_bytes IS NOT NULL),
  live
FROM (
  SELECT oid, relname, nspname, nullif(reltoastrelid, 0) AS toast, {_live_rows("listed.oid")} AS live
  FROM pg_catalog.unnest(%s::pg_catalog.oid[]) AS listed (oid)
  LEFT JOIN (
    SELECT pg_class.oid, relname, reltoastrelid, nspname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
  ) AS named USING (oid)
) AS measured
"""
_NOT_LOCKED = """
WITH locked AS MATERIALIZED (
  SELECT relation FROM pg_catalog.pg_locks
  WHERE locktype = 'relation' AND mode = 'AccessExclusiveLock'
  AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
)
SELECT oid::bigint FROM pg_catalog.unnest(%s::pg_catalog.oid[]) AS listed (oid)
WHERE oid NOT IN (SELECT relation FROM locked)
AND NOT EXISTS (SELECT FROM pg_catalog.pg_index JOIN locked ON relation = indexrelid WHERE indrelid = listed.oid)
AND NOT EXISTS (SELECT FROM pg_catalog.pg_class JOIN locked ON relation = reltoastrelid WHERE pg_class.oid = listed.oid)
"""
"""A session that waits for ACCESS EXCLUSIVE counts too: ACCESS SHARE would have to wait behind it."""


class IndexSize(NamedTuple):
    """A B-tree of a table."""

    name: str
    """As SQL needs it, with its schema."""
    size_bytes: float
    bloat_bytes: float
    """What it occupies beyond entries for the table's live rows, at least."""
    can_be_rebuilt: bool
    """Whether it can be rebuilt beside reads and writes."""


class Sizes(NamedTuple):
    """The sizes of one table in bytes; None if it was dropped."""

    table_bytes: int | None
    index_bytes: int | None
    toast_bytes: int | None = None
    """Of the values that are stored beside the rows; None if the table's rows have no such values."""
    toast_bloat_bytes: float | None = None
    """What its TOAST table occupies beyond its live rows, at least; None if nothing is known of these."""
    indexes: Sequence[IndexSize] = ()
    """Its B-trees; without those of whose columns there are no statistics."""
    live_rows: float | None = None
    """An estimate; None if nothing is known of them."""

    @property
    def index_bloat_bytes(self) -> float | None:
        """What its B-trees occupy beyond entries for its live rows, at least; None if these, or the statistics of all, are unknown."""
        return sum(one.bloat_bytes for one in self.indexes) if self.indexes else None


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
    return {
        oid: Sizes(table, index, toast, toast_bloat, _read_indexes(indexes), live)
        for oid, table, index, toast, toast_bloat, indexes, live in server.execute(_SIZES, (list(tables),)).fetchall()
    }


def _read_indexes(indexes: str | None) -> list[IndexSize]:
    """``indexes``: JSON of the server, which is read before its texts are made visible."""
    return [IndexSize(write_quoted(name), *figures) for name, *figures in json.loads(raw_of(indexes or "[]"))]
