"""A session of another application, not through the proxy: a migration, a report, a rebuild. The bench continues while it waits."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from typing import Any, Literal

from stallbench.engines import ENGINES, driver_of
from stallbench.engines.error_kinds import ErrorKind
from stallbench.engines.sessions import query
from stallbench.errors import NotCarriedOutError
from stallbench.records.endpoint import Endpoint

_END_S = 20.0
"""How long a statement may still run after its session was ended."""


class SideSession:
    """One connection, on which one statement at a time runs in a separate thread."""

    def __init__(self, endpoint: Endpoint, name: str) -> None:
        """Connect, known to the server by ``name``; raises an error of the driver if that fails."""
        self._endpoint = endpoint
        self._name = name
        self._driver = driver_of(endpoint.engine)
        engine = ENGINES[endpoint.engine]
        self._sessions = engine.sessions()
        self._lock_waits_ended = engine.lock_waits_ended
        self._deadlocks = frozenset(engine.error_codes[ErrorKind.DEADLOCK])
        self._connection = self._driver.connect(endpoint, name)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._running: Future[list[Any]] | None = None
        self.pid = self._sessions.find_id(self._connection)
        """The server's identifier of the session."""

    def run(self, statement: str) -> list[Any]:
        """Run a statement and return its rows."""
        return query(self._connection, statement)

    def set_lock_timeout(self, timeout_s: float) -> None:
        """Limit how long each later statement waits for a lock; some engines count whole seconds."""
        self._sessions.limit_lock_wait(self._connection, timeout_s)

    def begin(self, statement: str) -> None:
        """Run a statement in the background."""
        self._running = self._thread.submit(self.run, statement)

    @property
    def is_running(self) -> bool:
        """Whether the statement of `begin` still runs."""
        return self._running is not None and not self._running.done()

    def wait(self) -> None:
        """Wait until the statement of `begin` is over, successful or not."""
        assert self._running is not None
        wait([self._running])

    def succeeded(self) -> bool:
        """Whether the statement of `begin`, which is over, succeeded; false if it gave up waiting for a lock. Raises any other error."""
        return not self._ended_with(self._lock_waits_ended)

    def was_deadlock_victim(self) -> bool:
        """Whether the server ended the statement of `begin`, which is over, to break a deadlock. Raises any other error."""
        return self._ended_with(self._deadlocks)

    def find_failure(self) -> Literal["lock timeout", "deadlock"] | None:
        """Return why the statement of `begin`, which is over, failed; none if it succeeded. Raises any other error."""
        assert self._running is not None
        try:
            self._running.result()
        except self._driver.errors as error:
            code = self._driver.code(error)
            if code in self._deadlocks:
                return "deadlock"
            if code in self._lock_waits_ended:
                return "lock timeout"
            raise
        return None

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
        """Return, as read in session ``watch``, whether this session waits for a lock, and how many sessions wait behind it."""
        waiting = self._sessions.find_waiting(watch._connection, self.pid)
        return self.pid in waiting, sum(pid != self.pid for pid in waiting)

    def is_known(self, watch: SideSession) -> bool:
        """Whether the server still has this session, as read in session ``watch``."""
        return self._sessions.is_there(watch._connection, self.pid)

    def end(self) -> None:
        """End the session and the statement that it runs, and wait until the server has ended it."""
        try:
            if self.is_running:
                self._end_on_server()
        finally:
            self._driver.close(self._connection)
            self._thread.shutdown(wait=False)

    def _end_on_server(self) -> None:
        assert self._running is not None
        with closing(self._driver.connect(self._endpoint, f"end-{self._name}")) as connection:
            if self._sessions.is_there(connection, self.pid):
                self._sessions.end(connection, self.pid)
        try:
            with suppress(*self._driver.errors):
                self._running.result(_END_S)
        except TimeoutError:
            raise NotCarriedOutError(f"{self._name} was ended, but still ran {_END_S:.0f} s later") from None
