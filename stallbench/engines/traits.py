"""The engines that a queue can use, and what a scenario may request from each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Engine = Literal["postgres", "mariadb", "mysql", "sqlite", "redis", "beanstalkd", "aerospike"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTraits:
    """What is known about an engine before a server runs."""

    title: str
    """Its name as its vendor writes it."""
    has_server: bool = True
    """Whether clients reach it over a network; not so an engine that is a library in their processes."""
    has_sql: bool = False
    """Whether clients send it SQL."""
    has_replicas: bool = False
    counts_deadlocks: bool = False
    old_versions: Literal["dead_tuples", "history_list_length"] | None = None
    """The measure of the old row versions that it keeps as long as a transaction holds the horizon; none if it keeps none."""
    has_settings: bool = True
    belongs_to_user: bool = False
    """Whether the bench never starts a server of it: a run uses the user's, and removes its records from it."""
    connection_limit: tuple[str, int] | None = None
    """The setting that limits connections, and its default; none if a run cannot reach the limit."""
    own_settings: Mapping[str, str | None] = field(default_factory=dict)
    """Settings that only the bench may change, because it needs them to reach the server or read its log, and the scenario key to use instead, if any."""


def _without_key(*names: str) -> dict[str, str | None]:
    return dict.fromkeys(names)


_OWN_SETTINGS_OF_MYSQL = {
    "port": "database.port",
    **_without_key(
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

ENGINES: Mapping[Engine, EngineTraits] = {
    "postgres": EngineTraits(
        title="PostgreSQL",
        has_sql=True,
        has_replicas=True,
        counts_deadlocks=True,
        old_versions="dead_tuples",
        connection_limit=("max_connections", 100),
        own_settings={
            "port": "database.port",
            "hot_standby_feedback": "database.hot_standby_feedback",
            "primary_slot_name": "database.replication_slot",
            **_without_key(
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
        },
    ),
    "mariadb": EngineTraits(
        title="MariaDB",
        has_sql=True,
        has_replicas=True,
        counts_deadlocks=True,
        old_versions="history_list_length",
        connection_limit=("max_connections", 151),
        own_settings=_OWN_SETTINGS_OF_MYSQL,
    ),
    "mysql": EngineTraits(
        title="MySQL",
        has_sql=True,
        has_replicas=True,
        counts_deadlocks=True,
        old_versions="history_list_length",
        connection_limit=("max_connections", 151),
        own_settings=_OWN_SETTINGS_OF_MYSQL,
    ),
    "sqlite": EngineTraits(title="SQLite", has_server=False, has_sql=True, has_settings=False),
    "redis": EngineTraits(
        title="Redis",
        own_settings={
            "port": "database.port",
            **_without_key("bind", "daemonize", "dir", "logfile", "requirepass", "unixsocket"),
        },
    ),
    "beanstalkd": EngineTraits(title="Beanstalkd", has_settings=False),
    "aerospike": EngineTraits(title="Aerospike", has_settings=False, belongs_to_user=True),
}

SERVER_ENGINES: frozenset[Engine] = frozenset(name for name, traits in ENGINES.items() if traits.has_server)
"""Those of which there is a server, that can end and be cut off from its clients."""
