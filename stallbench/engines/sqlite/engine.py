"""SQLite, as the bench knows it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from stallbench.engines.engine import Engine
from stallbench.engines.error_kinds import ErrorKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from stallbench.engines.driver import Driver
    from stallbench.engines.starter import Starter
    from stallbench.records.endpoint import Endpoint
    from stallbench.records.injections import Evidence


class SQLite(Engine):
    """A library in the processes of its clients."""

    name = family = "sqlite"
    title = "SQLite"
    has_server = False
    has_sql = True
    has_settings = False
    error_codes = MappingProxyType({ErrorKind.LOCK_TIMEOUT: ("SQLITE_BUSY",), ErrorKind.DISK_FULL: ("SQLITE_FULL",)})

    def driver(self) -> Driver:
        """Return the standard library's."""
        from stallbench.engines.sqlite.driver import DRIVER

        return DRIVER

    def starter(self) -> type[Starter]:
        """Return how its file is created."""
        from stallbench.engines.sqlite.starter import SQLiteStarter

        return SQLiteStarter

    def find_longrunner(
        self, servers: Mapping[str, Endpoint], on: str, name: str, evidence: Mapping[str, Any]
    ) -> Evidence | None:
        """Ask the kernel for its lock."""
        from stallbench.engines.sqlite.longrunners import find_longrunner

        return find_longrunner(servers, on, name, evidence)

    def collectors(self) -> ModuleType:
        """Return what reads the sizes of its files."""
        from stallbench.engines.sqlite import collectors

        return collectors


ENGINE = SQLite()
