"""Replaces a database by an empty one."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from stallbench.engines.postgres.driver import connect
from stallbench.records.endpoint import Endpoint


def replace_database(former: Endpoint, name: str) -> Endpoint:
    """Drop a database with all that is in it, and return an empty one of another name."""
    with connect(former, "conformance") as connection:
        _release(connection)
    with connect(former.model_copy(update={"database": "postgres"}), "conformance") as connection:
        connection.execute(f"CREATE DATABASE {name}")
        connection.execute(f"DROP DATABASE {former.database} WITH (FORCE)")
    return former.model_copy(update={"database": name})


def _release(connection: psycopg.Connection[Any]) -> None:
    """End what prevents the server from dropping the database; a run that was killed may have left it."""
    for (gid,) in connection.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()").fetchall():
        connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(gid))
    connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")
    connection.execute(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
