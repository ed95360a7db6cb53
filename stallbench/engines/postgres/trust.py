"""Whom the bench trusts in a database of PostgreSQL: whoever can execute anything there anyway, or as the bench's user.

Who may create an object can have others execute it: a view in the place of a table, an operator that fits better than PostgreSQL's own. PostgreSQL 14
lets every user create in the schema ``public``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stallbench.visible_text import raw_of

_HARMLESS_ROLES = (
    "pg_monitor",
    "pg_read_all_settings",
    "pg_read_all_stats",
    "pg_stat_scan_tables",
    "pg_read_all_data",
    "pg_checkpoint",
    "pg_use_reserved_connections",
    "pg_database_owner",
)
"""Roles of PostgreSQL itself by which a user reads more, and can change nothing."""

_ACTING_AS = (
    "CASE WHEN pg_catalog.current_setting('server_version_num')::int >= 160000 "
    "THEN 'USAGE, SET, USAGE WITH ADMIN OPTION' ELSE 'MEMBER' END"
)
"""For ``pg_has_role``: whether a member has the role's rights, can become the role, or can grant itself either. Since PostgreSQL 16 a membership can be
without any of these (``INHERIT FALSE, SET FALSE``), and is still one."""

TRUSTED_ROLES = f"""own_role (oid) AS (
  SELECT oid FROM pg_catalog.pg_roles WHERE rolname = session_user
  UNION
  SELECT roleid FROM own_role JOIN pg_catalog.pg_auth_members ON member = own_role.oid
), author (oid) AS MATERIALIZED (
  SELECT oid FROM pg_catalog.pg_roles WHERE rolsuper OR rolname = session_user
), privileged (oid) AS MATERIALIZED (
  SELECT pg_roles.oid FROM own_role JOIN pg_catalog.pg_roles ON pg_roles.oid = own_role.oid
  WHERE rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls
  OR rolname ~ '^pg_' AND rolname NOT IN ({", ".join(f"'{role}'" for role in _HARMLESS_ROLES)})
  OR EXISTS (SELECT FROM pg_catalog.pg_shdepend
    WHERE refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass AND refobjid = pg_roles.oid AND deptype = 'o')
), candidate (oid, same_as) AS (
  SELECT oid, oid FROM own_role
  UNION ALL SELECT datdba, datdba FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()
  UNION ALL SELECT pg_roles.oid, datdba FROM pg_catalog.pg_roles JOIN pg_catalog.pg_database ON datname = pg_catalog.current_database()
  WHERE rolname = 'pg_database_owner'
), trusted (oid) AS MATERIALIZED (
  SELECT oid FROM author
  UNION
  SELECT oid FROM candidate WHERE same_as IN (SELECT oid FROM author)
  OR NOT EXISTS (SELECT FROM privileged WHERE NOT pg_catalog.pg_has_role(same_as, privileged.oid, {_ACTING_AS}))
)"""
"""Queries for ``WITH RECURSIVE``. ``author``: superusers and the user who has logged in, whose code may be executed. ``trusted``: those, and of the owner of
the database and the roles of which that user is a member whoever would gain nothing by his rights. Their tables may be read, although they could add code
in the moment before: nothing keeps the owner of a table from that.

Rights to gain (``privileged``): those of a superuser, of another attribute of a role, of a role of PostgreSQL that does more than read, and those of an
owner. A reader who is a member of ``pg_monitor`` and has been granted SELECT has none."""

_STRANGERS = f"""WITH RECURSIVE {TRUSTED_ROLES}, stranger (oid) AS MATERIALIZED (
  SELECT pg_roles.oid FROM pg_catalog.pg_roles JOIN pg_catalog.pg_database ON datname = pg_catalog.current_database()
  WHERE pg_roles.oid NOT IN (SELECT oid FROM trusted)
  AND NOT pg_catalog.pg_has_role(pg_roles.oid, session_user, {_ACTING_AS})
  AND NOT (datdba IN (SELECT oid FROM trusted) AND pg_catalog.pg_has_role(pg_roles.oid, datdba, {_ACTING_AS}))
)"""
"""``stranger``: who is neither trusted nor can become the session's user or a trusted owner of the database."""

STRANGERS_WHO_MAY_CREATE = f"""{_STRANGERS}, place (kind, name, owner, rights) AS (
  SELECT 'SCHEMA', pg_catalog.quote_ident(nspname), nspowner, coalesce(nspacl, pg_catalog.acldefault('n', nspowner))
  FROM pg_catalog.pg_namespace WHERE nspname = 'public'
  UNION ALL
  SELECT 'DATABASE', pg_catalog.quote_ident(datname), datdba, coalesce(datacl, pg_catalog.acldefault('d', datdba))
  FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()
), creator (kind, name, oid, is_owner) AS (
  SELECT kind, name, owner, true FROM place
  UNION
  SELECT kind, name, grantee, false FROM place, pg_catalog.aclexplode(rights) WHERE privilege_type = 'CREATE' AND grantee <> owner
)
SELECT kind, name, CASE creator.oid WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(creator.oid)) END, is_owner,
  pg_catalog.min(rolname::pg_catalog.text), pg_catalog.count(*)
FROM creator
JOIN pg_catalog.pg_roles AS login ON rolcanlogin AND login.oid IN (SELECT oid FROM stranger)
AND (creator.oid = 0 OR pg_catalog.pg_has_role(login.oid, creator.oid, {_ACTING_AS}))
GROUP BY kind, name, creator.oid, is_owner
ORDER BY kind DESC, 3
"""
"""Kind and name of a place where strangers may create objects, the role whose right it is, whether as its owner, the first of them, and how many they are.

A schema that somebody creates can be that of the ``search_path``: ``"$user"``."""

OPEN_TRANSACTIONS_OF_STRANGERS = f"""{_STRANGERS}
SELECT 'an open transaction', pg_catalog.pg_get_userbyid(usesysid), 'process ' || pg_stat_activity.pid::pg_catalog.text
FROM pg_catalog.pg_locks JOIN pg_catalog.pg_stat_activity ON pg_stat_activity.pid = pg_locks.pid
WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted
AND datname = pg_catalog.current_database() AND usesysid IN (SELECT oid FROM stranger)
UNION ALL
SELECT 'a prepared transaction', owner, pg_catalog.quote_literal(gid) FROM pg_catalog.pg_prepared_xacts
JOIN pg_catalog.pg_roles ON rolname = owner
WHERE database = pg_catalog.current_database() AND pg_roles.oid IN (SELECT oid FROM stranger)
"""
"""Transactions of strangers that have written something, which nobody else sees yet: the sort, the user, and what names the transaction."""

_CHANGES_SOMETHING = "privilege_type NOT IN ('SELECT', 'EXECUTE')"
"""Of a right on a table or a sequence: who only reads it changes nothing, and has nothing executed. PostgreSQL gives everybody EXECUTE on functions anyway."""

RIGHTS_BY_DEFAULT_OF_STRANGERS = f"""{_STRANGERS}, given (kind, schema, creator, grantee, rights) AS (
  SELECT CASE defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'n' THEN 'SCHEMAS' ELSE 'LARGE OBJECTS' END,
    pg_catalog.quote_ident(nspname), pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(defaclrole)), grantee,
    pg_catalog.string_agg(privilege_type, ', ' ORDER BY privilege_type)
  FROM pg_catalog.pg_default_acl LEFT JOIN pg_catalog.pg_namespace ON pg_namespace.oid = defaclnamespace,
    pg_catalog.aclexplode(defaclacl)
  WHERE (defaclrole IN (SELECT oid FROM own_role) OR pg_catalog.pg_get_userbyid(defaclrole) = current_user)
  AND defaclobjtype IN ('r', 'S', 'n', 'L') AND {_CHANGES_SOMETHING} AND NOT (defaclobjtype = 'n' AND privilege_type = 'USAGE')
  GROUP BY defaclobjtype, nspname, defaclrole, grantee
)
SELECT kind, schema, creator, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(grantee)) END, rights,
  pg_catalog.min(rolname::pg_catalog.text), pg_catalog.count(*)
FROM given
JOIN pg_catalog.pg_roles AS login ON rolcanlogin AND login.oid IN (SELECT oid FROM stranger)
AND (grantee = 0 OR pg_catalog.pg_has_role(login.oid, grantee, {_ACTING_AS}))
GROUP BY kind, schema, creator, grantee, rights
ORDER BY kind DESC, schema, creator, 4
"""
"""Kinds of objects on which strangers would get rights that change something, by ``ALTER DEFAULT PRIVILEGES`` of the session's user or of a role of which
that user is a member: the kind, the schema if it is said of one, who creates them, the role whose rights they are, the rights, the first stranger who has
that role, and how many they are."""

RIGHTS_OF_STRANGERS = f"""{_STRANGERS}, given (oid, grantee, rights) AS (
  SELECT pg_class.oid, grantee, pg_catalog.string_agg(privilege_type, ', ' ORDER BY privilege_type)
  FROM pg_catalog.pg_class, pg_catalog.aclexplode(relacl)
  WHERE pg_class.oid >= 16384 AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND {_CHANGES_SOMETHING} AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_depend WHERE classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND objid = pg_class.oid AND deptype = 'e')
  GROUP BY pg_class.oid, grantee
)
SELECT given.oid::pg_catalog.regclass::pg_catalog.text, rights, pg_catalog.min(rolname::pg_catalog.text)
FROM given
JOIN pg_catalog.pg_roles AS login ON rolcanlogin AND login.oid IN (SELECT oid FROM stranger)
AND (grantee = 0 OR pg_catalog.pg_has_role(login.oid, grantee, {_ACTING_AS}))
GROUP BY given.oid, rights
ORDER BY 1
"""
"""Tables, views and sequences of users on which strangers have rights that change something: its name, the rights, and the first of them."""

_EXTENSION = f"""WITH RECURSIVE {TRUSTED_ROLES}, extension AS MATERIALIZED (
  SELECT oid, extnamespace, extowner, extversion FROM pg_catalog.pg_extension WHERE extname = %(name)s
), member (classid, objid) AS (
  SELECT classid, objid FROM extension
  JOIN pg_catalog.pg_depend ON refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND refobjid = extension.oid AND deptype = 'e'
), part (called, owner, is_schema) AS (
  SELECT 'its schema ' || nspname, nspowner, true FROM extension JOIN pg_catalog.pg_namespace ON pg_namespace.oid = extnamespace
  UNION ALL SELECT 'it', extowner, false FROM extension
  UNION ALL SELECT 'its function ' || proname, proowner, false
  FROM member JOIN pg_catalog.pg_proc ON classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND objid = pg_proc.oid
  UNION ALL SELECT 'its view ' || relname, relowner, false
  FROM member JOIN pg_catalog.pg_class ON classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND objid = pg_class.oid
), objection (called, owner, is_schema) AS (
  SELECT called, owner, is_schema FROM part WHERE owner NOT IN (SELECT oid FROM trusted) ORDER BY called DESC LIMIT 1
)
SELECT pg_catalog.quote_ident(nspname), pg_catalog.string_to_array(extversion, '.')::int[],
  pg_catalog.has_schema_privilege(extnamespace, 'USAGE') AND pg_catalog.has_function_privilege(pg_proc.oid, 'EXECUTE'),
  coalesce(called, ''), coalesce(is_schema, false), coalesce(pg_catalog.pg_get_userbyid(coalesce(datdba, owner)), ''), datdba IS NOT NULL
FROM extension
LEFT JOIN objection ON true
LEFT JOIN pg_catalog.pg_database ON datname = pg_catalog.current_database() AND owner IN (SELECT oid FROM candidate WHERE same_as = datdba)
JOIN pg_catalog.pg_namespace ON pg_namespace.oid = extnamespace
JOIN pg_catalog.pg_proc ON pronamespace = extnamespace AND proname = %(function)s
JOIN member ON classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND objid = pg_proc.oid
"""


class Extension(NamedTuple):
    """An extension of a database, which has the function that was asked for."""

    schema: str
    """Of the extension and the function; quoted where SQL needs it, and not made visible."""
    version: list[int]
    """That which it was created with, or updated to: an upgrade of the server leaves it."""
    is_granted: bool
    """Whether the user may call the function."""
    untrusted: str
    """What of it belongs to a user who is not trusted, like ``its schema public``; empty if nothing does. Its functions are then not to be called."""
    is_schema_untrusted: bool
    """Whether that is its schema, so that it would be trusted in another one."""
    untrusted_owner: str
    """Who owns that; empty if nothing of it does."""
    is_of_database_owner: bool
    """Whether that is the owner of the database, whom a user with a reader's rights trusts."""


def find_extension(connection: Any, name: str, function: str) -> Extension | None:
    """Return the extension ``name`` if the database has it, with ``function`` in its schema; raises one of psycopg's errors.

    A function is called by the name of its schema, and whoever owns the schema can rename it between this look and the call, which no lock of a reader
    prevents, and have a function of his own in its place. So nothing of an extension is called unless all who own a part of it are trusted.
    """
    row = connection.execute(_EXTENSION, {"name": name, "function": function}).fetchone()
    if row is None:
        return None
    schema, *others = row
    return Extension(raw_of(schema), *others)
