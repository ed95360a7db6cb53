"""Finds the queue tables of a database, by their columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from stallbench.engines.postgres.trust import TRUSTED_ROLES
from stallbench.observe.known_queue import KnownQueue, find_known_queues
from stallbench.observe.postgres.foreign_code import ReadTables
from stallbench.sql_names import write_quoted
from stallbench.visible_text import raw_of

MOST_TABLES = 1000
"""Those of trusted owners come first, so that nobody else hides them behind a thousand of his own."""
# pg_partition_tree would lock each partition, and so wait for one that another session has locked.
_LEAVES = """
  WITH RECURSIVE tree AS (
    SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = pg_class.oid AND pg_class.relkind = 'p'
    UNION ALL
    SELECT pg_inherits.inhrelid FROM tree JOIN pg_catalog.pg_inherits ON inhparent = tree.inhrelid
  )
  SELECT part.oid FROM tree JOIN pg_catalog.pg_class AS part ON part.oid = inhrelid WHERE part.relkind <> 'p'
"""
# A temporary table is no queue: no other session can read it, and in a pool it may be one that another client has left.
_CANDIDATES = f"""
WITH RECURSIVE {TRUSTED_ROLES}
SELECT pg_class.oid::bigint, pg_catalog.quote_ident(nspname), pg_catalog.quote_ident(relname), nspname, relname, columns.names,
  pg_catalog.has_schema_privilege(nspname, 'USAGE') AND pg_catalog.has_table_privilege(pg_class.oid, 'SELECT'),
  ARRAY(SELECT leaf.oid::bigint FROM ({_LEAVES}) AS leaf ORDER BY leaf.oid),
  ARRAY(SELECT leaf.oid::pg_catalog.regclass::pg_catalog.text FROM ({_LEAVES}) AS leaf ORDER BY leaf.oid)
FROM pg_catalog.pg_class
JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
CROSS JOIN LATERAL (
  SELECT ARRAY(SELECT attname::pg_catalog.text FROM pg_catalog.pg_attribute WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped)
) AS columns (names)
WHERE relkind IN ('r', 'p') AND relpersistence <> 't' AND NOT relispartition AND nspname NOT IN ('pg_catalog', 'information_schema')
AND {{condition}}
ORDER BY relowner IN (SELECT oid FROM trusted) DESC, nspname, relname
LIMIT {MOST_TABLES}
"""
_BY_NAME = "relname ~ %s"
_BY_COLUMNS = "columns.names @> %s::pg_catalog.text[]"
_BY_OID = "pg_class.oid = pg_catalog.to_regclass(%s)"
_NO_NAMES = (psycopg.errors.InvalidName, psycopg.errors.SyntaxError, psycopg.errors.FeatureNotSupported)
"""What ``to_regclass`` raises before PostgreSQL 16 for ``a;b``, for ``a.b.c.d``, and for a table of another database; later it finds no such table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTable:
    """A table of jobs in the observed database."""

    schema: str
    """Quoted where SQL needs it, as the name."""
    table: str
    plain_schema: str
    """As the server's catalog has it, as the name."""
    plain_name: str
    known: KnownQueue | None
    """None if the user named it and no library is known that has such a table."""
    is_readable: bool
    leaves: tuple[int, ...]
    """The tables that have the rows: itself, or its partitions, by PostgreSQL's oid."""
    leaf_names: tuple[str, ...]
    """As the function ``to_regclass`` needs them, with their schemas; not made visible."""
    is_named: bool = False
    """Whether the user named it, and takes the risk that its read executes code of others."""

    @property
    def name(self) -> str:
        """As SQL needs it."""
        return f"{self.schema}.{self.table}"

    @property
    def title(self) -> str:
        """The library, and the table."""
        title = self.known.title if self.known else "unknown queue"
        return f"{title} ({self.name})"

    def read_by(self, query: str) -> ReadTables:
        """Return which tables a query reads: this one, or those that its library has beside it."""
        beside = {name: f"{self.schema}.{name}" for name in (self.known.tables_beside if self.known else ())}
        read = {name: written for name, written in beside.items() if re.search(rf"{re.escape(written)}\b", query)}
        if re.search(rf"{re.escape(self.name)}(?!\w)", query):
            read[raw_of(self.plain_name)] = self.name
        return ReadTables(
            schema=raw_of(self.plain_schema), names=tuple(read), written=tuple(read.values()), is_risk_accepted=self.is_named
        )


def find_queue_tables(server: Any) -> list[QueueTable]:
    """Return the tables of all known libraries, at most `MOST_TABLES`."""
    known_queues = find_known_queues().values()
    names = "|".join(sorted({known.usual_table for known in known_queues}))
    columns = [list(known.columns) for known in known_queues]
    condition = f"{_BY_NAME} AND ({' OR '.join([_BY_COLUMNS] * len(columns))})"
    rows = server.execute(_CANDIDATES.format(condition=condition), (names, *columns)).fetchall()
    return [table for row in rows if (table := _read(row)).known is not None]


def find_named_table(server: Any, name: str) -> QueueTable | None:
    """Return the table that the user named, with its schema or in ``public``; none if there is no such table."""
    for candidate in (name,) if "." in name else (name, f"public.{name}"):
        try:
            rows = server.execute(_CANDIDATES.format(condition=_BY_OID), (candidate,)).fetchall()
        except _NO_NAMES:
            continue
        if rows:
            return replace(_read(rows[0]), is_named=True)
    return None


def _read(row: Sequence[Any]) -> QueueTable:
    oid, schema, table, plain_schema, plain_name, columns, is_readable, leaves, leaf_names = row
    return QueueTable(
        schema=write_quoted(schema),
        table=write_quoted(table),
        plain_schema=plain_schema,
        plain_name=plain_name,
        known=recognise(plain_name, set(columns)),
        is_readable=is_readable,
        leaves=tuple(leaves) or (oid,),
        leaf_names=tuple(raw_of(name) for name in leaf_names) or (f"{raw_of(schema)}.{raw_of(table)}",),
    )


def recognise(name: str, columns: set[str]) -> KnownQueue | None:
    """Return the library that has such a table: of several the one with the most of its columns."""
    fitting = [
        known
        for known in find_known_queues().values()
        if columns >= set(known.columns) and (not known.is_named_so or name == known.usual_table)
    ]
    return max(fitting, key=lambda known: len(known.columns), default=None)
