"""Base of the article's stores on PostgreSQL, MariaDB and MySQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stallbench.queues.queue import Backlog
from stallbench.queues.sql_session import open_session
from stallbench.queues.statements import read_statements
from stallbench.queues.store_queue import JobStore


class SqlStore(JobStore):
    """Statements from a file, sent by the engine's session; each is its own transaction unless stated otherwise."""

    def __init__(self, connection: Any, statements: Path) -> None:
        """Serve ``connection`` with the ``statements`` of a file."""
        super().__init__(connection)
        self.session = open_session(connection)
        self.statements = {name: " ".join(statement.split()) for name, statement in read_statements(statements).items()}

    def observe_answers(self, call: Callable[[], None]) -> None:
        """Observe the session."""
        self.session.observe_answers(call)

    def is_usable_after(self, error: Exception) -> bool:
        """Roll back and continue, unless the connection is lost."""
        if self.session.is_connection_lost(error):
            return False
        self.session.rollback()
        return True

    def backlog(self) -> Backlog:
        """Count what waits."""
        count, oldest_at_ms = self.session.run(self.statements["backlog"]).rows[0]
        oldest_s = None if oldest_at_ms is None else max(0.0, (now_ms() - int(oldest_at_ms)) / 1000)
        return Backlog(depth=max(0, int(count)), oldest_job_s=oldest_s)

    def is_drained(self) -> bool:
        """Whether no job is left."""
        return not self.session.run(self.statements["any_job"]).rows

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Iterate over the remaining jobs."""
        for job_id, is_reserved in self.session.stream(self.statements["job_ids"]):
            yield int(job_id), int(is_reserved) == 1


def now_ms() -> int:
    """Return the time by the clock of this process, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
