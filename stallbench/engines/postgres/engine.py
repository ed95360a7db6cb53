"""PostgreSQL, as the bench knows it."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from stallbench.engines.engine import Engine, no_key
from stallbench.engines.postgres import error_codes as codes
from stallbench.engines.postgres.deadlock_style import STYLE
from stallbench.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
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


OLDEST = 14
"""The oldest major version that the bench supports."""


class Postgres(Engine):
    """Servers from version 14 on."""

    name = family = "postgres"
    title = "PostgreSQL"
    is_default = True
    has_sql = True
    has_replicas = True
    has_sessions = True
    replaces_databases = True
    counts_deadlocks = True
    old_versions = "dead_tuples"
    database_keys = frozenset(
        {
            "version",
            "packaged",
            "replication_slot",
            "hot_standby_feedback",
            "synchronous",
            "pooler",
            "small_disk",
            "xids_left",
            "volatile_cache",
        }
    )
    schemes = ("postgresql", "postgres")
    port = 5432
    release_numbers = 1
    time_limits = MappingProxyType({"lock_timeout": "30s", "statement_timeout": "60s"})
    deadlock_style = STYLE
    connection_limit = ("max_connections", 100)
    own_settings = MappingProxyType(
        {
            "port": "database.port",
            "hot_standby_feedback": "database.hot_standby_feedback",
            "primary_slot_name": "database.replication_slot",
            **no_key(
                "cluster_name",
                "config_file",
                "data_directory",
                "external_pid_file",
                "hba_file",
                "ident_file",
                "lc_messages",
                "listen_addresses",
                "log_autovacuum_min_duration",
                "log_destination",
                "log_line_prefix",
                "logging_collector",
                "primary_conninfo",
                "unix_socket_directories",
            ),
        }
    )
    error_codes = codes.CODES
    too_many_connections = frozenset({codes.TOO_MANY_CONNECTIONS})
    lost_code = "08006"
    has_advisory_locks = True
    lock_waits_ended = frozenset({codes.LOCK_TIMEOUT})

    def driver(self) -> Driver:
        """Return psycopg's."""
        from stallbench.engines.postgres.driver import DRIVER

        return DRIVER

    def starter(self) -> type[Starter]:
        """Return how its programs are started."""
        from stallbench.engines.postgres.starter import PostgresStarter

        return PostgresStarter

    def adapter(self) -> type[ServerAdapter]:
        """Return how a server of others is joined."""
        from stallbench.engines.postgres.adapter import PostgresAdapter

        return PostgresAdapter

    def sessions(self) -> Sessions:
        """Return what finds and ends them."""
        from stallbench.engines.postgres.sessions import PostgresSessions

        return PostgresSessions()

    def read_parameters(self, where: str, query: str) -> dict[str, str]:
        """Return libpq's."""
        from stallbench.engines.postgres.libpq import read_parameters

        given = parse_qsl(query, keep_blank_values=True)
        if len(dict(given)) < len(given):
            raise BadInputError(f"{where}: a parameter is given twice")
        return read_parameters(where, dict(given))

    def find_version_issue(self, version: str) -> str | None:
        """Accept major versions."""
        if re.fullmatch(r"[1-9]\d?", version) and int(version) >= OLDEST:
            return None
        return f" is {version}; expected a major version of PostgreSQL from {OLDEST} on, like 17"

    def settings_of_replicas(self, database: Database) -> Mapping[str, SettingValue]:
        """Return what decides whether they report their oldest snapshot."""
        return {"hot_standby_feedback": database.hot_standby_feedback}

    def list_versions(self, *, installs: bool) -> Iterator[str]:
        """Yield the major versions."""
        from stallbench.setup.postgres_packages import list_majors

        yield from map(str, list_majors())

    def list_packaged_versions(self) -> Collection[str]:
        """Return the major versions."""
        from stallbench.setup.postgres_packages import list_packaged_majors

        return [str(major) for major in list_packaged_majors()]

    def count_statements_anew(self, endpoint: Endpoint) -> None:
        """Create the extension that counts, and reset its counts."""
        from stallbench.engines.postgres.server import count_statements_anew

        count_statements_anew(endpoint)

    def replication(self) -> Replication:
        """Return how a replica is promoted."""
        from stallbench.engines.postgres.replication import PostgresReplication

        return PostgresReplication()

    def replace_database(self, former: Endpoint, name: str) -> Endpoint:
        """Drop it, and create another one."""
        from stallbench.engines.postgres.databases import replace_database

        return replace_database(former, name)

    def find_longrunner(
        self, servers: Mapping[str, Endpoint], on: str, name: str, evidence: Mapping[str, Any]
    ) -> Evidence | None:
        """Ask the server."""
        from stallbench.engines.postgres.longrunners import find_longrunner

        return find_longrunner(servers, on, name, evidence)

    def statement_to_end(self, kind: str, key: str) -> str:
        """End a session, a prepared transaction or a slot."""
        from stallbench.engines.postgres.ending import statement_to_end

        return statement_to_end(kind, key)

    def collectors(self) -> ModuleType:
        """Return what reads its views."""
        from stallbench.engines.postgres import collectors

        return collectors


ENGINE = Postgres()
