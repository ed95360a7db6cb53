"""A session beside the queue's, past the proxy: a migration, a report, a rebuild. What it waits for does not stop the bench."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

from stallbench.engines import driver_of
from stallbench.engines.error_kinds import DEADLOCK_CODES
from stallbench.errors import NotCarriedOutError
from stallbench.records.endpoint import Endpoint

_END_S = 20.0
"""How long a statement may take to break off after its session was ended."""
_OF_POSTGRES = {
    "pid": "SELECT pg_backend_pid()",
    "end": "SELECT pg_terminate_backend({pid})",
    "is_there": "SELECT 1 FROM pg_stat_activity WHERE pid = {pid}",
    "waiting": "SELECT pid FROM pg_stat_activity WHERE {pid} = ANY (pg_blocking_pids(pid)) UNION ALL "
    "SELECT {pid} WHERE cardinality(pg_blocking_pids({pid})) > 0",
    "timeout": "SET lock_timeout = '{ms}ms'",
}
_OF_MYSQL = {
    "pid": "SELECT connection_id()",
    "end": "KILL {pid}",
    "is_there": "SELECT 1 FROM information_schema.processlist WHERE id = {pid}",
    # Who waits for whom only some builds tell; a lock on a table's metadata is hardly waited for in any other case.
    "waiting": "SELECT id FROM information_schema.processlist WHERE state = 'Waiting for table metadata lock'",
    "timeout": "SET lock_wait_timeout = {s}",
}
_LOCK_TIMEOUTS = frozenset({"55P03", "1205"})
"""The codes of an error by which a server says that a lock was waited for too long."""


class SideSession:
    """One connection, on which one statement at a time runs in a thread of its own."""

    def __init__(self, endpoint: Endpoint, name: str) -> None:
        """Connect, known to the server by ``name``; raises an error of the driver if that fails."""
        self._endpoint = endpoint
        self._name = name
        self._driver = driver_of(endpoint.engine)
        self._words = _OF_POSTGRES if endpoint.engine == "postgres" else _OF_MYSQL
        self._connection = self._driver.connect(endpoint, name)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._running: Future[list[Any]] | None = None
        self.pid = int(self.run(self._words["pid"])[0][0])
        """The server's name for the session."""

    def run(self, statement: str) -> list[Any]:
        """Carry a statement out now, and return its rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def set_lock_timeout(self, timeout_s: float) -> None:
        """Let each statement from now on give up a lock after so long; MariaDB and MySQL count whole seconds, at least one."""
        self.run(self._words["timeout"].format(ms=max(1, round(timeout_s * 1000)), s=max(1, round(timeout_s))))

    def begin(self, statement: str) -> None:
        """Let a statement run in the background."""
        self._running = self._thread.submit(self.run, statement)

    @property
    def is_running(self) -> bool:
        """Whether the statement of `begin` has not come to its end."""
        return self._running is not None and not self._running.done()

    def succeeded(self) -> bool:
        """Whether the statement of `begin`, now over, did what it should; no, if it gave up a lock. Raises what else was wrong."""
        return not self._ended_with(_LOCK_TIMEOUTS)

    def gave_way(self) -> bool:
        """Whether the server ended the statement of `begin`, now over, to break a deadlock. Raises what else was wrong."""
        return self._ended_with(DEADLOCK_CODES)

    def _ended_with(self, codes: frozenset[str]) -> bool:
        """Whether the statement of `begin` ended with an error of one of these codes; raises any other."""
        assert self._running is not None
        try:
            self._running.result()
        except self._driver.errors as error:
            if self._driver.code(error) not in codes:
                raise
            return True
        return False

    def find_waiting(self, watch: SideSession) -> tuple[bool, int]:
        """Ask over ``watch`` whether this session waits for a lock, and how many others wait behind it."""
        waiting = [int(row[0]) for row in watch.run(self._words["waiting"].format(pid=self.pid))]
        return self.pid in waiting, sum(pid != self.pid for pid in waiting)

    def is_known(self, watch: SideSession) -> bool:
        """Ask over ``watch`` whether the server still has this session."""
        return bool(watch.run(self._words["is_there"].format(pid=self.pid)))

    def end(self) -> None:
        """End it with whatever it does, and see that the server has forgotten it."""
        try:
            if self.is_running:
                self._end_on_server()
        finally:
            self._driver.close(self._connection)
            self._thread.shutdown(wait=False)

    def _end_on_server(self) -> None:
        assert self._running is not None
        with closing(self._driver.connect(self._endpoint, f"end-{self._name}")) as connection, connection.cursor() as cursor:
            cursor.execute(self._words["is_there"].format(pid=self.pid))
            if cursor.fetchone():
                cursor.execute(self._words["end"].format(pid=self.pid))
        try:
            with suppress(*self._driver.errors):
                self._running.result(_END_S)
        except TimeoutError:
            raise NotCarriedOutError(f"{self._name} was ended, but goes on after {_END_S:.0f} s") from None
