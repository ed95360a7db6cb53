"""The sessions of clients of MariaDB and MySQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymysql
from pydantic import SecretStr

from stallbench.engines.sessions import ClientSession, OldTransaction, Sessions, query
from stallbench.records.endpoint import Endpoint
from stallbench.waiting import wait_until

_POLL_S = 0.005
_NO_SUCH_THREAD = 1094

# In other databases of an external server there may be another bench, or another application whose users have such names.
_CLIENTS = "SELECT id, user FROM information_schema.processlist WHERE db = database() AND user REGEXP '^(worker|producer)-'"
# Only some builds report which session blocks which. Sessions rarely wait for a metadata lock in other cases.
_WAITING = "SELECT id FROM information_schema.processlist WHERE state = 'Waiting for table metadata lock'"
_OLD_TRANSACTIONS = """
SELECT trx_mysql_thread_id, user, command, timestampdiff(MICROSECOND, trx_started, now(6)) / 1e6
FROM information_schema.innodb_trx JOIN information_schema.processlist ON id = trx_mysql_thread_id
WHERE trx_started < now(6) - INTERVAL %s SECOND AND id <> connection_id()
ORDER BY trx_started
"""


class InnoDBSessions(Sessions):
    """A session is a thread of the server."""

    def find_id(self, connection: Any) -> int:
        """Return the number of its thread."""
        return int(query(connection, "SELECT connection_id()")[0][0])

    def limit_lock_wait(self, connection: Any, timeout_s: float) -> None:
        """Limit it in whole seconds, at least one."""
        query(connection, f"SET lock_wait_timeout = {max(1, round(timeout_s))}")

    def find_waiting(self, connection: Any, blocker: int) -> Sequence[int]:
        """Return all that wait for a metadata lock."""
        return [int(thread) for (thread,) in query(connection, _WAITING)]

    def is_there(self, connection: Any, session: int) -> bool:
        """Look for its thread."""
        return bool(query(connection, f"SELECT 1 FROM information_schema.processlist WHERE id = {session}"))

    def end(self, connection: Any, session: int) -> None:
        """Kill its thread."""
        query(connection, f"KILL {session}")

    def end_and_wait(self, connection: Any, session: int, within_s: float) -> bool:
        """Kill its thread, and look for it until it is gone."""
        try:
            self.end(connection, session)
        except pymysql.Error as error:
            if error.args[0] != _NO_SUCH_THREAD:
                raise
        return bool(wait_until(lambda: not self.is_there(connection, session), within_s=within_s, every_s=_POLL_S))

    def find_clients(self, connection: Any) -> Sequence[ClientSession]:
        """Find them by their users: on the bench's own servers each process has one of its own."""
        return [ClientSession(int(thread), str(user)) for thread, user in query(connection, _CLIENTS)]

    def find_old_transactions(self, connection: Any, older_than_s: float) -> Sequence[OldTransaction]:
        """Ask InnoDB for them."""
        return [OldTransaction(*row) for row in query(connection, _OLD_TRANSACTIONS, (older_than_s,))]

    def read_limit(self, connection: Any) -> int:
        """Return ``max_connections``."""
        return int(query(connection, "SELECT @@max_connections")[0][0])

    def count(self, connection: Any) -> int:
        """Return how many threads are connected."""
        return int(query(connection, "SHOW GLOBAL STATUS LIKE 'Threads_connected'")[0][1])

    def create_limited_user(self, connection: Any, endpoint: Endpoint, name: str, password: SecretStr, limit: int) -> None:
        """Create an account with a limit of its own."""
        secret = password.get_secret_value()
        query(connection, f"CREATE USER '{name}'@'{endpoint.host}' IDENTIFIED BY '{secret}' WITH MAX_USER_CONNECTIONS {limit}")

    def admit_user(self, connection: Any, endpoint: Endpoint, name: str) -> None:
        """Grant a right in the database."""
        query(connection, f"GRANT SELECT ON {endpoint.database}.* TO '{name}'@'{endpoint.host}'")

    def drop_limited_user(self, connection: Any, endpoint: Endpoint, name: str) -> None:
        """Drop the account."""
        query(connection, f"DROP USER '{name}'@'{endpoint.host}'")
