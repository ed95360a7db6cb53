"""A streaming replica of PostgreSQL: a base backup of the primary that replicates through the replication proxy."""

from __future__ import annotations

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
from stallbench.waiting import wait_until

_STREAMING_S = 20.0

REPLICA_SETTINGS: Mapping[str, SettingValue] = {"wal_receiver_status_interval": "1s"}
"""How often feedback reaches the primary. PostgreSQL's default of 10 s would delay it by a tenth of a phase; the effect of the feedback is
the same."""


def copy_primary(
    installation: PostgresInstallation, data: Path, password: SecretStr, *, name: str, proxy_port: int, slot: bool
) -> None:
    """Fill ``data`` with a base backup taken through the proxy, configured to stream from there on, with a slot if asked for."""
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
