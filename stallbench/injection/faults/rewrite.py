"""The jobs table or its indexes are rewritten, as is done against bloat. Meanwhile the queue is blocked or slower.

``REINDEX`` locks the table and then the index; a worker that has locked a row and then deletes it locks them in the opposite order. PostgreSQL ends
the statement that detects the deadlock first. If that is the ``REINDEX``, the fault starts it again, as an administrator would.
"""

from __future__ import annotations

import time
from abc import abstractmethod

from pydantic import Field

from stallbench.engines.error_kinds import ErrorKind
from stallbench.injection.faults.fault import Fault, FaultOptions
from stallbench.injection.faults.side_session import SideSession
from stallbench.records.injections import ENDED_BY_DEADLOCK, Evidence

_INVALID = (
    "SELECT indexrelid::pg_catalog.regclass::pg_catalog.text FROM pg_catalog.pg_index JOIN pg_catalog.pg_class ON pg_class.oid = indexrelid "
    "WHERE NOT indisvalid AND relname ~ '_cc(new|old)[0-9]*$'"
)
"""Before REINDEX CONCURRENTLY has swapped the indexes, the new one is invalid, then the old one."""


class Rewrite(Fault[FaultOptions]):
    """One statement on each table of the queue, one after the other, in a separate session. The fault is over when all are done."""

    explains_errors = frozenset({ErrorKind.LOCK_TIMEOUT, ErrorKind.DEADLOCK})
    targets = ("primary",)
    engines = frozenset({"postgres"})

    _session: SideSession | None = None
    _watch: SideSession | None = None
    _most_behind = 0
    _deadlocks = 0
    _is_done = False

    @abstractmethod
    def statement(self, table: str) -> str:
        """Return the statement that rewrites ``table``."""

    def inject(self) -> Evidence:
        """Begin with the first table. The size of the tables before is part of the evidence."""
        endpoint = self.context.cluster.server(self.on).direct
        self._watch = SideSession(endpoint, f"{self.name}:watch")
        self._session = SideSession(endpoint, self.name)
        self._left = list(self.context.queue.tables)
        bytes_before = self._measure(self._watch)
        self._began_s = time.monotonic()
        self._begin_next()
        return {"pid": self._session.pid, "bytes_before": bytes_before}

    def tick(self) -> None:
        """Count the waiting sessions; begin the next table when one is done."""
        assert self._session is not None
        assert self._watch is not None
        if self._session.is_running:
            self._most_behind = max(self._most_behind, self._session.find_waiting(self._watch)[1])
        elif not self._is_done:
            if self._session.was_deadlock_victim():
                self._deadlocks += 1
                self._session.begin(self._statement)
            elif self._left:
                self._begin_next()
            else:
                self._took_s = time.monotonic() - self._began_s
                self._is_done = True

    def _begin_next(self) -> None:
        assert self._session is not None
        self._statement = self.statement(self._left.pop(0))
        self._session.begin(self._statement)

    def is_over(self) -> bool:
        """Whether all tables are done."""
        return self._is_done

    def undo(self) -> Evidence:
        """Cancel the statement if it still runs, and remove the invalid index that this leaves."""
        if self._session is not None:
            self._session.end()
        if self._watch is None:
            return {}
        for (index,) in self._watch.run(_INVALID):
            self._watch.run(f"DROP INDEX {index}")
        found: Evidence = {
            "done": self._is_done,
            "most_waiting_behind_it": self._most_behind,
            ENDED_BY_DEADLOCK: self._deadlocks,
        }
        if self._is_done:
            found |= {"took_s": round(self._took_s, 3), "bytes_after": self._measure(self._watch)}
        self._watch.end()
        return found

    def _measure(self, watch: SideSession) -> int:
        """Return the size of the queue's tables with their indexes, in bytes."""
        tables = self.context.queue.tables
        return sum(int(watch.run(f"SELECT pg_catalog.pg_total_relation_size('{table}')")[0][0]) for table in tables)


class VacuumFull(Rewrite):
    """``VACUUM FULL``: no other session can use the table until it is done."""

    kind = "vacuum_full"
    meanwhile = "VACUUM FULL locked the jobs table"
    summary = "VACUUM FULL rewrites the jobs table; no session can use the table meanwhile"
    source = "PostgreSQL's documentation of VACUUM; usually the first attempt against a bloated jobs table"

    def statement(self, table: str) -> str:
        """Return the statement."""
        return f"VACUUM FULL {table}"


class ReindexOptions(FaultOptions):
    """Options of `Reindex`."""

    concurrently: bool = Field(default=False, description="whether the queue can use the table meanwhile (REINDEX CONCURRENTLY)")


class Reindex(Rewrite):
    """``REINDEX TABLE``."""

    kind = "reindex"
    meanwhile = "REINDEX locked the jobs table"
    summary = "REINDEX rebuilds the indexes of the jobs table"
    source = "PostgreSQL's documentation of REINDEX and its CONCURRENTLY"
    options_type = ReindexOptions

    def statement(self, table: str) -> str:
        """Return the statement."""
        assert isinstance(self.options, ReindexOptions)
        return f"REINDEX TABLE {'CONCURRENTLY ' if self.options.concurrently else ''}{table}"
