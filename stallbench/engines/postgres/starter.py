"""Starts PostgreSQL: a primary on a new data folder, and replicas that are base backups of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stallbench.base.section import SettingValue
from stallbench.engines.database import Database
from stallbench.engines.postgres.data_folder import create_data_folder
from stallbench.engines.postgres.replica import (
    copy_primary,
    make_synchronous,
    replica_settings,
    standby_names,
    wait_until_streaming,
)
from stallbench.engines.postgres.server import (
    PostgresInstallation,
    PostgresServer,
    count_statements,
    create_database,
    keep_tables_on,
)
from stallbench.engines.postgres.small_disk import SmallDisk
from stallbench.engines.postgres.transaction_ids import RESETWAL, hold_horizon, set_next_transaction_id
from stallbench.engines.starter import ServerControl, StartContext, Starter
from stallbench.engines.volatile_disk import VolatileDisk
from stallbench.errors import NotCarriedOutError
from stallbench.setup.components import MissingComponentError, find_postgres, require_postgres
from stallbench.setup.postgres_packages import require_version
from stallbench.setup.server_programs import unprivileged_user

_SINCE = {
    "multixact_member_buffers": 17,
    "multixact_offset_buffers": 17,
    "subtransaction_buffers": 17,
    "transaction_timeout": 17,
}
"""The first major version that has the setting, for settings that not every supported version has."""


def _find_missing_resetwal(database: Database) -> str | None:
    """Return that the programs of ``database`` cannot set the next transaction id; none if there are none yet."""
    found = None if database.packaged else find_postgres(int(database.version) if database.version else None)
    if found is None:
        return database.version and (
            f"database.xids_left needs {RESETWAL}, which the bench's package of PostgreSQL {database.version} does not have; "
            "use a version that is installed on this machine, without database.packaged"
        )
    try:
        found.require(RESETWAL, "database.xids_left")
    except MissingComponentError as error:
        return str(error)
    return None


class PostgresStarter(Starter):
    """Private PostgreSQL servers, run by an unprivileged user."""

    def __init__(self, context: StartContext, database: Database) -> None:
        """Find the installation; raises `NotCarriedOutError` if a setting is too new for it."""
        super().__init__(context, database)
        if obstacle := self.find_obstacle(database):
            raise NotCarriedOutError(obstacle)
        programs = (
            require_postgres() if database.version is None else require_version(int(database.version), packaged=database.packaged)
        )
        self._installation = PostgresInstallation(programs=programs, user=unprivileged_user())
        # PostgreSQL's own user has to get to its folder; the one above has what the reaper acts on, and stays the bench's.
        context.scratch.chmod(0o711)

    @classmethod
    def find_obstacle(cls, database: Database) -> str | None:
        """Find a setting that is newer than the PostgreSQL that would be started, or a program that it needs and does not have."""
        if database.version is not None:
            version: str | None = database.version
        else:
            found = find_postgres()
            version = found.version if found else None
        for key, settings in (("settings", database.settings), ("replica_settings", database.replica_settings)):
            for name in settings:
                if version and _SINCE.get(name, 0) > int(version.split(".")[0]):
                    return f"database.{key}.{name} needs PostgreSQL {_SINCE[name]} or later; this is {version}"
        return None if database.xids_left is None else _find_missing_resetwal(database)

    def primary(self) -> PostgresServer:
        """Start the primary and create the bench's database."""
        data = self.context.scratch / "primary"
        disk = self._make_small_disk() if self.database.small_disk else None
        on_disk = [f"--waldir={disk.path / 'wal'}", "--wal-segsize=1"] if disk and self.database.small_disk == "wal" else []
        create_data_folder(self._installation, data, self.context.password, *on_disk)
        settings = dict(self.database.settings)
        if self.database.xids_left is not None:
            settings = {"wal_level": "logical", **settings}  # what the slot needs that holds the horizon
        if self.database.volatile_cache:
            self._installation = replace(
                self._installation, disk=VolatileDisk(data, user=self._installation.user, context=self.context)
            )
        server = self._serve("primary", data, settings, self.database.port, first_database="postgres")
        create_database(server.endpoint)
        count_statements(server.endpoint)
        if disk and self.database.small_disk == "tables":
            keep_tables_on(disk, server.endpoint)
        if self.database.xids_left is not None:
            oldest = hold_horizon(server.endpoint)
            server.stop()
            set_next_transaction_id(self._installation, data, oldest, self.database.xids_left)
            server.start()
        return server

    def _make_small_disk(self) -> SmallDisk:
        """Create a small disk that all servers started from now on see."""
        disk = SmallDisk(
            self.context.scratch / "small-disk",
            megabytes=self.database.small_disk_mb,
            user=self._installation.user,
            logs=self.context.logs,
            processes=self.context.processes,
        )
        self._installation = replace(self._installation, disk=disk)
        return disk

    def replica(self, name: str, primary: ServerControl, proxy_port: int) -> PostgresServer:
        """Take a base backup of the primary and stream from it."""
        data = self.context.scratch / name
        copy_primary(
            self._installation,
            primary.endpoint,
            self.context.scratch / primary.name,
            data,
            name=name,
            proxy_port=proxy_port,
            slot=self.database.replication_slot,
        )
        server = self._serve(name, data, replica_settings(self.database), None)
        wait_until_streaming(primary.endpoint, name)
        return server

    def wait_for_replicas(self, primary: ServerControl, names: Sequence[str]) -> None:
        """Name them as synchronous on the primary only, so that a replica that is promoted later waits for none."""
        make_synchronous(primary.endpoint, names)
        primary.settings_in_force |= {"synchronous_standby_names": standby_names(names)}

    def _serve(
        self, name: str, data: Path, settings: dict[str, SettingValue], port: int | None, first_database: str | None = None
    ) -> PostgresServer:
        server = PostgresServer(
            name,
            self._installation,
            data,
            self.context.password,
            processes=self.context.processes,
            logs=self.context.logs,
            settings=settings,
            port=port,
        )
        server.start(first_database)
        return server
