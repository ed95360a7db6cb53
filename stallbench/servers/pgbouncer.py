"""A private pgbouncer in front of a PostgreSQL of the run: own port on loopback, own folder, removed at the end of the run."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from stallbench.base.ports import LOOPBACK, find_free_port
from stallbench.engines.starter import wait_until_answering
from stallbench.errors import NotCarriedOutError
from stallbench.processes.supervisor import Supervisor
from stallbench.records.endpoint import Endpoint
from stallbench.setup.server_programs import require_server, unprivileged_user

_START_S = 20.0
_STOP_S = 5.0
_ADMIN = "pgbouncer"

_CONFIGURATION = """
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = {listen}
listen_port = {listen_port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
admin_users = {user}
pool_mode = {mode}
default_pool_size = {pool_size}
max_client_conn = 1000
ignore_startup_parameters = extra_float_digits
"""


class Pgbouncer:
    """One pgbouncer, and its folder with the configuration and the passwords."""

    def __init__(
        self, name: str, server: Endpoint, *, mode: str, pool_size: int, processes: Supervisor, logs: Path, scratch: Path
    ) -> None:
        """Start it in front of ``server`` and wait until a client can connect; raises `NotCarriedOutError` if none can in time."""
        program = require_server("pgbouncer")
        self._name = name
        self.version = program.version
        self.description = f"pgbouncer {program.version}: {mode} mode, at most {pool_size} connections to the server"
        self._folder = folder = scratch / name
        folder.mkdir(mode=0o700)
        self.endpoint = server.model_copy(update={"host": LOOPBACK, "port": find_free_port()})
        password = server.password.get_secret_value()
        users, configuration = folder / "users", folder / "pgbouncer.ini"
        users.touch(mode=0o600)
        users.write_text(f'"{server.user}" "{password}"\n')
        configuration.write_text(
            _CONFIGURATION.format(
                host=server.host,
                port=server.port,
                listen=LOOPBACK,
                listen_port=self.endpoint.port,
                users=users,
                user=server.user,
                mode=mode,
                pool_size=pool_size,
            )
        )
        user = unprivileged_user()  # it refuses root
        if user is not None:
            for path in (folder, users, configuration):
                shutil.chown(path, user)
        self.process = processes.start(
            name,
            "server",
            [str(program.path), str(configuration)],
            log=logs / f"{name}.log",
            user=user,
            environment=program.environment,
            stop_signal=signal.SIGINT,  # at SIGTERM it stops at once, with an exit code that is not 0
        )
        try:
            wait_until_answering(name, self.process, self.endpoint, _START_S)
        except NotCarriedOutError:
            self.stop()
            raise

    def check(self) -> None:
        """Raise `NotCarriedOutError` if it has ended."""
        if self.process.poll() is not None:
            raise NotCarriedOutError(f"{self._name} {self.process.describe_end()}{self.process.tail_log()}")

    def pools(self) -> list[dict[str, Any]]:
        """Return its own figures about its pools (``SHOW POOLS``): clients and server connections by state."""
        with (
            psycopg.connect(
                host=self.endpoint.host,
                port=self.endpoint.port,
                dbname=_ADMIN,
                user=self.endpoint.user,
                password=self.endpoint.password.get_secret_value(),
                autocommit=True,
            ) as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            return [row for row in cursor.execute("SHOW POOLS").fetchall() if row["database"] != _ADMIN]

    def stop(self) -> None:
        """Stop it, which closes its clients' connections, and remove its folder."""
        self.process.stop(_STOP_S)
        shutil.rmtree(self._folder)
