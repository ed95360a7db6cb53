"""What the bench does on a server that it joined: looks, borrows, and leaves everything as it was.

On a database that it joined the bench makes the queue's tables and nothing else, and only where there was nothing before. A table of
its own says so from the first moment to the last: what a killed run has left is known by it, and what somebody else has put there
is not touched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from stallbench.engines import driver_of
from stallbench.errors import NotCarriedOutError
from stallbench.records.endpoint import Endpoint
from stallbench.scenario.section import SettingValue

MARK = "stallbench_objects"
"""The table that names what the bench has made in a database that is not its own."""
_NAMED = 5


@dataclass(frozen=True, slots=True)
class DatabaseObject:
    """A table, a function, or whatever else stands in a database's catalogue."""

    kind: str
    """In the words of ``DROP``: ``TABLE``, ``FUNCTION``, .."""
    name: str
    """Quoted as the engine wants it."""


class ServerAdapter(ABC):
    """The bench on one server of an engine."""

    engines: ClassVar[frozenset[str]]

    def __init__(self, name: str, endpoint: Endpoint) -> None:
        """Connect; raises `NotCarriedOutError` if the server does not let the bench in."""
        self.name = name
        self.endpoint = endpoint
        self.driver = driver_of(endpoint.engine)
        try:
            self.connection = self.driver.connect(endpoint, "guest")
        except self.driver.errors as error:
            where = f"{endpoint.user}@{endpoint.host}:{endpoint.port}/{endpoint.database}"
            raise NotCarriedOutError(f"{name} at {where} does not let the bench in: {self.driver.describe(error)}") from error

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
        """Raise `NotCarriedOutError` unless the server takes writes (``primary``) or follows one that does (``replica``)."""

    @abstractmethod
    def find_differing(self, wanted: Mapping[str, SettingValue]) -> dict[str, tuple[str, str]]:
        """Return which settings are not as ``wanted``: name, then what is in force and what is wanted, as the server writes both."""

    @abstractmethod
    def change_setting(self, name: str, value: SettingValue) -> None:
        """Put a setting into force for everybody on the server; raises `NotCarriedOutError` if that takes a restart."""

    def is_overridden(self, name: str) -> bool:
        """Whether its owner has put a setting where `change_setting` would put another, which undoing must not take away."""
        return False

    @abstractmethod
    def reset_setting(self, name: str, before: str, *, was_overridden: bool) -> None:
        """Undo `change_setting`: ``before`` and ``was_overridden`` are what was in force and what `is_overridden` said before it.

        Raises `NotCarriedOutError`, or one of the driver's errors, if the server does not have it as it was.
        """

    @abstractmethod
    def count_others(self) -> int:
        """Return how many other sessions there are in the database."""

    @abstractmethod
    def find_objects(self) -> set[DatabaseObject]:
        """Return all that users have made in the database, but for the mark."""

    @abstractmethod
    def read_created_objects(self) -> set[DatabaseObject] | None:
        """Return what the mark names; none if there is no mark."""

    @abstractmethod
    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a statement and return its rows; raises one of the driver's errors."""

    @abstractmethod
    def drop(self, objects: set[DatabaseObject]) -> None:
        """Drop what is named, in an order in which that can be done."""

    def adapt(self) -> None:
        """Put the mark into an empty database, after what a killed run has left was removed.

        Raises `NotCarriedOutError` if there is anything that the bench has not made.
        """
        left = self.read_created_objects()
        if left is not None and (others := self.count_others()):
            raise NotCarriedOutError(
                f"database {self.endpoint.database} on {self.name} is in use by another run of the bench, or by what one has left: "
                f"{others} sessions; wait until they are gone"
            )
        there = self.find_objects()
        if foreign := there - (left or set()):
            names = sorted(f"{made.kind.lower()} {made.name}" for made in foreign)
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            raise NotCarriedOutError(
                f"database {self.endpoint.database} on {self.name} is not empty: it has {', '.join(names[:_NAMED])}{more}. The bench "
                "moves into an empty database only; create one for it and name that"
            )
        if left is None:
            self.execute(f"CREATE TABLE {MARK} (kind varchar(32) NOT NULL, name varchar(512) NOT NULL)")
        else:
            self.drop(there)
            self.execute(f"DELETE FROM {MARK}")

    def record_created_objects(self) -> None:
        """Write into the mark all that is there now."""
        for made in self.find_objects():
            self.execute(f"INSERT INTO {MARK} (kind, name) VALUES (%s, %s)", (made.kind, made.name))

    def revert(self) -> None:
        """Drop what the mark names, and the mark; what is not named there stays."""
        named = self.read_created_objects()
        if named is not None:
            self.drop(named & self.find_objects())
            self.execute(f"DROP TABLE {MARK}")
