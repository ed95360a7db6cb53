"""The jobs table or its indexes are written anew, as against bloat: while that lasts, the queue waits, or only pays for it.

``REINDEX`` takes the table's lock and then the index's; a worker that has locked a row and then deletes it takes them the other way round. Of the
two PostgreSQL ends the one that notices first. Whoever maintains a table then begins again, and so does the fault.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any

from pydantic import Field

from stallbench.engines.error_kinds import ErrorKind
from stallbench.faults.fault import Fault, FaultOptions
from stallbench.faults.side_session import SideSession

_INVALID = (
    "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
    "WHERE NOT indisvalid AND relname LIKE '%\\_ccnew%'"
)


class Rewrite(Fault[FaultOptions]):
    """One statement on each table of the queue, one after the other, in a session beside the queue's. It is over when all are done."""

    explains_errors = frozenset({ErrorKind.LOCK_TIMEOUT, ErrorKind.DEADLOCK})
    places = ("primary",)
    engines = frozenset({"postgres"})

    _session: SideSession | None = None
    _watch: SideSession | None = None
    _most_behind = 0
    _times_gave_way = 0
    _is_done = False

    @abstractmethod
    def statement(self, table: str) -> str:
        """Return what is done to a table."""

    def inject(self) -> dict[str, Any]:
        """Begin with the first table."""
        endpoint = self.context.cluster.server(self.on).direct
        self._watch = SideSession(endpoint, f"{self.name}:watch")
        self._session = SideSession(endpoint, self.name)
        self._left = list(self.context.queue["tables"])
        bytes_before = self._measure(self._watch)
        self._began_s = time.monotonic()
        self._begin_next()
        return {"pid": self._session.pid, "bytes_before": bytes_before}

    def keep_up(self) -> None:
        """Count who waits; go on with the next table."""
        assert self._session is not None
        assert self._watch is not None
        if self._session.is_running:
            self._most_behind = max(self._most_behind, self._session.find_waiting(self._watch)[1])
        elif not self._is_done:
            if self._session.gave_way():
                self._times_gave_way += 1
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

    def undo(self) -> dict[str, Any]:
        """Break it off, if it is not done, and remove what that leaves."""
        if self._session is not None:
            self._session.end()
        if self._watch is None:
            return {}
        for (index,) in self._watch.run(_INVALID):
            self._watch.run(f"DROP INDEX {index}")
        found: dict[str, Any] = {
            "done": self._is_done,
            "most_waiting_behind_it": self._most_behind,
            "times_ended_by_deadlock": self._times_gave_way,
        }
        if self._is_done:
            found |= {"took_s": round(self._took_s, 3), "bytes_after": self._measure(self._watch)}
        self._watch.end()
        return found

    def _measure(self, watch: SideSession) -> int:
        """Return the bytes of the queue's tables with their indexes."""
        tables = self.context.queue["tables"]
        return sum(int(watch.run(f"SELECT pg_total_relation_size('{table}')")[0][0]) for table in tables)


class VacuumFull(Rewrite):
    """``VACUUM FULL``: the table is for nobody else until it is done."""

    kind = "vacuum_full"
    summary = "the jobs table is written anew by VACUUM FULL, which nobody may use meanwhile"
    source = "PostgreSQL's documentation of VACUUM; what is tried first against a bloated jobs table"

    def statement(self, table: str) -> str:
        """Return it."""
        return f"VACUUM FULL {table}"


class ReindexOptions(FaultOptions):
    """Options of `Reindex`."""

    concurrently: bool = Field(default=False, description="whether the queue may go on meanwhile")


class Reindex(Rewrite):
    """``REINDEX TABLE``."""

    kind = "reindex"
    summary = "the indexes of the jobs table are built anew"
    source = "PostgreSQL's documentation of REINDEX and its CONCURRENTLY"
    options_type = ReindexOptions

    def statement(self, table: str) -> str:
        """Return it."""
        assert isinstance(self.options, ReindexOptions)
        return f"REINDEX TABLE {'CONCURRENTLY ' if self.options.concurrently else ''}{table}"
