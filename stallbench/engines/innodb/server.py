"""What private servers of MariaDB and MySQL share: own data folder, own port on loopback, own password, removed at the end of the run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from stallbench.base.ports import LOOPBACK, start_on_port
from stallbench.base.section import SettingValue
from stallbench.engines import driver_of
from stallbench.engines.innodb.driver import ANY_USER
from stallbench.engines.starter import ServerProcess, StartContext, wait_until_answering
from stallbench.engines.volatile_disk import VolatileDisk
from stallbench.errors import NotCarriedOutError
from stallbench.processes.process import Process
from stallbench.records.endpoint import Endpoint
from stallbench.setup.server_programs import ServerProgram

DATABASE = "stallbench"
_BOOTSTRAP_S = 120.0
_NOT_RECORDED = re.compile("password|dir$|_file$|socket|plugin_load|hostname|report_")
"""Settings that are not recorded: secrets, and paths in the run's scratch folder."""
# The tables that name the source of each setting. Neither product has the other's table.
_CHANGED_SETTINGS = {
    ("information_schema", "SYSTEM_VARIABLES"): (
        "SELECT variable_name, global_value FROM information_schema.system_variables "
        "WHERE global_value_origin NOT IN ('COMPILE-TIME', 'AUTO') AND global_value IS NOT NULL ORDER BY variable_name"
    ),
    ("performance_schema", "variables_info"): (
        "SELECT variable_name, variable_value FROM performance_schema.variables_info "
        "JOIN performance_schema.global_variables USING (variable_name) "
        "WHERE variable_source <> 'COMPILED' ORDER BY variable_name"
    ),
}


class InnoDBServer(ServerProcess):
    """One server on its own data folder."""

    engine: ClassVar[str]
    own_settings: ClassVar[Mapping[str, SettingValue]] = MappingProxyType({})
    """What else its program is started with, each time."""
    start_s = 60.0

    def __init__(
        self,
        name: str,
        program: ServerProgram,
        context: StartContext,
        *,
        settings: Mapping[str, SettingValue],
        port: int | None = None,
        volatile_cache: bool = False,
    ) -> None:
        """Start nothing yet. ``port``: a free one if none. ``volatile_cache``: as in `Database`."""
        self.name = name
        self.version = ""
        self.settings_in_force: dict[str, str] = {}
        self.port = port or 0
        self._fixed_port = port
        self.program = program
        self._context = context
        self.data = context.scratch / name
        self._settings = settings
        self._volatile_cache = volatile_cache
        self.disk: VolatileDisk | None = None

    @property
    def endpoint(self) -> Endpoint:
        """Its own address, past the proxy. Every process logs in with its own name as user name."""
        return Endpoint(
            engine=self.engine,
            host=LOOPBACK,
            port=self.port,
            database=DATABASE,
            user=ANY_USER,
            password=self._context.password,
        )

    @property
    def log(self) -> Path:
        """Its text log."""
        return self._context.logs / f"{self.name}.log"

    def start(self) -> None:
        """Create the data folder, start the server, and wait until it answers; raises `NotCarriedOutError` if it does not."""
        self.create_data_folder()
        if self._volatile_cache:
            self.disk = VolatileDisk(self.data, user=None, context=self._context)
        first_statements = self.data.parent / f"{self.name}-first.sql"
        first_statements.touch(mode=0o600)
        first_statements.write_text(self._first_statements())

        def start_on(port: int) -> None:
            self.port = port
            self.process = self.launch(first_statements)
            wait_until_answering(self.name, self.process, self.endpoint, self.start_s)

        try:
            start_on_port(self._fixed_port, start_on)
        finally:
            first_statements.unlink()
        self._read_facts()

    def _command(self, *arguments: str) -> list[str]:
        base = self.program.path.resolve().parent.parent
        # A starting server removes all temporary tables in its folder for temporary files, also those of another running server.
        temporary = self.data.parent / f"{self.name}-tmp"
        temporary.mkdir(exist_ok=True)
        command = [
            str(self.program.path),
            "--no-defaults",
            f"--basedir={base}",
            f"--datadir={self.data}",
            f"--tmpdir={temporary}",
            *self.options_of_installation(base),
        ]
        if os.geteuid() == 0:
            # It listens on loopback only, its password is valid for this run only, and its files are the run's own.
            command.append("--user=root")
        command += arguments
        return self.disk.enter(command, signal.SIGKILL) if self.disk else command

    def run_to_end(self, *arguments: str, text: str = "") -> None:
        """Run the server's program to its end; raises `NotCarriedOutError` with what it printed if it fails."""
        ended = subprocess.run(
            self._command(*arguments),
            cwd="/",
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", **self.program.environment},
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_BOOTSTRAP_S,
            check=False,
        )
        if ended.returncode != 0:
            raise NotCarriedOutError(f"{self.program.path.name} {arguments[0]} failed: {_last_errors(ended.stderr)}")

    def launch(self, first_statements: Path | None = None) -> Process:
        """Start it; ``first_statements``: what it executes first, on its first start. Its users are in its data from then on."""
        sockets = self.data.parent / f"{self.name}-socket"
        sockets.mkdir(exist_ok=True)
        own: dict[str, SettingValue] = {
            "bind_address": LOOPBACK,
            "port": self.port,
            "socket": str(sockets / "s"),
            "pid_file": str(sockets / "pid"),
            "secure_file_priv": str(sockets),
            "skip_name_resolve": True,
        }
        if first_statements:
            own["init_file"] = str(first_statements)
        settings = {**own, **self.own_settings, **self._settings}
        return self._context.processes.start(
            self.name,
            "server",
            self._command(*(f"--{key.replace('_', '-')}={_setting_text(value)}" for key, value in settings.items())),
            log=self.log,
            environment={"LC_ALL": "C.UTF-8", **self.program.environment},
        )

    @abstractmethod
    def create_data_folder(self) -> None:
        """Create `data`, with the tables of the system in it; raises `NotCarriedOutError`."""

    @abstractmethod
    def remove_default_users(self, secret: str) -> Sequence[str]:
        """Return the statements after which nobody can log in without the password ``secret``."""

    def options_of_installation(self, base: Path) -> Sequence[str]:
        """Return the options that say where its files are, if it does not find them in ``base``, the folder of its installation."""
        return ()

    def _first_statements(self) -> str:
        """Return statements that allow logins under any name with the password, and no others. Replicas execute them, too."""
        secret = self._context.password.get_secret_value()
        return "\n".join(
            [
                "SET sql_log_bin = 0;",
                *self.remove_default_users(secret),
                f"CREATE USER ''@'{LOOPBACK}' IDENTIFIED BY '{secret}';",
                f"GRANT ALL ON *.* TO ''@'{LOOPBACK}' WITH GRANT OPTION;",
                f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4;",
                "",
            ]
        )

    def _read_facts(self) -> None:
        with driver_of(self.engine).connect(self.endpoint, "start") as connection, connection.cursor() as cursor:
            cursor.execute("SELECT version()")
            self.version = str(cursor.fetchone()[0]).split("-")[0]
            self.settings_in_force = read_changed_settings(cursor)


def read_changed_settings(cursor: Any) -> dict[str, str]:
    """Return the settings in force that are not default, without secrets."""
    for table, query in _CHANGED_SETTINGS.items():
        if has_table(cursor, *table):
            cursor.execute(query)
            return {name.lower(): value for name, value in cursor.fetchall() if not _NOT_RECORDED.search(name.lower())}
    return {}


def has_table(cursor: Any, schema: str, table: str) -> bool:
    """Whether the server has a table or view. Where the two products differ, this distinguishes them."""
    cursor.execute(
        "SELECT count(*) FROM information_schema.tables WHERE table_schema = %s AND lower(table_name) = lower(%s)",
        (schema, table),
    )
    return bool(cursor.fetchone()[0])


def _setting_text(value: SettingValue) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)


def _last_errors(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join([line for line in lines if "ERROR" in line][-3:] or lines[-3:])
