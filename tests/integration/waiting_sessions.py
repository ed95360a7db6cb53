"""Sessions of PostgreSQL that wait in the middle of a statement, for the tests of `stallbench observe`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from psycopg.pq import ExecStatus

from stallbench.engines.postgres.driver import connect
from stallbench.observe.diagnostic import Finding
from stallbench.observe.observer import Observation
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import Connection
from tests.integration.observed import look_at, section_of
from tests.waiting import wait_for

CLAIM = "UPDATE jobs SET attempts = attempts + 1 WHERE id = {}"


@dataclass
class Sessions:
    """Opens sessions by name; each is closed at the end, also one that still waits."""

    endpoint: Endpoint
    admin: Connection
    _opened: list[Connection] = field(default_factory=list)

    def open(self, name: str, *statements: str) -> Connection:
        """Open a session that has executed these statements."""
        session = connect(self.endpoint, name)
        self._opened.append(session)
        for statement in statements:
            session.execute(statement.encode())
        return session

    def send(self, session: Connection, statement: str) -> int:
        """Let it execute a statement without waiting for its end; returns the session's process id."""
        session.pgconn.send_query(statement.encode())
        return session.info.backend_pid

    def open_waiting(self, name: str, statement: str, *before: str) -> Connection:
        """Open a session that waits for a lock with this statement, after the statements ``before``."""
        session = self.open(name, *before)
        pid = self.send(session, statement)
        wait_for(lambda: self.waits(pid), f"{name}, which waits for a lock")
        return session

    def waits(self, pid: int) -> bool:
        """Whether a session waits for a lock."""
        query = "SELECT FROM pg_locks WHERE NOT granted AND pid = %s"
        return self.admin.execute(query, (pid,)).fetchone() is not None

    def end_of(self, session: Connection) -> str:
        """Wait for the end of what was sent; returns the error, empty if it succeeded."""

        def has_ended() -> bool:
            session.pgconn.consume_input()
            return not session.pgconn.is_busy()

        wait_for(has_ended, "the end of the statement")
        error = ""
        while result := session.pgconn.get_result():
            if result.status == ExecStatus.FATAL_ERROR:
                error = result.error_message.decode()
        return error

    def is_alive(self, session: Connection) -> bool:
        """Whether its process exists."""
        return (
            self.admin.execute("SELECT FROM pg_stat_activity WHERE pid = %s", (session.info.backend_pid,)).fetchone() is not None
        )

    def close(self) -> None:
        """End all, whatever they do."""
        for session in [one for one in self._opened if not one.closed]:
            self.admin.execute("SELECT pg_terminate_backend(%s, 60000)", (session.info.backend_pid,))
            session.pgconn.finish()


@contextmanager
def sessions_on(endpoint: Endpoint) -> Iterator[Sessions]:
    with ExitStack() as stack:
        sessions = Sessions(endpoint, stack.enter_context(connect(endpoint, "admin")))
        stack.callback(sessions.close)
        yield sessions


@contextmanager
def open_queue_sessions(endpoint: Endpoint) -> Iterator[Sessions]:
    """Sessions beside a queue's table of ten jobs."""
    with sessions_on(endpoint) as sessions:
        sessions.admin.execute("CREATE TABLE jobs (id int PRIMARY KEY, attempts int)")
        sessions.admin.execute("INSERT INTO jobs SELECT id, 0 FROM generate_series(1, 10) AS id")
        yield sessions


def pid_of(session: Connection) -> int:
    return session.info.backend_pid


def find_about(sessions: Sessions, *words: str) -> tuple[Observation, Finding]:
    """Look until a finding has all of these words."""

    def find() -> tuple[Observation, Finding] | None:
        observation = look_at(sessions.endpoint)
        found = [one for one in observation.findings if all(each in one.sentence for each in words)]
        return (observation, found[0]) if found else None

    return wait_for(find, f"a finding with the words {words!r}")


def statements_of(observation: Observation) -> str:
    """Everything that the report offers to execute, also in its tables."""
    offered = [part for one in observation.findings for part in (one.statement, *(way.statement for way in one.other_ways))]
    rows = section_of(observation, "Who holds").rows
    return "\n".join([*offered, *(row[-1] for row in rows)])


def assert_offers_none_for(observation: Observation, *victims: Connection) -> None:
    for victim in victims:
        assert f"({pid_of(victim)})" not in statements_of(observation)
