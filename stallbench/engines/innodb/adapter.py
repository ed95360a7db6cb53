"""Adapter of external MariaDB and MySQL servers."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pymysql

from stallbench.base.section import SettingValue
from stallbench.engines.adapter import OBJECTS_TABLE, DatabaseObject, ServerAdapter
from stallbench.engines.innodb.driver import read_replica_status
from stallbench.engines.innodb.server import read_changed_settings
from stallbench.engines.innodb.setting_values import global_value, normalize_setting
from stallbench.errors import NotCarriedOutError

_OBJECTS = """
SELECT CASE table_type WHEN 'VIEW' THEN 'VIEW' WHEN 'SEQUENCE' THEN 'SEQUENCE' ELSE 'TABLE' END, table_name FROM information_schema.tables
WHERE table_schema = database() AND table_name <> %s
UNION ALL
SELECT routine_type, routine_name FROM information_schema.routines WHERE routine_schema = database()
UNION ALL
SELECT 'EVENT', event_name FROM information_schema.events WHERE event_schema = database()
"""
"""A trigger always belongs to a table, and ends with it."""
_VIEWS_OF = """
SELECT table_schema, table_name FROM information_schema.views WHERE locate(concat('`', database(), '`.', %s), view_definition) > 0
"""
"""The servers write a view's definition with the names of its databases and tables, quoted."""
_PROOF_CHARS = hashlib.sha256().digest_size * 2
_DROP_WITHIN_S = 10
"""How long another session's lock may delay the removal of an object."""


class InnoDBAdapter(ServerAdapter):
    """Changes settings by SET GLOBAL, which lasts until the bench resets them or the server restarts."""

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute it."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, tuple(values) or None)
            return list(cursor.fetchall())

    def read_version(self) -> str:
        """Return it without the product's name."""
        return str(self.execute("SELECT version()")[0][0]).split("-")[0]

    def read_settings(self) -> dict[str, str]:
        """Read them as for a private server."""
        with self.connection.cursor() as cursor:
            return read_changed_settings(cursor)

    def require_role(self, role: str) -> None:
        """Check whether it is read only, and whether both replication threads run."""
        if role == "primary":
            if self.execute("SELECT @@global.read_only + 0") != [(0,)]:
                raise NotCarriedOutError(f"{self.name} is read only: it accepts no writes; give the primary's address")
            return
        with self.connection.cursor() as cursor:
            status = read_replica_status(cursor)
        if status.get("replica_io_running") != "Yes" or status.get("replica_sql_running") != "Yes":
            raise NotCarriedOutError(f"{self.name} does not follow a primary")

    def find_differing(self, wanted: Mapping[str, SettingValue]) -> dict[str, tuple[str, str]]:
        """Compare the global values; ON equals 1, and 1K equals 1024."""
        differing: dict[str, tuple[str, str]] = {}
        for name, value in wanted.items():
            in_force = self._read(name)
            if normalize_setting(in_force) != normalize_setting(value):
                differing[name] = (in_force, str(value))
        return differing

    def change_setting(self, name: str, value: SettingValue) -> None:
        """Set it for all new sessions."""
        try:
            self.execute(f"SET GLOBAL {name} = %s", (global_value(value),))
        except pymysql.Error as error:
            raise NotCarriedOutError(
                f"{self.name} does not let the bench set {name} = {value!r}: {self.driver.describe(error)}; start the server with it"
            ) from error

    def reset_setting(self, name: str, before: str, *, was_overridden: bool) -> None:
        """Set the former value."""
        value = int(before) if before.lstrip("-").isdigit() else before
        self.execute(f"SET GLOBAL {name} = %s", (value,))

    def count_other_sessions(self) -> int:
        """Count the sessions whose current database it is."""
        others = "SELECT count(*) FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
        return int(self.execute(others)[0][0])

    def find_objects(self) -> set[DatabaseObject]:
        """Read them from the information schema."""
        return {self.name_object(kind, name) for kind, name in self.execute(_OBJECTS, (OBJECTS_TABLE,))}

    def prepare_database(self) -> None:
        """Refuse a database with a list, of whatever run: only that run's own journal tells which of its entries are true."""
        if self.has_objects_table():
            raise NotCarriedOutError(
                f"database {self.endpoint.database} on {self.name} is not empty: it has {OBJECTS_TABLE}, the list of what a run of the bench "
                "created. The servers do not say who wrote it, so another run believes nothing in it. Wait until that run has ended, or if it was "
                "killed, run `stallbench clean` where it ran; otherwise remove what it lists, and the table, or use another database"
            )
        super().prepare_database()

    def begin_list(self) -> None:
        """Create the list with a column for the proof that an entry is the bench's."""
        self.execute(
            f"CREATE TABLE {OBJECTS_TABLE} (kind varchar(32) NOT NULL, name varchar(2000) NOT NULL, proof char({_PROOF_CHARS}) NOT NULL)"
        )

    def record(self, objects: Iterable[DatabaseObject]) -> None:
        """Add ``objects`` to the list, each with its proof."""
        for each in objects:
            values = (each.kind, each.name, self._prove(each))
            self.execute(f"INSERT INTO {OBJECTS_TABLE} (kind, name, proof) VALUES (%s, %s, %s)", values)

    def read_created_objects(self) -> set[DatabaseObject] | None:
        """Return the entries that have the proof; whoever may write to the table could have added others."""
        if not self.has_objects_table():
            return None
        rows = self.execute(f"SELECT kind, name, proof FROM {OBJECTS_TABLE}")
        listed = ((DatabaseObject(kind, name), proof) for kind, name, proof in rows)
        return {each for each, proof in listed if hmac.compare_digest(self._prove(each).encode(), str(proof).encode())}

    def _prove(self, each: DatabaseObject) -> str:
        """Return what only who has the key can write: it is nowhere in the database."""
        text = f"{each.kind} {each.name}".encode("utf-8", "surrogatepass")
        return hmac.new(self.list_key.encode(), text, hashlib.sha256).hexdigest()

    def has_objects_table(self) -> bool:
        """Look for it in the information schema, which knows no owner of a table."""
        there = "SELECT table_type FROM information_schema.tables WHERE table_schema = database() AND table_name = %s"
        rows = self.execute(there, (OBJECTS_TABLE,))
        if rows and rows != [("BASE TABLE",)]:
            raise NotCarriedOutError(
                f"{OBJECTS_TABLE} in database {self.endpoint.database} on {self.name} is not the bench's list of what it created: it is a "
                f"{str(rows[0][0]).lower()}; the bench uses an empty database only; create one for it and name that"
            )
        return bool(rows)

    def name_object(self, kind: str, name: str) -> DatabaseObject:
        """Quote the name."""
        return DatabaseObject(kind, "`" + name.replace("`", "``") + "`")

    def drop(self, each: DatabaseObject) -> None:
        """Drop it with regard to foreign keys and to views, of which the servers have no RESTRICT."""
        if each.kind == "TABLE" and (views := self.execute(_VIEWS_OF, (each.name,))):
            names = ", ".join(f"`{schema}`.`{name}`" for schema, name in views)
            raise pymysql.OperationalError(0, f"view {names} reads it")
        self.execute(f"SET lock_wait_timeout = {_DROP_WITHIN_S}")
        self.execute(each.removal)

    def _read(self, name: str) -> str:
        try:
            return str(self.execute(f"SELECT @@global.{name}")[0][0])
        except pymysql.Error as error:
            raise NotCarriedOutError(f"{self.name} does not know {name}: {self.driver.describe(error)}") from error
