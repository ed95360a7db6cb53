"""Whose code would a table's read execute? PostgreSQL has no read that executes only what the reader wrote.

A view, a rule, a type, and an expression of an index, of statistics or of a constraint may call a function, which the server executes with the rights of
who reads. So `stallbench observe` reads a table by itself only if no such code is another user's. The rule, for the table, each of its partitions
and each table that inherits from it:

- it is an ordinary or a partitioned table, and so is each partition;
- its owner, and that of its schema, who could put something else in its place, is *trusted*: a superuser, the user that observes, or the owner of the
  database or a role of which that user is a member, if the rights of who observes would give him nothing (`stallbench.engines.postgres.trust`);
- they are at most `MOST_MEMBERS`, because each is locked;
- it has no rules, and what its indexes, constraints, policies, extended statistics, virtual columns and partition keys call is in ``pg_catalog``, or
  belongs to a superuser (like the functions of an extension) or to the observing user, who execute nothing that they could not execute anyway;
- its columns are of types of ``pg_catalog``, of a superuser's, of the observing user's, or of enumerated types, domains and arrays of a trusted owner,
  which have no code of their own; and no cast from or to them calls anybody else's function.

The catalog is read before the table is locked, so that no lock is taken on tables of others, and again while it is locked (ACCESS SHARE): then it cannot
be dropped, renamed or altered before the read. Its owner alone can still add an index, a policy or a partition, because ACCESS SHARE does not conflict
with that, and whoever only reads may take no stronger lock. So that owner must be one who gains nothing by it. Operator classes and access methods are
not looked at: only a superuser can create them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stallbench.engines.postgres.trust import TRUSTED_ROLES

MOST_NAMED = 2
MOST_MEMBERS = 1000
"""Of partitions and tables that inherit. A server has room for 6400 locks by default."""
HAZARDS = f"""
WITH RECURSIVE {TRUSTED_ROLES}, reached (oid, owner) AS (
  SELECT pg_class.oid, relowner FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
  WHERE nspname = %(schema)s::pg_catalog.text AND relname = ANY(%(names)s::pg_catalog.text[])
  UNION
  SELECT pg_class.oid, relowner FROM reached JOIN pg_catalog.pg_inherits ON inhparent = reached.oid
  JOIN pg_catalog.pg_class ON pg_class.oid = inhrelid WHERE owner IN (SELECT oid FROM trusted)
), member (oid) AS MATERIALIZED (
  SELECT oid FROM reached LIMIT {MOST_MEMBERS + 1}
), object (about, classid, objid) AS (
  SELECT oid, 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, oid FROM member
  UNION ALL SELECT indrelid, 'pg_catalog.pg_class'::pg_catalog.regclass, indexrelid
  FROM member JOIN pg_catalog.pg_index ON indrelid = member.oid
  UNION ALL SELECT conrelid, 'pg_catalog.pg_constraint'::pg_catalog.regclass, pg_constraint.oid
  FROM member JOIN pg_catalog.pg_constraint ON conrelid = member.oid
  UNION ALL SELECT polrelid, 'pg_catalog.pg_policy'::pg_catalog.regclass, pg_policy.oid
  FROM member JOIN pg_catalog.pg_policy ON polrelid = member.oid
  UNION ALL SELECT stxrelid, 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass, pg_statistic_ext.oid
  FROM member JOIN pg_catalog.pg_statistic_ext ON stxrelid = member.oid
  UNION ALL SELECT adrelid, 'pg_catalog.pg_attrdef'::pg_catalog.regclass, pg_attrdef.oid
  FROM member JOIN pg_catalog.pg_attrdef ON adrelid = member.oid
  JOIN pg_catalog.pg_attribute ON attrelid = adrelid AND attnum = adnum AND attgenerated = 'v'
), type (about, oid) AS (
  SELECT used.about, used.oid FROM (
    SELECT attrelid, atttypid FROM member JOIN pg_catalog.pg_attribute ON attrelid = member.oid AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT about, refobjid FROM object JOIN pg_catalog.pg_depend USING (classid, objid)
    WHERE refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass
  ) AS used (about, oid)
  JOIN pg_catalog.pg_type ON pg_type.oid = used.oid AND typnamespace <> 'pg_catalog'::pg_catalog.regnamespace
  UNION
  SELECT about, inner_type.oid FROM type
  JOIN pg_catalog.pg_type AS outer_type ON outer_type.oid = type.oid
  JOIN pg_catalog.pg_type AS inner_type ON inner_type.oid IN (outer_type.typelem, outer_type.typbasetype)
  AND inner_type.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace
), needed (about, refclassid, refobjid) AS (
  SELECT about, refclassid, refobjid FROM object JOIN pg_catalog.pg_depend USING (classid, objid)
  UNION ALL
  SELECT about, refclassid, refobjid FROM type
  JOIN pg_catalog.pg_constraint ON contypid = type.oid
  JOIN pg_catalog.pg_depend ON classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass AND objid = pg_constraint.oid
), function (about, oid) AS (
  SELECT about, refobjid FROM needed WHERE refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass
  UNION SELECT about, oprcode FROM needed
  JOIN pg_catalog.pg_operator ON pg_operator.oid = refobjid AND refclassid = 'pg_catalog.pg_operator'::pg_catalog.regclass
  UNION SELECT about, castfunc FROM type JOIN pg_catalog.pg_cast ON type.oid IN (castsource, casttarget) AND castfunc <> 0
)
SELECT about::pg_catalog.regclass::pg_catalog.text, what, name FROM (
  SELECT member.oid, 'owner', pg_catalog.pg_get_userbyid(relowner)
  FROM member JOIN pg_catalog.pg_class ON pg_class.oid = member.oid WHERE relowner NOT IN (SELECT oid FROM trusted)
  UNION ALL
  SELECT pg_class.oid, 'schema', pg_catalog.pg_get_userbyid(nspowner)
  FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
  WHERE nspname = %(schema)s::pg_catalog.text AND relname = ANY(%(names)s::pg_catalog.text[])
  AND nspowner NOT IN (SELECT oid FROM trusted)
  UNION ALL
  SELECT member.oid, 'kind', CASE relkind WHEN 'v' THEN 'a view' WHEN 'm' THEN 'a materialized view' WHEN 'f' THEN 'a foreign table'
    ELSE 'of kind ' || relkind::pg_catalog.text END
  FROM member JOIN pg_catalog.pg_class ON pg_class.oid = member.oid WHERE relkind NOT IN ('r', 'p')
  UNION ALL
  SELECT (SELECT oid FROM member LIMIT 1), 'number', '' FROM member HAVING pg_catalog.count(*) > {MOST_MEMBERS}
  UNION ALL
  SELECT ev_class, 'rule', rulename FROM member JOIN pg_catalog.pg_rewrite ON ev_class = member.oid
  JOIN pg_catalog.pg_class ON pg_class.oid = ev_class AND relkind IN ('r', 'p')
  UNION ALL
  SELECT about, 'type', pg_catalog.format_type(pg_type.oid, NULL) FROM type JOIN pg_catalog.pg_type ON pg_type.oid = type.oid
  WHERE typowner NOT IN (SELECT oid FROM author) AND (typowner NOT IN (SELECT oid FROM trusted)
    OR NOT (typtype IN ('e', 'd') OR typtype = 'b' AND typcategory = 'A'))
  UNION ALL
  SELECT about, 'function', function.oid::pg_catalog.regprocedure::pg_catalog.text
  FROM function JOIN pg_catalog.pg_proc ON pg_proc.oid = function.oid
  WHERE pronamespace <> 'pg_catalog'::pg_catalog.regnamespace AND proowner NOT IN (SELECT oid FROM author)
  UNION ALL
  SELECT about, 'object', pg_catalog.pg_describe_object(refclassid, refobjid, 0) FROM needed
  WHERE refclassid NOT IN ('pg_catalog.pg_class'::pg_catalog.regclass, 'pg_catalog.pg_namespace'::pg_catalog.regclass,
    'pg_catalog.pg_constraint'::pg_catalog.regclass, 'pg_catalog.pg_attrdef'::pg_catalog.regclass, 'pg_catalog.pg_extension'::pg_catalog.regclass,
    'pg_catalog.pg_type'::pg_catalog.regclass, 'pg_catalog.pg_proc'::pg_catalog.regclass, 'pg_catalog.pg_operator'::pg_catalog.regclass,
    'pg_catalog.pg_collation'::pg_catalog.regclass, 'pg_catalog.pg_am'::pg_catalog.regclass, 'pg_catalog.pg_opclass'::pg_catalog.regclass,
    'pg_catalog.pg_opfamily'::pg_catalog.regclass)
) AS hazard (about, what, name)
GROUP BY about, what, name
ORDER BY what, name
LIMIT 10
"""
"""What makes the read of some tables of one schema execute code of others: the table, the sort of hazard, and its name. No row: nothing does."""
_REASONS = {
    "owner": "{table} belongs to {name}",
    "schema": "the schema of {table} belongs to {name}",
    "kind": "{table} is {name}",
    "number": f"{{table}} has more than {MOST_MEMBERS} partitions or tables that inherit from it, too many to look at",
    "rule": "{table} has the rule {name}",
    "type": "a column of {table} has the type {name}",
    "function": "{table} uses the function {name}",
    "object": "{table} uses the {name}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTables:
    """The tables of one schema that one query reads."""

    schema: str
    """As the server's catalog has it, as the names."""
    names: tuple[str, ...]
    written: tuple[str, ...]
    """The same as SQL needs them, with their schema."""
    is_risk_accepted: bool
    """Whether the user named the table, and so takes the risk that its read executes code of others."""


def describe_hazards(rows: Sequence[tuple[Any, ...]]) -> str:
    """Return why the read of a table would execute code of others. ``rows``: of `HAZARDS`."""
    reasons = list(dict.fromkeys(_REASONS[what].format(table=table, name=name) for table, what, name in rows))
    more = f" (and {len(reasons) - MOST_NAMED} more)" if len(reasons) > MOST_NAMED else ""
    return "; ".join(reasons[:MOST_NAMED]) + more
