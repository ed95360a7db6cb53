"""Clusters that tests use one after the other: servers stay up for the next test that needs the same ones, if a test leaves them as they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from stallbench.engines import driver_of
from stallbench.engines.database import Database
from stallbench.engines.postgres.server import read_changed_settings
from stallbench.errors import NotCarriedOutError
from stallbench.records.endpoint import Endpoint
from tests.integration.engines import empty_postgres
from tests.integration.running_cluster import StartedCluster, running_cluster

_MOST_IDLE = 4
_GRACE_S = 10.0
_STATE = {
    "postgres": (
        "SELECT rolname, rolconnlimit, rolconfig FROM pg_roles WHERE rolname !~ '^pg_'",
        "SELECT datname, datconnlimit FROM pg_database",
        "SELECT slot_name FROM pg_replication_slots",
        "SELECT gid FROM pg_prepared_xacts",
        "SELECT setdatabase, setrole, setconfig FROM pg_db_role_setting",
    ),
    "mariadb": (
        "SELECT user, host FROM mysql.global_priv",
        "SHOW DATABASES",
        "SHOW GLOBAL VARIABLES WHERE variable_name NOT REGEXP 'gtid|^timestamp$|^in_transaction$|^rand_seed|^pseudo'",
    ),
}
"""What a test could change of a server and leave so, in queries; settings of PostgreSQL come on top."""


@dataclass(slots=True)
class _Idle:
    started: StartedCluster
    stack: ExitStack
    state: object


@dataclass(slots=True)
class SharedClusters:
    """The clusters that no test uses just now. Engines that start in no time, replicas, poolers and disks of their own are not shared."""

    _idle: dict[str, _Idle] = field(default_factory=dict)

    @contextmanager
    def lend(self, database: Database, logs: Path, second_engine: str | None) -> Iterator[StartedCluster]:
        """Yield a cluster with an empty database: one that another test has left as it was, or else a new one. One that is not shared logs to ``logs``."""
        key = database.model_dump_json()
        special = database.small_disk or database.volatile_cache or database.pooler
        if database.engine not in _STATE or database.replicas or special or second_engine:
            with running_cluster(database, logs, second_engine) as started:
                yield started
            return
        found = self._idle.pop(key, None) or _start(database)
        with ExitStack() as stack:
            stack.callback(found.stack.close)  # unless the test leaves it as it was
            yield found.started
            if _is_as_it_was(found):
                stack.pop_all()
                self._keep(key, found)

    def close(self) -> None:
        """Take all of them down."""
        while self._idle:
            self._idle.popitem()[1].stack.close()

    def _keep(self, key: str, cluster: _Idle) -> None:
        if key in self._idle or len(self._idle) >= _MOST_IDLE:
            self._idle.pop(key if key in self._idle else next(iter(self._idle))).stack.close()
        self._idle[key] = cluster


CLUSTERS = SharedClusters()
"""Those of this process."""


def _start(database: Database) -> _Idle:
    """Start a cluster whose logs outlive the folder of the test that needed it first: pytest removes that when the test has passed."""
    stack = ExitStack()
    logs = stack.enter_context(TemporaryDirectory(prefix="logs-of-shared-servers-"))
    started = stack.enter_context(running_cluster(database, Path(logs)))
    return _Idle(started, stack, _read_state(started))


def _is_as_it_was(cluster: _Idle) -> bool:
    """Take away what a test leaves on purpose, its processes and its tables; returns whether all else is as it was."""
    started = cluster.started
    _stop_clients(started)
    errors: tuple[type[Exception], ...] = (NotCarriedOutError, *driver_of(started.cluster.servers[0].direct.engine).errors)
    try:
        started.cluster.check()
        _empty(started.cluster.server("primary").direct)
        return _read_state(started) == cluster.state
    except errors:
        return False


def _stop_clients(started: StartedCluster) -> None:
    """Stop all but the servers, and forget all that have ended."""
    processes = started.processes
    processes.stop([one for one in processes._all if one.role not in ("server", "toxiproxy")], _GRACE_S)
    processes._all[:] = [one for one in processes._all if one.poll() is None]


def _read_state(started: StartedCluster) -> object:
    """Return what must be the same before and after a test: the processes, the proxies, and what `_STATE` finds."""
    toxiproxy = started.cluster.toxiproxy
    primary = started.cluster.server("primary")
    proxy = (toxiproxy.is_enabled("primary"), toxiproxy.upstream("primary"), toxiproxy.toxics("primary"))
    pids = sorted(one.pid for one in started.processes._all)
    driver = driver_of(primary.direct.engine)
    settings: Mapping[str, str] = {}
    found = []
    with driver.connect(primary.direct, "fixture") as connection:
        if primary.direct.engine == "postgres":
            settings = read_changed_settings(connection)
        with connection.cursor() as cursor:
            for query in _STATE[primary.direct.engine]:
                cursor.execute(query)
                found.append(sorted(map(repr, cursor.fetchall())))
    return (list(started.cluster.servers), pids, proxy, settings, found)


def _empty(endpoint: Endpoint) -> None:
    """Leave nothing in its database."""
    if endpoint.engine == "postgres":
        empty_postgres(endpoint)
        return
    with driver_of(endpoint.engine).connect(endpoint, "fixture") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT default_character_set_name FROM information_schema.schemata WHERE schema_name = DATABASE()")
        ((characters,),) = cursor.fetchall()
        cursor.execute(f"DROP DATABASE {endpoint.database}")
        cursor.execute(f"CREATE DATABASE {endpoint.database} CHARACTER SET {characters}")
