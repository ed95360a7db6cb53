"""Adapter of external PostgreSQL servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL, Identifier, Literal

from stallbench.base.section import SettingValue
from stallbench.engines.adapter import OBJECTS_TABLE, DatabaseObject, InstalledQueue, ServerAdapter
from stallbench.engines.postgres.driver import Connection
from stallbench.engines.postgres.server import read_changed_settings, setting_text
from stallbench.engines.postgres.setting_values import normalize_setting
from stallbench.engines.postgres.trust import (
    OPEN_TRANSACTIONS_OF_STRANGERS,
    RIGHTS_BY_DEFAULT_OF_STRANGERS,
    RIGHTS_OF_STRANGERS,
    STRANGERS_WHO_MAY_CREATE,
)
from stallbench.errors import NotCarriedOutError
from stallbench.sql_names import write_quoted
from stallbench.visible_text import make_visible, raw_of
from stallbench.waiting import wait_until

_IN_FORCE_S = 5.0
_LOCKED_WITHIN = "10s"
"""How long another session's lock may delay a statement."""
_HARMLESS_EXTENSIONS = ("plpgsql", "pg_stat_statements")
"""Extensions that an empty database may have: they hold no data of a user, and the bench reads one of them."""

_OBJECTS = """
WITH catalogs (classid, objid) AS (
    SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, oid FROM pg_catalog.pg_class
    WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND NOT relispartition AND oid IS DISTINCT FROM pg_catalog.to_regclass(%(objects_table)s)
    UNION ALL SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass, oid FROM pg_catalog.pg_proc
    UNION ALL
    SELECT 'pg_catalog.pg_type'::pg_catalog.regclass, oid FROM pg_catalog.pg_type
    WHERE typtype IN ('e', 'd', 'r') OR typtype = 'b' AND typelem = 0
       OR typtype = 'c' AND EXISTS (SELECT FROM pg_catalog.pg_class WHERE pg_class.oid = typrelid AND relkind = 'c')
    UNION ALL SELECT 'pg_catalog.pg_namespace'::pg_catalog.regclass, oid FROM pg_catalog.pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'
      AND nspname <> 'public'
    UNION ALL SELECT 'pg_catalog.pg_extension'::pg_catalog.regclass, oid FROM pg_catalog.pg_extension WHERE extname <> ALL (%(harmless)s)
    UNION ALL SELECT 'pg_catalog.pg_foreign_data_wrapper'::pg_catalog.regclass, oid FROM pg_catalog.pg_foreign_data_wrapper
    UNION ALL SELECT 'pg_catalog.pg_foreign_server'::pg_catalog.regclass, oid FROM pg_catalog.pg_foreign_server
    UNION ALL SELECT 'pg_catalog.pg_event_trigger'::pg_catalog.regclass, oid FROM pg_catalog.pg_event_trigger
    UNION ALL SELECT 'pg_catalog.pg_trigger'::pg_catalog.regclass, oid FROM pg_catalog.pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT 'pg_catalog.pg_publication'::pg_catalog.regclass, oid FROM pg_catalog.pg_publication
    UNION ALL
    SELECT 'pg_catalog.pg_subscription'::pg_catalog.regclass, oid FROM pg_catalog.pg_subscription
      WHERE subdbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
    UNION ALL SELECT 'pg_catalog.pg_largeobject'::pg_catalog.regclass, oid FROM pg_catalog.pg_largeobject_metadata
    UNION ALL SELECT 'pg_catalog.pg_operator'::pg_catalog.regclass, oid FROM pg_catalog.pg_operator
    UNION ALL SELECT 'pg_catalog.pg_collation'::pg_catalog.regclass, oid FROM pg_catalog.pg_collation
    UNION ALL SELECT 'pg_catalog.pg_conversion'::pg_catalog.regclass, oid FROM pg_catalog.pg_conversion
    UNION ALL SELECT 'pg_catalog.pg_cast'::pg_catalog.regclass, oid FROM pg_catalog.pg_cast
    UNION ALL SELECT 'pg_catalog.pg_language'::pg_catalog.regclass, oid FROM pg_catalog.pg_language
    UNION ALL SELECT 'pg_catalog.pg_ts_config'::pg_catalog.regclass, oid FROM pg_catalog.pg_ts_config
    UNION ALL SELECT 'pg_catalog.pg_ts_dict'::pg_catalog.regclass, oid FROM pg_catalog.pg_ts_dict
    UNION ALL SELECT 'pg_catalog.pg_ts_parser'::pg_catalog.regclass, oid FROM pg_catalog.pg_ts_parser
    UNION ALL SELECT 'pg_catalog.pg_ts_template'::pg_catalog.regclass, oid FROM pg_catalog.pg_ts_template
)
SELECT pg_catalog.upper(pg_catalog.replace(type, 'foreign-data', 'foreign data')), identity
FROM catalogs, pg_catalog.pg_identify_object(classid, objid, 0) AS found (type, schema, name, identity)
WHERE objid >= 16384 AND NOT EXISTS (
    -- what an extension has brought, and what belongs to another object and ends with it
    SELECT FROM pg_catalog.pg_depend WHERE pg_depend.classid = catalogs.classid AND pg_depend.objid = catalogs.objid
      AND objsubid = 0 AND deptype IN ('a', 'e', 'i')
      AND NOT (catalogs.classid = 'pg_catalog.pg_trigger'::pg_catalog.regclass AND deptype = 'a')
)
"""
"""All that PostgreSQL itself did not create: its own objects have smaller numbers."""

_OWNERSHIP = """
SELECT relkind = 'r' AND pg_catalog.pg_get_userbyid(relowner) = current_user AND NOT relhastriggers AND NOT relhasrules AND NOT relrowsecurity
  AND NOT EXISTS (
    SELECT FROM pg_catalog.aclexplode(relacl) WHERE grantee <> relowner
    UNION ALL
    SELECT FROM pg_catalog.pg_attribute, pg_catalog.aclexplode(attacl) WHERE attrelid = pg_class.oid AND grantee <> relowner)
FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass(%s)
"""
_GRANTEES = """
SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(grantee)) END
FROM pg_catalog.pg_class, pg_catalog.aclexplode(relacl)
WHERE pg_class.oid = pg_catalog.to_regclass(%s) AND grantee <> relowner
"""
_OTHER_SESSIONS = """
SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity
WHERE datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid() AND backend_type = 'client backend'
"""


class PostgresAdapter(ServerAdapter):
    """Changes settings by ALTER SYSTEM and a reload."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute it where names and operators can be PostgreSQL's own only, so an object needs its schema.

        Raises `NotCarriedOutError` if it waits too long for a lock.
        """
        with self._locked_in_time(), self._without_foreign_names() as connection:
            cursor = connection.execute(statement, values or None)
            return list(cursor.fetchall()) if cursor.description else []

    @contextmanager
    def _locked_in_time(self) -> Iterator[None]:
        try:
            yield
        except psycopg.errors.LockNotAvailable as error:
            raise NotCarriedOutError(
                f"{self.name} waits for a lock that another session holds in database {self.endpoint.database}, for longer than {_LOCKED_WITHIN}; "
                "`stallbench observe` shows who holds it"
            ) from error

    @contextmanager
    def _without_foreign_names(self) -> Iterator[Connection]:
        """A transaction in which names without a schema are found in ``pg_catalog`` alone, and locks are not waited for without end.

        Nothing of that stays in the session of a pooler.
        """
        with self.connection.transaction():
            self.connection.execute(f"SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL lock_timeout = '{_LOCKED_WITHIN}'")
            yield self.connection

    def read_version(self) -> str:
        """Return the version that the server reports at connection."""
        return str(self.connection.info.parameter_status("server_version")).split(" ")[0]

    def read_settings(self) -> dict[str, str]:
        """Read them as for a private server."""
        with self._without_foreign_names() as connection:
            return read_changed_settings(connection)

    def require_role(self, role: str) -> None:
        """Check whether it is in recovery, and whether a replica receives WAL."""
        if role == "primary":
            if self.execute("SELECT pg_catalog.pg_is_in_recovery()") != [(False,)]:
                raise NotCarriedOutError(f"{self.name} is a replica: it accepts no writes; give the primary's address")
            return
        state = self.execute("SELECT pg_catalog.pg_is_in_recovery(), (SELECT status FROM pg_catalog.pg_stat_wal_receiver)")
        if state != [(True, "streaming")]:
            raise NotCarriedOutError(f"{self.name} does not stream from a primary")

    def find_differing(self, wanted: Mapping[str, SettingValue]) -> dict[str, tuple[str, str]]:
        """Compare what the server itself shows, in any unit."""
        differing: dict[str, tuple[str, str]] = {}
        units = dict(self.execute("SELECT name, unit FROM pg_catalog.pg_settings WHERE name = ANY(%s)", (list(wanted),)))
        for name, value in wanted.items():
            in_force, text, unit = self._show(name), setting_text(value), units.get(name)
            if normalize_setting(in_force, unit) != normalize_setting(text, unit):
                differing[name] = (in_force, text)
        return differing

    def change_setting(self, name: str, value: SettingValue) -> None:
        """Change it by ALTER SYSTEM, reload, and check that it needs no restart."""
        before, was_overridden = self._show(name), self.is_overridden(name)
        self._alter(SQL("ALTER SYSTEM SET {} = {}").format(Identifier(name), Literal(setting_text(value))), name)
        if self.execute("SELECT pending_restart FROM pg_catalog.pg_settings WHERE name = %s", (name,)) == [(True,)]:
            self.reset_setting(name, before, was_overridden=was_overridden)
            raise NotCarriedOutError(
                f"{self.name}: {name} = {setting_text(value)!r} needs a restart, and the bench does not restart external servers; "
                "start the server with it"
            )

    def is_overridden(self, name: str) -> bool:
        """Whether ALTER SYSTEM has set it."""
        rows = self.execute("SELECT sourcefile FROM pg_catalog.pg_settings WHERE name = %s", (name,))
        return bool(rows) and str(rows[0][0]).endswith("/postgresql.auto.conf")

    def reset_setting(self, name: str, before: str, *, was_overridden: bool) -> None:
        """Reset it, or set the owner's value again by ALTER SYSTEM."""
        if was_overridden:
            self._alter(SQL("ALTER SYSTEM SET {} = {}").format(Identifier(name), Literal(before)), name)
        else:
            self._alter(SQL("ALTER SYSTEM RESET {}").format(Identifier(name)), name)
        if (now := self._show(name)) != before:
            raise NotCarriedOutError(f"{self.name}: {name} was {before!r} before the run and is {now!r} now")

    def _show(self, name: str) -> str:
        return str(self.execute("SELECT pg_catalog.current_setting(%s, true)", (name,))[0][0])

    def _alter(self, statement: Any, name: str) -> None:
        try:
            before = self.connection.execute("SELECT pg_catalog.pg_conf_load_time()").fetchone()
            self.connection.execute(statement)
            self.connection.execute("SELECT pg_catalog.pg_reload_conf()")
            if not wait_until(
                lambda: self.connection.execute("SELECT pg_catalog.pg_conf_load_time()").fetchone() != before,
                within_s=_IN_FORCE_S,
                every_s=0.02,
            ):
                raise NotCarriedOutError(f"{self.name} did not reload its settings within {_IN_FORCE_S:.0f} s")
        except psycopg.Error as error:
            raise NotCarriedOutError(
                f"{self.name} does not let the bench change {name}: {self.driver.describe(error)}"
            ) from error

    def count_other_sessions(self) -> int:
        """Count client sessions; the server's own workers do not count."""
        return int(self.execute(_OTHER_SESSIONS)[0][0])

    @property
    def objects_table(self) -> str:
        """It is in the schema that each database has."""
        return f"public.{OBJECTS_TABLE}"

    def find_objects(self) -> set[DatabaseObject]:
        """Read them from the catalogue, in all schemas except PostgreSQL's own; without what belongs to extensions."""
        with self._locked_in_time(), self._without_foreign_names() as connection:
            return find_objects(connection)

    def require_no_other_creators(self) -> None:
        """Look who may create in the database or in its schema ``public``, or would have rights on what is created there.

        Also for transactions that may already have created something.
        """
        where = f"database {self.endpoint.database} on {self.name}"
        found, remedies = [], []
        for kind, name, role, is_owner, first, count in self.execute(STRANGERS_WHO_MAY_CREATE):
            place, shown = f"{kind} {write_quoted(name)}", write_quoted(role)
            more = f" and {count - 1} more" if count > 1 else ""
            found.append(
                f"{make_visible(first, in_one_line=True)}{more} may create in {place.partition(' ')[0].lower()} {write_quoted(name)}"
            )
            remedies.append(f"ALTER {place} OWNER TO CURRENT_USER;" if is_owner else f"REVOKE CREATE ON {place} FROM {shown};")
        if found:
            raise NotCarriedOutError(
                f"{where} is not the bench's alone: {', '.join(dict.fromkeys(found))}, and so could have the bench execute "
                f"what they write; as the owner or a superuser: {' '.join(remedies)}"
            )
        for kind, schema, creator, role, rights, first, count in self.execute(RIGHTS_BY_DEFAULT_OF_STRANGERS):
            more = f" and {count - 1} more" if count > 1 else ""
            found.append(
                f"{make_visible(first, in_one_line=True)}{more} would get {rights} on the {kind.lower()} that the bench creates"
            )
            in_schema = f" IN SCHEMA {write_quoted(schema)}" if schema else ""
            remedies.append(
                f"ALTER DEFAULT PRIVILEGES FOR ROLE {write_quoted(creator)}{in_schema} REVOKE ALL ON {kind} FROM {write_quoted(role)};"
            )
        if found:
            raise NotCarriedOutError(
                f"{where} is not the bench's alone: {', '.join(dict.fromkeys(found))}, and so could have the bench execute a trigger of theirs, "
                f"or change what is measured; as that role or a superuser, in this database: {' '.join(remedies)}"
            )
        for what, role, which in self.execute(OPEN_TRANSACTIONS_OF_STRANGERS):
            raise NotCarriedOutError(
                make_visible(
                    f"{where} has {what} of {role} ({which}), which began before the bench looked at who may create there, "
                    "and may have created something; wait until it has ended, or end it",
                    in_one_line=True,
                )
            )

    def has_objects_table(self) -> bool:
        """Whether it is an ordinary table of this user without triggers, on which nobody else has been granted anything.

        Whoever else could write into it would have the bench drop what it lists.
        """
        rows = self.execute(_OWNERSHIP, (self.objects_table,))
        if not rows:
            return False
        if rows != [(True,)]:
            raise NotCarriedOutError(
                f"{self.objects_table} in database {self.endpoint.database} on {self.name} is not the bench's list of what it created: it is no "
                f"plain table of user {self.endpoint.user}, or others may write into it; the bench uses an empty database only; create one for it and name that"
            )
        return True

    def begin_list(self) -> None:
        """Create it so that nobody else has rights on it, whatever is granted by default."""
        with self._locked_in_time(), self._without_foreign_names() as connection:
            connection.execute(f"CREATE TABLE {self.objects_table} (kind varchar(32) NOT NULL, name varchar(2000) NOT NULL)")
            for (role,) in connection.execute(_GRANTEES, (self.objects_table,)).fetchall():
                connection.execute(f"REVOKE ALL ON TABLE {self.objects_table} FROM {raw_of(role)}")

    def install(self, queue: InstalledQueue) -> None:
        """Raises `NotCarriedOutError` if others may change the tables that ``queue`` has created, or add a trigger to them."""
        super().install(queue)
        for name, rights, role in self.execute(RIGHTS_OF_STRANGERS):
            raise NotCarriedOutError(
                make_visible(
                    f"{role} has {rights} on {name} in database {self.endpoint.database} on {self.name}, which the bench has created, and so could "
                    f"have the bench execute a trigger, or change what is measured; default privileges or the queue's installation grant it: revoke it there",
                    in_one_line=True,
                )
            )

    def name_object(self, kind: str, name: str) -> DatabaseObject:
        """Add the schema ``public``, and quote where PostgreSQL does."""
        if kind == "SCHEMA":
            return DatabaseObject(kind, self._quote(name))
        schema, _, own = name.rpartition(".")
        return DatabaseObject(kind, f"{self._quote(schema or 'public')}.{self._quote(own)}")

    def drop(self, each: DatabaseObject) -> None:
        """Drop it by RESTRICT, which is also the default."""
        with self._without_foreign_names() as connection:
            connection.execute(f"{each.removal} RESTRICT" if each.removal.startswith("DROP") else each.removal)

    def explain(self, error: Exception) -> str:
        """Return the message with its detail, which names what needs an object."""
        detail = error.diag.message_detail if isinstance(error, psycopg.Error) else None
        return " ".join([super().explain(error), *(f"({make_visible(line)})" for line in (detail or "").splitlines())])

    def create_recorded(self, connection: Any, create: Callable[[], None]) -> None:
        """Let ``create`` work in one transaction of ``connection``; what it has created is recorded in the same transaction.

        What ``connection`` sees before its commit, and no other session does, is its own. If ``create`` cannot be in a transaction, it is called again
        without one, and nothing is recorded; as if it commits by itself.
        """
        connection.execute("BEGIN")
        try:
            create()
        except psycopg.Error:
            if connection.closed:
                raise
            connection.execute("ROLLBACK")
            create()
            return
        if connection.info.transaction_status != TransactionStatus.INTRANS:
            return
        connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
        before = self.find_objects()
        seen = find_objects(connection)
        insert = f"INSERT INTO {self.objects_table} (kind, name) VALUES (%s, %s)"
        for each in seen - before - self.find_objects():
            connection.execute(insert, (each.kind, each.name))
        connection.execute("COMMIT")

    def _quote(self, name: str) -> str:
        return str(self.execute("SELECT pg_catalog.quote_ident(%s)", (name,))[0][0])


def find_objects(connection: psycopg.Connection[Any]) -> set[DatabaseObject]:
    """Return what users created in the database, as ``connection`` sees it, also what its open transaction has created."""
    values = {"objects_table": f"public.{OBJECTS_TABLE}", "harmless": list(_HARMLESS_EXTENSIONS)}
    return {DatabaseObject(*row) for row in connection.execute(_OBJECTS, values).fetchall()}
