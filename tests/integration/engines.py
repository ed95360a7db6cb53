"""One private server of each engine for all tests, started when the first test asks for it, and an empty database on it for each test."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import psutil
import pytest
from psycopg.sql import SQL, Identifier
from pydantic import SecretStr

from stallbench.base.section import SettingValue
from stallbench.engines import ENGINES, EngineName, driver_of
from stallbench.engines.database import Database
from stallbench.engines.starter import ServerControl, StartContext
from stallbench.processes.process import Process
from stallbench.processes.reaper import SCRATCH_PREFIX, start_reaper
from stallbench.processes.supervisor import Supervisor
from stallbench.queues import find_queues
from stallbench.records.endpoint import Endpoint
from stallbench.setup.components import MissingComponentError

_FAST_INNODB: Mapping[str, SettingValue] = {
    "innodb_flush_log_at_trx_commit": 0,
    "innodb_buffer_pool_size": "32M",
    "innodb_lock_wait_timeout": 60,
}
FAST: Mapping[EngineName, Mapping[str, SettingValue]] = {
    "postgres": {"fsync": False, "autovacuum": False},
    "mariadb": _FAST_INNODB,
    "mysql": _FAST_INNODB,
    "redis": {"save": ""},
}
"""Settings that need little disk and memory. The time limit for locks is long, so that none is reached on a slow machine."""


def empty_postgres(endpoint: Endpoint) -> None:
    """End all other sessions of a server, and empty a database. A new database takes a quarter of a second, a new schema none."""
    with driver_of("postgres").connect(endpoint, "fixture") as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        for (schema,) in connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
        ).fetchall():
            connection.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(schema)))
        connection.execute("CREATE SCHEMA public")


class PrivateServers:
    """Servers without a proxy before them. Made by `private_servers`, which also takes them down."""

    def __init__(self, token: str, scratch: Path, logs: Path) -> None:
        """Begin with none; processes are marked with ``token``."""
        self.token = token
        self.processes = Supervisor(token, scratch=scratch)
        self._scratch = scratch
        self._logs = logs
        self._shared: dict[EngineName, ServerControl] = {}
        self._missing: dict[EngineName, str] = {}

    def shared(self, engine: EngineName) -> ServerControl:
        """Return the server that all tests have in common; skips the test if the machine has no such program."""
        if engine in self._missing:
            pytest.skip(self._missing[engine])
        if engine not in self._shared:
            try:
                self._shared[engine] = self.start(engine, FAST.get(engine, {}))
            except MissingComponentError as error:
                self._missing[engine] = str(error)
                pytest.skip(str(error))
        return self._shared[engine]

    def start(self, engine: EngineName, settings: Mapping[str, SettingValue]) -> ServerControl:
        """Start another server; raises `MissingComponentError` if the machine has no such program."""
        name = f"{engine}-{secrets.token_hex(4)}"
        context = StartContext(
            scratch=self._scratch / name,
            logs=self._logs / name,
            processes=self.processes,
            password=SecretStr(secrets.token_urlsafe(18)),
        )
        context.scratch.mkdir()
        context.logs.mkdir()
        return ENGINES[engine].starter()(context, Database(engine=engine, settings=dict(settings))).primary()

    def kill(self, process: Process) -> Callable[[], Process]:
        """Kill a server as a crash would; returns what starts it again, by the command that it was started with."""
        running = psutil.Process(process.pid)
        # What a server does on its first start only is in a file that is gone by now.
        argv = [argument for argument in running.cmdline() if not argument.startswith("--init-file")]
        environment = running.environ()
        process.kill()
        return lambda: self.processes.start(process.name, "server", argv, log=process.log, environment=environment)

    def empty(self, engine: EngineName) -> AbstractContextManager[Endpoint]:
        """Return a context with an empty database for a queue on the engine."""
        if engine == "postgres":
            return self._emptied_postgres()
        if engine in ("mariadb", "mysql"):
            return self._empty_database(engine)
        if engine == "redis":
            return self._emptied_redis()
        return self._server_of_its_own(engine)

    @contextmanager
    def _emptied_postgres(self) -> Iterator[Endpoint]:
        endpoint = self.shared("postgres").endpoint
        empty_postgres(endpoint)
        yield endpoint

    @contextmanager
    def _empty_database(self, engine: EngineName) -> Iterator[Endpoint]:
        endpoint = self.shared(engine).endpoint
        name = f"test_{secrets.token_hex(4)}"
        with driver_of(engine).connect(endpoint, "fixture") as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
            yield endpoint.model_copy(update={"database": name})
            cursor.execute(f"DROP DATABASE {name}")

    @contextmanager
    def _emptied_redis(self) -> Iterator[Endpoint]:
        endpoint = self.shared("redis").endpoint
        client = driver_of("redis").connect(endpoint, "fixture")
        client.flushdb()
        client.close()
        yield endpoint

    @contextmanager
    def _server_of_its_own(self, engine: EngineName) -> Iterator[Endpoint]:
        """For what starts in no time, and cannot be emptied as quickly: Beanstalkd, SQLite."""
        try:
            server = self.start(engine, {})
        except MissingComponentError as error:
            pytest.skip(str(error))
        yield server.endpoint
        server.stop()
        if engine == "aerospike":  # a run's cleanup journal does this
            with closing(driver_of(engine).connect(server.endpoint, "fixture")) as connection:
                for kind, queue in find_queues().items():
                    if engine in queue.engines:
                        connection.empty(kind)


@contextmanager
def private_servers(logs: Path) -> Iterator[PrivateServers]:
    """Take down whatever was started inside, also when the test process is killed."""
    token = secrets.token_hex(8)
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
    scratch.chmod(0o711)  # PostgreSQL's own user has to get to its folder
    with start_reaper(token, record=logs / "run.json", scratch=scratch):
        servers = PrivateServers(token, scratch, logs)
        try:
            yield servers
        finally:
            servers.processes.stop_all()
