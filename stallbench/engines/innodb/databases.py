"""Replaces a database by an empty one."""

from __future__ import annotations

from contextlib import closing

from stallbench.engines.innodb.driver import DRIVER
from stallbench.engines.sessions import query
from stallbench.records.endpoint import Endpoint

_LOCK_TIMEOUT_S = 30
"""How long dropping a database waits for a lock: what a killed run left may hold one for ever."""


def replace_database(former: Endpoint, name: str) -> Endpoint:
    """Drop a database with all that is in it, and return an empty one of another name."""
    with closing(DRIVER.connect(former, "conformance")) as connection:
        query(connection, f"SET lock_wait_timeout = {_LOCK_TIMEOUT_S}")
        query(connection, f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        query(connection, f"DROP DATABASE {former.database}")
    return former.model_copy(update={"database": name})
