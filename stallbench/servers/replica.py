"""A streaming replica: a copy of the primary, taken and kept up to date through the replication proxy."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from psycopg.sql import SQL, Literal
from pydantic import SecretStr

from stallbench.engines.postgres import connect
from stallbench.errors import NotCarriedOutError
from stallbench.records.endpoint import Endpoint
from stallbench.scenario.database import Database
from stallbench.scenario.section import SettingValue
from stallbench.servers.ports import LOOPBACK
from stallbench.servers.postgres import USER, PostgresInstallation

_STREAMING_S = 20.0

REPLICA_SETTINGS: Mapping[str, SettingValue] = {"wal_receiver_status_interval": "1s"}
"""Feedback reaches the primary this often. PostgreSQL's own 10 s would make up a tenth of a phase before anything is seen; what a
feedback does once it is there is the same."""


def copy_primary(
    installation: PostgresInstallation, data: Path, password: SecretStr, *, name: str, proxy_port: int, slot: bool
) -> None:
    """Fill ``data`` with a base backup that streams on from where it ends, through the proxy, and with a slot if asked for."""
    data.mkdir(parents=True)
    installation.own(data, 0o700)
    password_file = data.parent / f"{name}.pgpass"
    password_file.touch(mode=0o600)
    installation.own(password_file, 0o600)
    password_file.write_text(f"{LOOPBACK}:{proxy_port}:*:{USER}:{password.get_secret_value()}\n")
    installation.run(
        "pg_basebackup",
        f"--pgdata={data}",
        f"--dbname=host={LOOPBACK} port={proxy_port} user={USER} application_name={name} passfile={password_file}",
        "--write-recovery-conf",
        "--wal-method=stream",
        "--checkpoint=fast",
        "--no-sync",
        *(["--create-slot", f"--slot={slot_name(name)}"] if slot else []),
    )


def slot_name(replica: str) -> str:
    """Name of the physical slot that a replica streams through."""
    return replica.replace("-", "_")


def replica_settings(database: Database) -> dict[str, SettingValue]:
    """Return what a replica is started with, besides what every server is."""
    return {
        **REPLICA_SETTINGS,
        "hot_standby_feedback": database.hot_standby_feedback,
        **database.settings,
        **database.replica_settings,
    }


def standby_names(replicas: Sequence[str]) -> str:
    """Return ``synchronous_standby_names`` by which any one of ``replicas`` is enough."""
    names = ", ".join(f'"{name}"' for name in replicas)
    return f"ANY 1 ({names})"


def make_synchronous(primary: Endpoint, replicas: Sequence[str]) -> None:
    """Let commits wait for a replica; raises `NotCarriedOutError` if the primary does not count on them in time."""
    until_s = time.monotonic() + _STREAMING_S
    query = "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')"
    with connect(primary, "start") as connection:
        connection.execute(SQL("ALTER SYSTEM SET synchronous_standby_names = {}").format(Literal(standby_names(replicas))))
        connection.execute("SELECT pg_reload_conf()")
        while time.monotonic() < until_s:
            if connection.execute(query).fetchone() == (len(replicas),):
                return
            time.sleep(0.05)
    raise NotCarriedOutError(f"the primary does not wait for its replicas after {_STREAMING_S:.0f} s")


def wait_until_streaming(primary: Endpoint, name: str) -> None:
    """Wait until the primary itself says that the replica streams; raises `NotCarriedOutError` if it does not in time."""
    until_s = time.monotonic() + _STREAMING_S
    query = "SELECT count(*) FROM pg_stat_replication WHERE application_name = %s AND state = 'streaming'"
    with connect(primary, "start") as connection:
        while time.monotonic() < until_s:
            row = connection.execute(query, (name,)).fetchone()
            if row and row[0] == 1:
                return
            time.sleep(0.05)
    raise NotCarriedOutError(f"{name} did not stream from the primary within {_STREAMING_S:.0f} s")
