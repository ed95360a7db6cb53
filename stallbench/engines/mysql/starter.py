"""Starts MySQL."""

from __future__ import annotations

from types import MappingProxyType

from stallbench.base.ports import LOOPBACK
from stallbench.engines.innodb.starter import WHOLE_DIGESTS, InnoDBStarter
from stallbench.engines.mysql.server import MySQLServer


class MySQLStarter(InnoDBStarter):
    """Private MySQL servers."""

    server_type = MySQLServer
    log_for_replicas = MappingProxyType({"log_bin": "binlog", "gtid_mode": "ON", "enforce_gtid_consistency": "ON"})
    logs_by_default = True
    count_statements = WHOLE_DIGESTS  # its performance schema is on by default
    follow = (
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{LOOPBACK}', SOURCE_PORT = %s, SOURCE_USER = %s, SOURCE_PASSWORD = %s, "
        "SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1",
        "START REPLICA",
    )
