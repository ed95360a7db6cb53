"""Adapter of external PostgreSQL servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from stallbench.errors import NotCarriedOutError
from stallbench.external.adapter import OBJECTS_TABLE, DatabaseObject, ServerAdapter
from stallbench.external.setting_values import normalize_postgres
from stallbench.scenario.section import SettingValue
from stallbench.servers.postgres import read_changed_settings, setting_text
from stallbench.waiting import wait_until

_IN_FORCE_S = 5.0
_DROP_ORDER = ("TABLE", "VIEW", "SEQUENCE", "ROUTINE", "TYPE", "SCHEMA")
"""The order in which objects are dropped. CASCADE also drops what depends on each."""

_OBJECTS = """
WITH schemas AS (
    SELECT oid, nspname FROM pg_catalog.pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
), of_extensions AS (
    SELECT objid FROM pg_catalog.pg_depend WHERE deptype = 'e'
)
SELECT CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, pg_catalog.format('%%I.%%I', nspname, relname)
FROM pg_catalog.pg_class JOIN schemas ON schemas.oid = relnamespace
WHERE relkind IN ('r', 'p', 'v', 'S') AND NOT relispartition AND pg_class.oid NOT IN (SELECT objid FROM of_extensions)
  AND NOT (nspname = 'public' AND relname = %(objects_table)s)
  AND NOT (relkind = 'S' AND EXISTS (SELECT FROM pg_catalog.pg_depend WHERE objid = pg_class.oid AND deptype IN ('a', 'i')))
UNION ALL
SELECT 'ROUTINE', pg_proc.oid::pg_catalog.regprocedure::pg_catalog.text
FROM pg_catalog.pg_proc JOIN schemas ON schemas.oid = pronamespace WHERE pg_proc.oid NOT IN (SELECT objid FROM of_extensions)
UNION ALL
SELECT 'TYPE', pg_catalog.format('%%I.%%I', nspname, typname)
FROM pg_catalog.pg_type JOIN schemas ON schemas.oid = typnamespace
WHERE pg_type.oid NOT IN (SELECT objid FROM of_extensions)
  AND (typtype IN ('e', 'd') OR typtype = 'c' AND EXISTS (SELECT FROM pg_catalog.pg_class WHERE pg_class.oid = typrelid AND relkind = 'c'))
UNION ALL
SELECT 'SCHEMA', pg_catalog.format('%%I', nspname) FROM schemas
WHERE nspname <> 'public' AND oid NOT IN (SELECT objid FROM of_extensions)
"""
_OTHER_SESSIONS = """
SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity
WHERE datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid() AND backend_type = 'client backend'
"""


class PostgresAdapter(ServerAdapter):
    """Changes settings by ALTER SYSTEM and a reload."""

    engines = frozenset({"postgres"})

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute it."""
        cursor = self.connection.execute(statement, values or None)
        return list(cursor.fetchall()) if cursor.description else []

    def read_version(self) -> str:
        """Return the version that the server reports at connection."""
        return str(self.connection.info.parameter_status("server_version")).split(" ")[0]

    def read_settings(self) -> dict[str, str]:
        """Read them as for a private server."""
        return read_changed_settings(self.connection)

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
            if normalize_postgres(in_force, unit) != normalize_postgres(text, unit):
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

    def find_objects(self) -> set[DatabaseObject]:
        """Read them from the catalogue, in all schemas except PostgreSQL's own; without what belongs to extensions."""
        return {DatabaseObject(*row) for row in self.connection.execute(_OBJECTS, {"objects_table": OBJECTS_TABLE}).fetchall()}

    def read_created_objects(self) -> set[DatabaseObject] | None:
        """Read them from the schema ``public``."""
        if self.execute("SELECT pg_catalog.to_regclass(%s)", (f"public.{OBJECTS_TABLE}",)) == [(None,)]:
            return None
        return {DatabaseObject(*row) for row in self.execute(f"SELECT kind, name FROM public.{OBJECTS_TABLE}")}

    def drop(self, objects: set[DatabaseObject]) -> None:
        """Drop each with what depends on it."""
        for each in sorted(objects, key=lambda each: _DROP_ORDER.index(each.kind)):
            self.execute(f"DROP {each.kind} IF EXISTS {each.name} CASCADE")
