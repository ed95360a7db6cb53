"""A schema that has a function, a view or a type of an attacker for every name of PostgreSQL's own that some statements use."""

from __future__ import annotations

import re
from collections.abc import Iterable

import psycopg

from tests.integration.conftest import Connection

SCHEMA = "hostile"
TRAP = "a function of an attacker was called"
_TRAP = f"""
CREATE SCHEMA {SCHEMA};
CREATE FUNCTION {SCHEMA}.trap() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{TRAP}'; END $$
"""
_FUNCTIONS = """
SELECT DISTINCT ON (proname, proargtypes::text) quote_ident(proname), pg_get_function_identity_arguments(oid),
  format_type(prorettype, NULL), proretset
FROM pg_proc
WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY(%s)
"""
_RELATIONS = """
SELECT relname, string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_class
JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND atttypid <> 'anyarray'::regtype
WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v') AND relname = ANY(%s)
GROUP BY relname
"""
_TYPES = """
SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype = 'b' AND typelem = 0 AND typname = ANY(%s)
"""


def create_hostile_names(admin: Connection, statements: Iterable[str]) -> set[str]:
    """Create the schema, and return the names in it. A role whose search_path begins with it meets a trap for each unqualified name."""
    words = sorted({word for statement in statements for word in re.findall(r"[a-z_][a-z0-9_]*", statement)})
    admin.execute(_TRAP)
    created: set[str] = set()
    for name, arguments, returned, returns_set in admin.execute(_FUNCTIONS, (words,)).fetchall():
        kind = f"SETOF {returned}" if returns_set else returned
        body = f"$$ BEGIN RAISE EXCEPTION '{TRAP}'; END $$"
        if _create(
            admin, f"CREATE FUNCTION {SCHEMA}.{name}({_as_arguments(arguments)}) RETURNS {kind} LANGUAGE plpgsql AS {body}"
        ):
            created.add(name)
    for name, columns in admin.execute(_RELATIONS, (words,)).fetchall():
        admin.execute(f"CREATE VIEW {SCHEMA}.{name} AS SELECT {columns} FROM pg_catalog.{name} WHERE {SCHEMA}.trap()")
        created.add(name)
    for (name,) in admin.execute(_TYPES, (words,)).fetchall():
        admin.execute(f"CREATE DOMAIN {SCHEMA}.{name} AS pg_catalog.{name} CHECK ({SCHEMA}.trap())")
        created.add(name)
    admin.execute(f"GRANT USAGE ON SCHEMA {SCHEMA} TO PUBLIC; GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO PUBLIC")
    return created


def _as_arguments(identity: str) -> str:
    """Return the inputs of a function or an aggregate as those of a function."""
    return ", ".join(part for part in identity.replace("ORDER BY ", ", ").split(", ") if part.strip())


def _create(admin: Connection, statement: str) -> bool:
    """Return whether it was created. Only a function in C may have arguments of some types, like "any"."""
    try:
        admin.execute(statement)
    except (psycopg.errors.InvalidFunctionDefinition, psycopg.errors.FeatureNotSupported):
        return False
    return True
