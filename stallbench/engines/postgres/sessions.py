"""The sessions of PostgreSQL's clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import SecretStr

from stallbench.engines.sessions import ClientSession, OldTransaction, Sessions, query
from stallbench.records.endpoint import Endpoint

# In other databases of an external server there may be another bench.
_CLIENTS = """
SELECT pid, pg_catalog.substr(application_name, 12) FROM pg_catalog.pg_stat_activity
WHERE backend_type = 'client backend' AND datname = pg_catalog.current_database() AND application_name ~ '^stallbench:(worker|producer)-'
"""
# Other maintenance is not ended: a REINDEX, for example, may take as long as it needs.
_OLD_TRANSACTIONS = """
SELECT pid, application_name, coalesce(state, ''), extract(epoch FROM pg_catalog.clock_timestamp() - xact_start)::double precision
FROM pg_catalog.pg_stat_activity
WHERE backend_type = 'client backend' AND application_name NOT LIKE 'stallbench:maintenance:%%'
AND xact_start < pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => %s)
ORDER BY xact_start
"""


class PostgresSessions(Sessions):
    """A session is a backend, identified by its process."""

    def find_id(self, connection: Any) -> int:
        """Return the process of its backend."""
        return int(query(connection, "SELECT pg_catalog.pg_backend_pid()")[0][0])

    def limit_lock_wait(self, connection: Any, timeout_s: float) -> None:
        """Limit it in milliseconds."""
        query(connection, f"SET lock_timeout = '{max(1, round(timeout_s * 1000))}ms'")

    def find_waiting(self, connection: Any, blocker: int) -> Sequence[int]:
        """Ask which backends block which."""
        waiting = (
            f"SELECT pid FROM pg_catalog.pg_stat_activity WHERE {blocker} = ANY (pg_catalog.pg_blocking_pids(pid)) UNION ALL "
            f"SELECT {blocker} WHERE pg_catalog.cardinality(pg_catalog.pg_blocking_pids({blocker})) > 0"
        )
        return [int(pid) for (pid,) in query(connection, waiting)]

    def is_there(self, connection: Any, session: int) -> bool:
        """Look for its process."""
        return bool(query(connection, f"SELECT 1 FROM pg_catalog.pg_stat_activity WHERE pid = {session}"))

    def end(self, connection: Any, session: int) -> None:
        """Terminate its backend."""
        query(connection, f"SELECT pg_catalog.pg_terminate_backend({session})")

    def end_and_wait(self, connection: Any, session: int, within_s: float) -> bool:
        """Terminate its backend; the server itself waits."""
        query(connection, f"SELECT pg_catalog.pg_terminate_backend({session}, {within_s * 1000:.0f})")
        still_there = "SELECT 1 FROM pg_catalog.pg_stat_activity WHERE pid = %s AND backend_type = 'client backend'"
        return not query(connection, still_there, (session,))

    def find_clients(self, connection: Any) -> Sequence[ClientSession]:
        """Find them by their application names."""
        return [ClientSession(int(pid), str(name)) for pid, name in query(connection, _CLIENTS)]

    def find_old_transactions(self, connection: Any, older_than_s: float) -> Sequence[OldTransaction]:
        """Ask for the transactions of all databases."""
        return [OldTransaction(*row) for row in query(connection, _OLD_TRANSACTIONS, (older_than_s,))]

    def read_limit(self, connection: Any) -> int:
        """Return ``max_connections``."""
        return int(query(connection, "SELECT pg_catalog.current_setting('max_connections')")[0][0])

    def count(self, connection: Any) -> int:
        """Count the backends of clients."""
        backends = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend'"
        return int(query(connection, backends)[0][0])

    def create_limited_user(self, connection: Any, endpoint: Endpoint, name: str, password: SecretStr, limit: int) -> None:
        """Create a role with a connection limit."""
        query(connection, f"CREATE ROLE {name} LOGIN PASSWORD '{password.get_secret_value()}' CONNECTION LIMIT {limit}")

    def admit_user(self, connection: Any, endpoint: Endpoint, name: str) -> None:
        """Grant the right to connect."""
        query(connection, f"GRANT CONNECT ON DATABASE {endpoint.database} TO {name}")

    def drop_limited_user(self, connection: Any, endpoint: Endpoint, name: str) -> None:
        """Take its right back first, without which it can be dropped."""
        query(connection, f"REVOKE CONNECT ON DATABASE {endpoint.database} FROM {name}")
        query(connection, f"DROP ROLE {name}")
