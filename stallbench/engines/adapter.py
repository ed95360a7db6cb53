"""The bench's access to an external server: reads its state, changes settings if allowed, and restores them.

In an external database the bench creates the tables of the queue and what a fault needs, and only if the database was empty. As long as the bench uses
the database, the table `OBJECTS_TABLE` lists what the bench is known to have created there, see `ServerAdapter.create_recorded`. So a later run
recognises what a killed run left behind. Objects that are not listed are never touched.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Protocol

from stallbench.base.section import SettingValue
from stallbench.engines import driver_of
from stallbench.errors import NotCarriedOutError
from stallbench.records.endpoint import Endpoint
from stallbench.sql_names import NO_SQL, write_quoted
from stallbench.visible_text import make_visible

OBJECTS_TABLE = "stallbench_objects"
"""The table that lists what the bench created in an external database."""
_MOST_NAMED = 5
_LARGE_OBJECT = "LARGE OBJECT"


@dataclass(frozen=True, slots=True)
class DatabaseObject:
    """A table, a function, or any other object of a database's catalogue."""

    kind: str
    """As ``DROP`` calls it: ``TABLE``, ``FUNCTION``, .."""
    name: str
    """With its schema, if the engine has schemas, and quoted as the engine requires."""

    @property
    def shown_name(self) -> str:
        """Its name for readers: of PostgreSQL still that of the same object in SQL, else with what it hides made visible."""
        return make_visible(write_quoted(self.name), in_one_line=True)

    def __str__(self) -> str:
        """Return it as a part of a sentence."""
        return f"{self.kind.lower()} {self.shown_name}"

    def fits(self, patterns: Iterable[str]) -> bool:
        """Whether one of ``patterns`` names it, or a schema in which it is; see `Queue.creates`."""
        name = self.name.replace('"', "").replace("`", "").removeprefix("public.")
        schema = f"schema {name.partition('.')[0]}"
        return any(pattern == schema or fnmatchcase(f"{self.kind.lower()} {name}", pattern) for pattern in patterns)

    @property
    def removal(self) -> str:
        """The statement that removes it, unless something else needs it."""
        return self._write_removal(self.name)

    @property
    def shown_removal(self) -> str:
        """The same for readers, who copy it."""
        shown = self._write_removal(self.shown_name)
        return f"{shown} ({NO_SQL})" if self.shown_name != write_quoted(self.name) else shown

    def _write_removal(self, name: str) -> str:
        if self.kind == _LARGE_OBJECT:
            return f"SELECT pg_catalog.lo_unlink({name})"
        return f"DROP {self.kind} {name}"


class InstalledQueue(Protocol):
    """What an adapter asks of a `stallbench.queues.Queue` that creates its tables."""

    @property
    def connection(self) -> Any:
        """As of `stallbench.queues.Queue`, like the others."""

    @property
    def tables(self) -> Sequence[str]:
        """The names of its tables."""

    @property
    def creates(self) -> Sequence[str]:
        """Patterns of what else is its own."""

    def install(self) -> None:
        """Create its tables."""

    def worker_command(self) -> object:
        """Return none if it is no library."""


class ServerAdapter(ABC):
    """The bench's access to one external server; one subclass for each family of engines."""

    def __init__(self, name: str, endpoint: Endpoint, list_key: str = "") -> None:
        """Connect; raises `NotCarriedOutError` if the server refuses. ``list_key``: of the list that the run has begun; without it, of a new one."""
        self.name = name
        self.list_key = list_key or secrets.token_hex(32)
        """A secret of the run, by which it knows its own entries in `OBJECTS_TABLE` if the server cannot say who wrote them."""
        self.endpoint = endpoint
        self.driver = driver_of(endpoint.engine)
        try:
            self.connection = self.driver.connect(endpoint, "adapter")
        except self.driver.errors as error:
            address = f"{endpoint.user}@{endpoint.host}:{endpoint.port}/{endpoint.database}"
            raise NotCarriedOutError(f"{name} at {address} refuses the connection: {self.driver.describe(error)}") from error

    def close(self) -> None:
        """Close the connection."""
        self.driver.close(self.connection)

    @abstractmethod
    def read_version(self) -> str:
        """Return the server's version."""

    @abstractmethod
    def read_settings(self) -> dict[str, str]:
        """Return the settings in force that are not default, without secrets."""

    @abstractmethod
    def require_role(self, role: str) -> None:
        """Raise `NotCarriedOutError` unless the server accepts writes (``primary``) or follows a primary (``replica``)."""

    @abstractmethod
    def find_differing(self, wanted: Mapping[str, SettingValue]) -> dict[str, tuple[str, str]]:
        """Return the settings that differ from ``wanted``: by name the value in force and the wanted one, as the server writes both."""

    @abstractmethod
    def change_setting(self, name: str, value: SettingValue) -> None:
        """Change a setting for the whole server; raises `NotCarriedOutError` if that needs a restart."""

    def is_overridden(self, name: str) -> bool:
        """Whether the owner has set it where `change_setting` sets it, so that a plain reset would lose the owner's value."""
        return False

    @abstractmethod
    def reset_setting(self, name: str, before: str, *, was_overridden: bool) -> None:
        """Undo `change_setting`. ``before`` and ``was_overridden``: the value and the result of `is_overridden` before the change.

        Raises `NotCarriedOutError`, or one of the driver's errors, if the server does not have the former value afterwards.
        """

    @abstractmethod
    def count_other_sessions(self) -> int:
        """Return how many other sessions there are in the database."""

    @abstractmethod
    def find_objects(self) -> set[DatabaseObject]:
        """Return all that users created in the database, except `OBJECTS_TABLE`."""

    @property
    def objects_table(self) -> str:
        """`OBJECTS_TABLE`, as it is written in a statement."""
        return OBJECTS_TABLE

    @abstractmethod
    def has_objects_table(self) -> bool:
        """Whether there is `OBJECTS_TABLE`; raises `NotCarriedOutError` if something else has that name, or the table belongs to another user."""

    def read_created_objects(self) -> set[DatabaseObject] | None:
        """Return what `OBJECTS_TABLE` lists; none if there is no such table."""
        if not self.has_objects_table():
            return None
        return {DatabaseObject(*row) for row in self.execute(f"SELECT kind, name FROM {self.objects_table}")}

    @abstractmethod
    def name_object(self, kind: str, name: str) -> DatabaseObject:
        """Return what `find_objects` returns for an object of ``kind`` whose ``name`` is written without quotes, with or without a schema."""

    @abstractmethod
    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a statement and return its rows; raises one of the driver's errors."""

    @abstractmethod
    def drop(self, each: DatabaseObject) -> None:
        """Drop an object; raises one of the driver's errors if another one needs it. Nothing else is dropped with it."""

    def explain(self, error: Exception) -> str:
        """Return, as a part of a sentence, why an object could not be dropped."""
        return self.driver.describe(error)

    def create_recorded(self, connection: Any, create: Callable[[], None]) -> None:
        """Call ``create``, which creates objects by ``connection``, and record them if the engine can tell what that connection has created."""
        create()

    def install(self, queue: InstalledQueue) -> None:
        """Let ``queue`` create its tables in this database, and record what is known to be its own."""
        if queue.worker_command() is None:  # else it is a library's, whose own process creates them
            self.create_recorded(queue.connection, queue.install)
        else:
            queue.install()
        self.record_declared(queue.tables, queue.creates)

    def record_declared(self, tables: Iterable[str], patterns: Iterable[str]) -> None:
        """Record what is there of ``tables`` and of ``patterns``, see `Queue.creates`. The database was empty before; so these are new."""
        declared = {self.name_object("TABLE", table) for table in tables}
        patterns = tuple(patterns)
        found = {each for each in self.find_objects() if each in declared or each.fits(patterns)}
        self.record(found - (self.read_created_objects() or set()))

    def require_no_other_creators(self) -> None:  # noqa: B027 - not every engine executes what others have created
        """Raise `NotCarriedOutError` if others may create objects where the bench would take them for its own."""

    def prepare_database(self) -> None:
        """Remove what a killed run left behind, and create `OBJECTS_TABLE` in the empty database.

        Raises `NotCarriedOutError` if the database contains anything that the bench did not create, others may create something there, or another
        run uses it.
        """
        self.require_no_other_creators()
        created = self.read_created_objects()
        if created is not None and (others := self.count_other_sessions()):
            raise NotCarriedOutError(
                f"database {self.endpoint.database} on {self.name} is in use by another run of the bench, or by its remains: "
                f"{others} sessions; wait until they have ended"
            )
        present = self.find_objects()
        if foreign := present - (created or set()):
            names = sorted(str(each) for each in foreign)
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            raise NotCarriedOutError(
                f"database {self.endpoint.database} on {self.name} is not empty: it has {', '.join(names[:_MOST_NAMED])}{more}. "
                "The bench uses an empty database only; create one for it and name that"
            )
        if created is None:
            self.begin_list()
        elif left := self.empty_database():
            raise NotCarriedOutError("; ".join(left))
        else:
            self.begin_list()

    def begin_list(self) -> None:
        """Create `OBJECTS_TABLE`, with nothing in it."""
        self.execute(f"CREATE TABLE {self.objects_table} (kind varchar(32) NOT NULL, name varchar(2000) NOT NULL)")

    def record(self, objects: Iterable[DatabaseObject]) -> None:
        """Add ``objects`` to the list, which are there or are about to be created."""
        for each in objects:
            self.execute(f"INSERT INTO {self.objects_table} (kind, name) VALUES (%s, %s)", (each.kind, each.name))

    def empty_database(self) -> list[str]:
        """Drop what `OBJECTS_TABLE` lists, and then that table; everything else stays.

        Returns a sentence for each object that cannot be dropped, because something that the bench did not create needs it. The table then still
        lists these.
        """
        created = self.read_created_objects()
        if created is None:
            return []
        left, refusals = created & self.find_objects(), dict[DatabaseObject, str]()
        while left:
            refusals = self._drop_what_can_be(left)
            if len(refusals) == len(left):
                break  # what is left needs each other, or something else needs it
            left = set(refusals) & self.find_objects()  # a partition, or what belongs to a table, ends with it
        for gone in created - left:
            self.execute(f"DELETE FROM {self.objects_table} WHERE kind = %s AND name = %s", (gone.kind, gone.name))
        if not left:
            self.execute(f"DROP TABLE {self.objects_table}")
        return [
            f"{each} is still in database {self.endpoint.database} on {self.name}: {refusals[each]}; when nothing needs it any more, "
            f"`stallbench clean` removes it, and so does {each.shown_removal}"
            for each in sorted(left, key=str)
        ]

    def describe_others(self) -> list[str]:
        """Return a sentence for each object of which `OBJECTS_TABLE` does not say that the bench created it; they stay."""
        return [
            f"{each} is in database {self.endpoint.database} on {self.name}, and was not there before the run; it stays, because the bench has "
            f"no record of having created it; if nobody needs it, remove it by {each.shown_removal}"
            for each in sorted(self.find_objects() - (self.read_created_objects() or set()), key=str)
        ]

    def _drop_what_can_be(self, objects: set[DatabaseObject]) -> dict[DatabaseObject, str]:
        """Drop ``objects`` one by one; returns why, for those that cannot be dropped now."""
        refusals = {}
        for each in sorted(objects, key=str):
            try:
                self.drop(each)
            except self.driver.errors as error:
                refusals[each] = self.explain(error)
        return refusals
