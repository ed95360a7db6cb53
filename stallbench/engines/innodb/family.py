"""What the bench knows of MariaDB and of MySQL alike."""

from __future__ import annotations

from contextlib import closing
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl

from stallbench.engines.engine import Engine, no_key
from stallbench.engines.innodb import error_codes as codes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from stallbench.engines.adapter import ServerAdapter
    from stallbench.engines.driver import Driver
    from stallbench.engines.replication import Replication
    from stallbench.engines.sessions import Sessions
    from stallbench.records.endpoint import Endpoint
    from stallbench.records.injections import Evidence


class InnoDBEngine(Engine):
    """An engine whose tables are InnoDB's."""

    family = "innodb"
    word_for_replica: ClassVar[str]
    """What its statements call a replica."""
    has_sql = True
    has_replicas = True
    has_sessions = True
    replaces_databases = True
    counts_deadlocks = True
    old_versions = "history_list_length"
    port = 3306
    needs_user = False
    time_limits = MappingProxyType({"innodb_lock_wait_timeout": 30})
    connection_limit = ("max_connections", 151)
    own_settings = MappingProxyType(
        {
            "port": "database.port",
            **no_key(
                "basedir",
                "bind_address",
                "datadir",
                "init_file",
                "log_error",
                "pid_file",
                "server_id",
                "skip_networking",
                "socket",
                "tmpdir",
                "user",
            ),
        }
    )
    error_codes = codes.CODES
    too_many_connections = codes.TOO_MANY_CONNECTIONS
    lost_code = "2013"
    lock_waits_ended = frozenset({codes.LOCK_TIMEOUT})

    def driver(self) -> Driver:
        """Return PyMySQL's."""
        from stallbench.engines.innodb.driver import DRIVER

        return DRIVER

    def adapter(self) -> type[ServerAdapter]:
        """Return how a server of others is joined."""
        from stallbench.engines.innodb.adapter import InnoDBAdapter

        return InnoDBAdapter

    def sessions(self) -> Sessions:
        """Return what finds and ends them."""
        from stallbench.engines.innodb.sessions import InnoDBSessions

        return InnoDBSessions()

    def read_parameters(self, where: str, query: str) -> dict[str, str]:
        """Return what they say about encryption."""
        from stallbench.engines.innodb.encryption import read_encryption

        read_encryption(where, query)
        return dict(parse_qsl(query, keep_blank_values=True))

    def list_versions(self, *, installs: bool) -> Iterator[str]:
        """Yield the first two numbers of each version."""
        from stallbench.setup.components import MissingComponentError
        from stallbench.setup.server_programs import find_servers, require_server

        try:
            if installs:
                require_server(self.name)
        except MissingComponentError:
            return
        yield from sorted({".".join(one.version.split(".")[:2]) for one in find_servers(self.name)})

    def count_statements_anew(self, endpoint: Endpoint) -> None:
        """Empty the table of counts."""
        from stallbench.engines.innodb.driver import DRIVER
        from stallbench.engines.sessions import query

        with closing(DRIVER.connect(endpoint, "session")) as connection:
            query(connection, "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest")

    def replication(self) -> Replication:
        """Return how a replica takes over by the binary log."""
        from stallbench.engines.innodb.replication import InnoDBReplication

        return InnoDBReplication(self.word_for_replica)

    def replace_database(self, former: Endpoint, name: str) -> Endpoint:
        """Drop it, and create another one."""
        from stallbench.engines.innodb.databases import replace_database

        return replace_database(former, name)

    def find_longrunner(
        self, servers: Mapping[str, Endpoint], on: str, name: str, evidence: Mapping[str, Any]
    ) -> Evidence | None:
        """Ask the server."""
        from stallbench.engines.innodb.longrunners import find_longrunner

        return find_longrunner(servers, on, name, evidence)

    def statement_to_end(self, kind: str, key: str) -> str:
        """Kill a session."""
        from stallbench.engines.innodb.ending import statement_to_kill

        return statement_to_kill(int(key)) if kind == "backend" else ""

    def collectors(self) -> ModuleType:
        """Return what reads their information schema and performance schema."""
        from stallbench.engines.innodb import collectors

        return collectors
