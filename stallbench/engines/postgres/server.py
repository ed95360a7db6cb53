"""A private PostgreSQL server: own data folder, own port on loopback, own password, removed at the end of the run."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from stallbench.base.ports import LOOPBACK, start_on_port
from stallbench.base.section import SettingValue
from stallbench.engines.postgres.driver import Connection, connect
from stallbench.engines.postgres.small_disk import SmallDisk
from stallbench.engines.private_mount import PrivateMount
from stallbench.engines.starter import ServerProcess, wait_until_answering
from stallbench.errors import NotCarriedOutError
from stallbench.processes.process import Process
from stallbench.processes.supervisor import Supervisor
from stallbench.records.endpoint import Endpoint
from stallbench.setup.components import PostgresPrograms

USER = "stallbench"
DATABASE = "stallbench"
_DEATH_SIGNAL = signal.SIGQUIT
_SMALL_TABLESPACE = "small"
_NOT_RECORDED = re.compile("password|conninfo|director|_file$")
"""Settings that are not recorded: secrets, and paths in the run's scratch folder."""

BENCH_SETTINGS: Mapping[str, SettingValue] = {
    "listen_addresses": LOOPBACK,
    "log_line_prefix": "%m [%p] %q%a ",
    "lc_messages": "C",
    "log_autovacuum_min_duration": 0,
    "log_lock_waits": "on",
}
"""Where the server listens and what it logs. None of them changes how a queue behaves: durability, memory and vacuum have
PostgreSQL's own defaults unless the scenario sets them."""
_DYNAMIC_SHARED_MEMORY = re.compile(r"/dev/shm/PostgreSQL\.\d+")  # noqa: S108 - what the server makes
_STATEMENTS = "pg_stat_statements"
_PRELOADED = "shared_preload_libraries"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresInstallation:
    """The programs of PostgreSQL, and the user that runs them."""

    programs: PostgresPrograms
    user: str | None
    """Unprivileged user that servers run as; none if the bench is not root."""
    disk: PrivateMount | None = None
    """A disk that only the servers see, if any."""

    def run(self, program: str, *arguments: str, text: str = "") -> None:
        """Run one of PostgreSQL's programs to its end, with ``text`` on its standard input; raises `NotCarriedOutError` with what it printed
        if it fails.
        """
        owner: dict[str, Any] = {"user": self.user, "group": _group_of(self.user), "extra_groups": []} if self.user else {}
        argv = [str(self.programs.bin_dir / program), *arguments]
        if self.disk:
            argv, owner = self.disk.enter(argv, signal.SIGKILL), {}
        ended = subprocess.run(
            argv,
            cwd="/",
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
            input=text,
            capture_output=True,
            text=True,
            check=False,
            **owner,
        )
        if ended.returncode != 0:
            raise NotCarriedOutError(f"{program} failed: {(ended.stderr or ended.stdout).strip()}")

    def own(self, path: Path, mode: int) -> Path:
        """Make ``path`` belong to the user that servers run as."""
        if self.user:
            shutil.chown(path, self.user, _group_of(self.user))
        path.chmod(mode)
        return path


def _group_of(user: str) -> str:
    import grp
    import pwd

    return grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name


class PostgresServer(ServerProcess):
    """One server on an existing data folder."""

    start_s = 30.0

    def __init__(
        self,
        name: str,
        installation: PostgresInstallation,
        data: Path,
        password: SecretStr,
        *,
        processes: Supervisor,
        logs: Path,
        settings: Mapping[str, SettingValue],
        port: int | None,
    ) -> None:
        """Start nothing yet. ``data``: its data folder. ``port``: a free one if none."""
        self.name = name
        self.disk = installation.disk
        self._installation = installation
        self._data = data
        self._password = password
        self._processes = processes
        self._logs = logs
        preloaded = {_PRELOADED: _STATEMENTS} if installation.programs.counts_statements else {}
        self._settings = {**BENCH_SETTINGS, **preloaded, **settings}
        self._fixed_port = port
        self.port = port or 0
        self.settings_in_force: dict[str, str] = {}
        self.version = ""

    @property
    def endpoint(self) -> Endpoint:
        """Its own address, past the proxy."""
        return Endpoint(engine="postgres", host=LOOPBACK, port=self.port, database=DATABASE, user=USER, password=self._password)

    @property
    def log(self) -> Path:
        """Its text log."""
        return self._logs / f"{self.name}.log"

    def start(self, first_database: str | None = None) -> None:
        """Start it and wait until it answers; raises `NotCarriedOutError` with the end of its log if it does not.

        ``first_database``: the database to connect to while `DATABASE` does not exist yet.
        """
        endpoint_of = {"database": first_database or DATABASE}

        def start_on(port: int) -> None:
            self.port = port
            self.process = self.launch()
            wait_until_answering(self.name, self.process, self.endpoint.model_copy(update=endpoint_of), self.start_s)

        start_on_port(self._fixed_port, start_on)
        self._read_facts(endpoint_of)

    def kill(self) -> None:
        """Kill the postmaster and all its children, which lead process groups of their own."""
        import psutil

        if self.process is None:
            return
        self.process.signal(signal.SIGSTOP)  # so that it starts no other child and does not stop any
        try:
            children = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            children = []
        memory = find_dynamic_shared_memory([self.process.pid, *(child.pid for child in children)])
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        self.process.kill()
        # Only a server that is started again on the same data would remove them, and it does not look for those that are gone.
        for segment in memory:
            with suppress(PermissionError):  # in a container not even root may remove another user's
                segment.unlink(missing_ok=True)

    def launch(self) -> Process:
        """Start the postmaster on its port."""
        sockets = self._installation.own(_make(self._data.parent / f"{self.name}-socket"), 0o700)
        settings = {**self._settings, "port": self.port, "unix_socket_directories": str(sockets)}
        arguments = [part for key, value in settings.items() for part in ("-c", f"{key}={setting_text(value)}")]
        argv = [str(self._installation.programs.bin_dir / "postgres"), "-D", str(self._data), *arguments]
        return self._processes.start(
            self.name,
            "server",
            self.disk.enter(argv, _DEATH_SIGNAL) if self.disk else argv,
            log=self.log,
            user=None if self.disk else self._installation.user,
            environment={"LC_ALL": "C.UTF-8"},
            stop_signal=signal.SIGINT,
            death_signal=_DEATH_SIGNAL,
        )

    def _read_facts(self, endpoint_of: Mapping[str, str]) -> None:
        with connect(self.endpoint.model_copy(update=endpoint_of), "start") as connection:
            self.version = str(connection.info.parameter_status("server_version")).split(" ")[0]
            self.settings_in_force = read_changed_settings(connection)


def read_changed_settings(connection: Connection) -> dict[str, str]:
    """Return the settings in force that are not default, without secrets."""
    rows = connection.execute(
        "SELECT name, pg_catalog.current_setting(name) FROM pg_catalog.pg_settings WHERE source NOT IN ('default', 'client', 'override') ORDER BY name"
    ).fetchall()
    return {name: value for name, value in rows if not _NOT_RECORDED.search(name)}


def find_dynamic_shared_memory(pids: Iterable[int]) -> set[Path]:
    """Return the files of the dynamic shared memory that processes of PostgreSQL use; the kernel keeps them when all of these are dead."""
    found = set()
    for pid in pids:
        with suppress(OSError):  # it has ended, or may not be read
            found |= set(_DYNAMIC_SHARED_MEMORY.findall(Path(f"/proc/{pid}/maps").read_text()))
    return {Path(path) for path in found}


def create_database(endpoint: Endpoint) -> None:
    """Create `DATABASE` on a new server."""
    with connect(endpoint.model_copy(update={"database": "postgres"}), "start") as connection:
        connection.execute(f'CREATE DATABASE "{DATABASE}"')


def count_statements(endpoint: Endpoint) -> None:
    """Let the collector `statements` read how often each statement runs and how long it takes, if the server counts that."""
    with connect(endpoint, "start") as connection:
        row = connection.execute(f"SELECT pg_catalog.current_setting('{_PRELOADED}')").fetchone()
        if row and _STATEMENTS in row[0]:
            connection.execute(f"CREATE EXTENSION IF NOT EXISTS {_STATEMENTS}")


def count_statements_anew(endpoint: Endpoint) -> None:
    """Count statements as `count_statements` does, and forget those of the runs before; write all data, so that the next run begins without any to write."""
    count_statements(endpoint)
    with connect(endpoint, "session") as connection:
        if connection.execute(f"SELECT FROM pg_extension WHERE extname = '{_STATEMENTS}'").fetchall():
            connection.execute("SELECT pg_stat_statements_reset()")
        connection.execute("CHECKPOINT")


def keep_tables_on(disk: SmallDisk, endpoint: Endpoint) -> None:
    """Store every table and index that is created in `DATABASE` from now on, on ``disk``."""
    with connect(endpoint, "start") as connection:
        connection.execute(f"CREATE TABLESPACE {_SMALL_TABLESPACE} LOCATION '{disk.path}'")
        connection.execute(f'ALTER DATABASE "{DATABASE}" SET default_tablespace = {_SMALL_TABLESPACE}')


def _make(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def setting_text(value: SettingValue) -> str:
    """Return a setting's value as PostgreSQL writes it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
