"""What the bench knows of an engine: one subclass of `Engine` in the file ``engine.py`` of its folder, and what that leads to.

What can be told without a connection is a field. What needs the engine's client library, its programs or many statements is behind a method, which
imports it when it is called: a worker on one engine does not load the libraries of the others, and a scenario is read without any of them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from stallbench.engines.deadlocks.style import DeadlockStyle
from stallbench.engines.error_kinds import ErrorKind

if TYPE_CHECKING:
    from types import ModuleType

    from stallbench.base.section import SettingValue
    from stallbench.engines.adapter import ServerAdapter
    from stallbench.engines.database import Database
    from stallbench.engines.driver import Driver
    from stallbench.engines.replication import Replication
    from stallbench.engines.sessions import Sessions
    from stallbench.engines.starter import Starter
    from stallbench.records.endpoint import Endpoint
    from stallbench.records.injections import Evidence

DatabaseKey = Literal[
    "version",
    "packaged",
    "replication_slot",
    "hot_standby_feedback",
    "synchronous",
    "pooler",
    "small_disk",
    "xids_left",
    "volatile_cache",
]
"""A key of the section ``[database]`` that not every engine has."""


class Engine(ABC):
    """One engine."""

    name: ClassVar[str]
    """As scenarios and queues name it: the name of its folder."""
    title: ClassVar[str]
    """Its name as its vendor writes it."""
    is_default: ClassVar[bool] = False
    """Whether a scenario that names no engine runs on it; so of one engine only."""
    family: ClassVar[str]
    """What it has in common with other engines: the names of their tables, their statements. Its own name if it has nothing in common with another."""
    has_server: ClassVar[bool] = True
    """Whether clients reach it over a network; not so an engine that is a library in their processes."""
    has_sql: ClassVar[bool] = False
    """Whether clients send it SQL."""
    has_replicas: ClassVar[bool] = False
    counts_deadlocks: ClassVar[bool] = False
    old_versions: ClassVar[Literal["dead_tuples", "history_list_length"] | None] = None
    """The measure of the old row versions that it keeps as long as a transaction holds the horizon; none if it keeps none."""
    has_sessions: ClassVar[bool] = False
    """Whether the server knows the sessions of its clients, and can end one: see `sessions`."""
    replaces_databases: ClassVar[bool] = False
    """Whether `replace_database` works. If not, an empty database is a server that was started again, so this must be quick."""
    has_settings: ClassVar[bool] = True
    database_keys: ClassVar[frozenset[DatabaseKey]] = frozenset()
    """What else the section ``[database]`` may ask of it."""
    belongs_to_user: ClassVar[bool] = False
    """Whether the bench never starts a server of it: a run uses the user's, and removes its records from it."""
    schemes: ClassVar[tuple[str, ...]] = ()
    """The schemes of the addresses of its servers, the usual one first; none if servers of others can be neither joined nor observed."""
    port: ClassVar[int] = 0
    """Of an address that names none."""
    needs_user: ClassVar[bool] = True
    """Whether an address must name a user. If not, each process of a run logs in with its own name, as on a server of the bench's."""
    release_numbers: ClassVar[int] = 2
    """How many numbers of a version name a series of releases: 10.11 of 10.11.6."""
    time_limits: ClassVar[Mapping[str, str | int]] = MappingProxyType({})
    """Settings without which a statement that waits for another session of the same process would wait for ever."""
    deadlock_style: ClassVar[DeadlockStyle] = DeadlockStyle()
    """How its reports of deadlocks are read."""
    connection_limit: ClassVar[tuple[str, int] | None] = None
    """The setting that limits connections, and its default; none if a run cannot reach the limit."""
    own_settings: ClassVar[Mapping[str, str | None]] = MappingProxyType({})
    """Settings that only the bench may change, because it needs them to reach the server or read its log, and the scenario key to use instead, if any."""
    error_codes: ClassVar[Mapping[ErrorKind, Collection[str]]] = MappingProxyType({})
    """What its errors say: `Driver.code` of each that says something about the server or the session."""
    too_many_connections: ClassVar[frozenset[str]] = frozenset()
    """Those of `error_codes` by which it refuses a connection because there are too many."""
    lost_code: ClassVar[str] = ""
    """That of a connection that is lost before the answer; empty if such an error has no code."""
    has_advisory_locks: ClassVar[bool] = False
    lock_waits_ended: ClassVar[frozenset[str]] = frozenset()
    """Those by which it ends the wait for a lock that took longer than the session allows; not those of other timeouts."""

    @abstractmethod
    def driver(self) -> Driver:
        """Return how to connect to it."""

    @abstractmethod
    def starter(self) -> type[Starter]:
        """Return how its servers are started."""

    def adapter(self) -> type[ServerAdapter] | None:
        """Return how a run joins a server that the bench did not start; none if it cannot."""
        return None

    def sessions(self) -> Sessions:
        """Return how the sessions of its clients are found and ended; raises `NotImplementedError` without `has_sessions`."""
        raise NotImplementedError(f"{self.title} has no sessions")

    def read_parameters(self, where: str, query: str) -> dict[str, str]:
        """Return what an address says after ``?`` about the connection. ``where``: of the address, for errors.

        Raises `BadInputError`; `NotImplementedError` without `schemes`.
        """
        raise NotImplementedError(f"{self.title} has no addresses")

    def find_version_issue(self, version: str) -> str | None:
        """Return what is wrong with the key ``version`` of the section ``[database]``: what follows the path of the value; none if nothing is."""
        if re.fullmatch(r"[1-9]\d?(\.\d{1,2})?", version):
            return None
        return f' is {version}; expected a version of {self.title}, like "10.11" or "9"'

    def settings_of_replicas(self, database: Database) -> Mapping[str, SettingValue]:
        """Return the settings that the keys of the section ``[database]`` ask of replicas that the bench did not start."""
        return {}

    def list_versions(self, *, installs: bool) -> Iterator[str]:
        """Yield the series of releases of which there are programs on this machine; those of the key ``version`` only.

        ``installs``: whether a program is installed if there is none, to see its version.
        """
        yield from ()

    def list_packaged_versions(self) -> Collection[str]:
        """Return those that the bench has packages of its own for: see ``packaged`` of the section ``[database]``."""
        return ()

    def count_statements_anew(self, endpoint: Endpoint) -> None:  # noqa: B027 - not every engine counts statements
        """Let a server that is kept for several runs count statements, and forget those of the runs before."""

    def replication(self) -> Replication:
        """Return how a replica takes over; raises `NotImplementedError` without `has_replicas`."""
        raise NotImplementedError(f"{self.title} has no replicas")

    def replace_database(self, former: Endpoint, name: str) -> Endpoint:
        """Drop a database with all that is in it, and return an empty one, of another ``name`` if the engine has names of databases.

        Raises one of the driver's errors; `NotImplementedError` without `replaces_databases`.
        """
        raise NotImplementedError(f"{self.title} cannot replace a database")

    def find_longrunner(
        self, servers: Mapping[str, Endpoint], on: str, name: str, evidence: Mapping[str, Any]
    ) -> Evidence | None:
        """Return what the servers report about longrunner ``name`` on server ``on``; none if they do not name it.

        ``servers``: by name, ``primary`` is the current one. ``evidence``: what the longrunner reported when it began to hold. Of the result,
        ``holds_primary`` says whether it holds back the primary's vacuum or purge. Raises one of the driver's errors.
        """
        return None

    def statement_to_end(self, kind: str, key: str) -> str:
        """Return the statement that ends a holder of the horizon; empty if the bench knows none.

        ``kind``: ``backend``, ``prepared``, ``slot`` or ``replica``. ``key``: its process id, global id or name.
        """
        return ""

    def collectors(self) -> ModuleType | None:
        """Return the package of the collectors that sample it; none if only the host and the queue are sampled."""
        return None


def no_key(*settings: str) -> dict[str, str | None]:
    """Return `Engine.own_settings` for settings that no key of a scenario replaces."""
    return dict.fromkeys(settings)
