"""A streaming replica of PostgreSQL: a base backup of the primary that replicates through the replication proxy."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from psycopg.sql import SQL, Literal

from stallbench.base.ports import LOOPBACK
from stallbench.base.section import SettingValue
from stallbench.engines.database import Database
from stallbench.engines.postgres.driver import connect
from stallbench.engines.postgres.server import USER, PostgresInstallation
from stallbench.errors import NotCarriedOutError
from stallbench.records.endpoint import Endpoint
from stallbench.waiting import wait_until

_STREAMING_S = 20.0

_BACKUP_FUNCTIONS = ("SELECT pg_backup_start(%s, true)", "SELECT labelfile FROM pg_backup_stop(false)")
_BACKUP_FUNCTIONS_OF_14 = ("SELECT pg_start_backup(%s, true, false)", "SELECT labelfile FROM pg_stop_backup(false, false)")
"""They begin with an immediate checkpoint, and end without waiting for an archive."""
_WAL, _WAL_STATUS = "pg_wal", "archive_status"
_SEGMENT = "[0-9A-F]" * 24
_EMPTY = (_WAL, "pg_dynshmem", "pg_notify", "pg_replslot", "pg_serial", "pg_snapshots", "pg_stat_tmp", "pg_subtrans")
_NOT_COPIED = ("postmaster.pid", "postmaster.opts")
"""As PostgreSQL's documentation of the low-level backup API has it."""

REPLICA_SETTINGS: Mapping[str, SettingValue] = {"wal_receiver_status_interval": "1s"}
"""How often feedback reaches the primary. PostgreSQL's default of 10 s would delay it by a tenth of a phase; the effect of the feedback is
the same."""


def copy_primary(
    installation: PostgresInstallation,
    primary: Endpoint,
    data_of_primary: Path,
    data: Path,
    *,
    name: str,
    proxy_port: int,
    slot: bool,
) -> None:
    """Fill ``data`` with a base backup, configured to stream through the proxy from there on, with a slot if asked for.

    The backup is a copy of the primary's data folder between the functions of the low-level backup API: not every package of PostgreSQL contains
    pg_basebackup. ``primary``: its own address, past the proxy.
    """
    password_file = data.parent / f"{name}.pgpass"
    password_file.touch(mode=0o600)
    installation.own(password_file, 0o600)
    password_file.write_text(f"{LOOPBACK}:{proxy_port}:*:{USER}:{primary.password.get_secret_value()}\n")
    with connect(primary, "start") as connection:
        begin, end = _BACKUP_FUNCTIONS if connection.info.server_version >= 15_00_00 else _BACKUP_FUNCTIONS_OF_14
        # A slot keeps the log that the copy needs. A temporary one ends with the connection, when the log has been copied, too.
        slot_of_copy = slot_name(name) if slot else f"copy_{slot_name(name)}"
        connection.execute("SELECT pg_create_physical_replication_slot(%s, true, %s)", (slot_of_copy, not slot))
        connection.execute(begin, (name,))
        _copy_folder(installation, data_of_primary, data)
        row = connection.execute(end).fetchone()
        assert row is not None
        _write(installation, data / "backup_label", row[0])
        for segment in sorted((data_of_primary / _WAL).glob(_SEGMENT)):
            _copy_file(installation, segment, data / _WAL / segment.name)
    conninfo = f"host={LOOPBACK} port={proxy_port} user={USER} application_name={name} passfile={password_file}"
    with (data / "postgresql.auto.conf").open("a") as file:
        file.write(f"primary_conninfo = '{conninfo}'\n")
        if slot:
            file.write(f"primary_slot_name = '{slot_name(name)}'\n")
    _write(installation, data / "standby.signal", "")


def _copy_folder(installation: PostgresInstallation, source: Path, target: Path) -> None:
    """Copy a data folder of a running server; files that it removes meanwhile are left out, as its documentation allows."""
    target.mkdir()
    installation.own(target, 0o700)
    for path in source.iterdir():
        if path.name in _NOT_COPIED:
            continue
        if not path.is_dir():
            _copy_file(installation, path, target / path.name)
        elif path.name in _EMPTY:
            for folder in (target / path.name, *([target / path.name / _WAL_STATUS] if path.name == _WAL else [])):
                folder.mkdir()
                installation.own(folder, 0o700)
        else:
            _copy_folder(installation, path, target / path.name)


def _copy_file(installation: PostgresInstallation, source: Path, target: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.copyfile(source, target)
        installation.own(target, 0o600)


def _write(installation: PostgresInstallation, path: Path, text: str) -> None:
    path.write_text(text)
    installation.own(path, 0o600)


def slot_name(replica: str) -> str:
    """Name of the physical slot that a replica streams through."""
    return replica.replace("-", "_")


def replica_settings(database: Database) -> dict[str, SettingValue]:
    """Return the settings of a replica, in addition to those of every server."""
    return {
        **REPLICA_SETTINGS,
        "hot_standby_feedback": database.hot_standby_feedback,
        **database.settings,
        **database.replica_settings,
    }


def standby_names(replicas: Sequence[str]) -> str:
    """Return the value of ``synchronous_standby_names`` that requires any one of ``replicas``."""
    names = ", ".join(f'"{name}"' for name in replicas)
    return f"ANY 1 ({names})"


def make_synchronous(primary: Endpoint, replicas: Sequence[str]) -> None:
    """Make commits wait for a replica; raises `NotCarriedOutError` if the primary does not report that in time."""
    query = "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')"
    with connect(primary, "start") as connection:
        connection.execute(SQL("ALTER SYSTEM SET synchronous_standby_names = {}").format(Literal(standby_names(replicas))))
        connection.execute("SELECT pg_reload_conf()")
        if wait_until(lambda: connection.execute(query).fetchone() == (len(replicas),), within_s=_STREAMING_S, every_s=0.05):
            return
    raise NotCarriedOutError(f"the primary does not wait for its replicas after {_STREAMING_S:.0f} s")


def wait_until_streaming(primary: Endpoint, name: str) -> None:
    """Wait until the primary reports that the replica streams; raises `NotCarriedOutError` if it does not in time."""
    query = "SELECT count(*) FROM pg_stat_replication WHERE application_name = %s AND state = 'streaming'"
    with connect(primary, "start") as connection:
        if wait_until(lambda: connection.execute(query, (name,)).fetchone() == (1,), within_s=_STREAMING_S, every_s=0.05):
            return
    raise NotCarriedOutError(f"{name} did not stream from the primary within {_STREAMING_S:.0f} s")
