"""PostgreSQL's statistics, on versions that publish them in different ways."""

from __future__ import annotations

from typing import Any

_DIRECT_SINCE = 15_00_00
_OLD_INTERVAL_S = 1.2
"""Until version 14 a session sends its statistics to a process that collects them, at the end of a statement, twice a second at most."""


def publish_statistics(connection: Any) -> None:
    """Let readers of the statistics see what this session has done."""
    if connection.info.server_version >= _DIRECT_SINCE:
        connection.execute("SELECT pg_stat_force_next_flush()")
    else:
        connection.execute(f"SELECT pg_sleep({_OLD_INTERVAL_S})")
        connection.execute(f"SELECT pg_sleep({_OLD_INTERVAL_S})")
    connection.execute("SELECT 1")
