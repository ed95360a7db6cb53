"""The bench's access to an external server: reads its state, changes settings if allowed, and restores them.

In an external database the bench creates the tables of the queue and what a fault needs, and only if the database was empty. As long as the bench uses
the database, the table `OBJECTS_TABLE` lists what the bench created there. So a later run recognises what a killed run left behind. Objects
that are not listed are never touched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from stallbench.engines import driver_of
from stallbench.errors import NotCarriedOutError
from stallbench.records.endpoint import Endpoint
from stallbench.scenario.section import SettingValue

OBJECTS_TABLE = "stallbench_objects"
"""The table that lists what the bench created in an external database."""
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class DatabaseObject:
    """A table, a function, or any other object of a database's catalogue."""

    kind: str
    """As ``DROP`` calls it: ``TABLE``, ``FUNCTION``, .."""
    name: str
    """Quoted as the engine requires."""


class ServerAdapter(ABC):
    """The bench's access to one external server; one subclass for each family of engines."""

    engines: ClassVar[frozenset[str]]

    def __init__(self, name: str, endpoint: Endpoint) -> None:
        """Connect; raises `NotCarriedOutError` if the server refuses."""
        self.name = name
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

    @abstractmethod
    def read_created_objects(self) -> set[DatabaseObject] | None:
        """Return what `OBJECTS_TABLE` lists; none if there is no such table."""

    @abstractmethod
    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a statement and return its rows; raises one of the driver's errors."""

    @abstractmethod
    def drop(self, objects: set[DatabaseObject]) -> None:
        """Drop ``objects``, in an order that their dependencies allow."""

    def prepare_database(self) -> None:
        """Remove what a killed run left behind, and create `OBJECTS_TABLE` in the empty database.

        Raises `NotCarriedOutError` if the database contains anything that the bench did not create, or another run uses it.
        """
        created = self.read_created_objects()
        if created is not None and (others := self.count_other_sessions()):
            raise NotCarriedOutError(
                f"database {self.endpoint.database} on {self.name} is in use by another run of the bench, or by its remains: "
                f"{others} sessions; wait until they have ended"
            )
        present = self.find_objects()
        if foreign := present - (created or set()):
            names = sorted(f"{each.kind.lower()} {each.name}" for each in foreign)
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            raise NotCarriedOutError(
                f"database {self.endpoint.database} on {self.name} is not empty: it has {', '.join(names[:_MOST_NAMED])}{more}. "
                "The bench uses an empty database only; create one for it and name that"
            )
        if created is None:
            self.begin_list()
        else:
            self.drop(present)
            self.execute(f"DELETE FROM {OBJECTS_TABLE}")

    def begin_list(self) -> None:
        """Create `OBJECTS_TABLE`, with nothing in it."""
        self.execute(f"CREATE TABLE {OBJECTS_TABLE} (kind varchar(32) NOT NULL, name varchar(512) NOT NULL)")

    def record_created_objects(self) -> None:
        """List in `OBJECTS_TABLE` all that is in the database now."""
        self.record(self.find_objects())

    def record(self, objects: Iterable[DatabaseObject]) -> None:
        """Add ``objects`` to the list, which are there or are about to be created."""
        for each in objects:
            self.execute(f"INSERT INTO {OBJECTS_TABLE} (kind, name) VALUES (%s, %s)", (each.kind, each.name))

    def empty_database(self) -> None:
        """Drop what `OBJECTS_TABLE` lists, and then that table; everything else stays."""
        created = self.read_created_objects()
        if created is not None:
            self.drop(created & self.find_objects())
            self.execute(f"DROP TABLE {OBJECTS_TABLE}")
