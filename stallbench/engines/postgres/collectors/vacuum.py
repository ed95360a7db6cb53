"""Does autovacuum run, and does it remove dead rows? The rows that the last one could not remove distinguish a held horizon
from a late vacuum.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from stallbench.engines.collectors.collector import ServerCollector, samples_of
from stallbench.engines.collectors.connections import NotMeasuredError
from stallbench.engines.collectors.document import CollectorsDocument, WatchedServer
from stallbench.engines.postgres.driver import Connection
from stallbench.engines.postgres.server_log import ServerLog
from stallbench.records.samples import Sample

LOGGED_NAME = "pg_catalog.current_database() || '.' || nspname || '.' || relname"
"""SQL: the key of a table in `AutovacuumLog.last`, from its rows of ``pg_class`` and ``pg_namespace``."""
_COUNTS = f"""
SELECT name, {LOGGED_NAME},
  pg_catalog.pg_stat_get_autovacuum_count(id),
  extract(epoch FROM pg_catalog.clock_timestamp() - pg_catalog.pg_stat_get_last_autovacuum_time(id))::double precision
FROM (SELECT name, pg_catalog.to_regclass(name) AS id FROM pg_catalog.unnest(%s::pg_catalog.text[]) AS name) AS watched
JOIN pg_catalog.pg_class ON pg_class.oid = id
JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
"""
_SEVERITY = re.compile(
    r"\b(?:DEBUG\d?|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC|DETAIL|HINT|(?P<of_session>QUERY|CONTEXT|STATEMENT)|LOCATION|BACKTRACE):  "
)
"""What every entry has first, after its prefix. ``of_session``: what follows the message of a user's session (``RAISE LOG``), and never autovacuum's own."""
_BEGIN = re.compile(
    r'LOG:  automatic (?:aggressive )?vacuum (?:to prevent wraparound )?of table "(?P<table>.+)": index scans: \d+'
)
"""Only as a message of its own: the text of a statement, or of an error that anybody can cause, may have the same words."""
LAST_BYTES = 4 << 20
"""How much of a log that may have been written for weeks is read for the last vacuum of each table."""
_TUPLES = re.compile(r"tuples: (?P<removed>\d+) removed, \d+ remain, (?P<kept>\d+) are dead but not yet removable")
_CUTOFF = re.compile(r"(?:removable cutoff|oldest xmin): (?P<xmin>\d+)")


class AutovacuumLog:
    """Reads new lines of a server's log, and remembers the last autovacuum of each table."""

    def __init__(self, path: Path, from_byte: int = 0) -> None:
        """Start with the first line of ``path`` that begins ``from_byte`` or later."""
        self._log = ServerLog(path, from_byte)
        self._table: str | None = None
        self._before: dict[str, int] | None = None
        """What was known of this table before."""
        self.last: dict[str, dict[str, int]] = {}
        """By table, as the log names it (``database.schema.table``, unquoted): ``removed_tuples``, ``not_removable_tuples``, ``oldest_xmin``."""

    def read_on(self) -> None:
        """Read what was written since the last call; an incomplete line is left for the next call. Raises `OSError` if the log cannot be read."""
        for line in self._log.read_lines():
            self._add_server(line)

    def _add_server(self, line: str) -> None:
        severity = _SEVERITY.search(line)
        if severity and (begin := _BEGIN.fullmatch(line, severity.start())):
            self._table = begin["table"]
            self._before = self.last.pop(self._table, None)
            self.last[self._table] = {}
        elif self._table is None:
            return
        elif not line.startswith("\t"):
            if severity and severity["of_session"]:
                del self.last[self._table]
                if self._before is not None:
                    self.last[self._table] = self._before
            self._table = None
        elif tuples := _TUPLES.search(line):
            self.last[self._table]["removed_tuples"] = int(tuples["removed"])
            self.last[self._table]["not_removable_tuples"] = int(tuples["kept"])
        elif cutoff := _CUTOFF.search(line):
            self.last[self._table]["oldest_xmin"] = int(cutoff["xmin"])


class VacuumCollector(ServerCollector):
    """Reads the primary's statistics and, where this machine has it, its log."""

    name = "vacuum"

    def __init__(self, document: CollectorsDocument) -> None:
        """Read what the log had at the start of the run from `LAST_BYTES` before its end."""
        super().__init__(document)
        primary = document.primary
        self._log = AutovacuumLog(primary.log, primary.log_bytes_before - LAST_BYTES) if primary.log else None

    def sample_server(self, server: WatchedServer, connection: Connection) -> Iterator[Sample]:
        """Yield for each table how often autovacuum ran, when it last ran, and what it could and could not remove.

        Without what only the log has if it cannot be read; raises `NotMeasuredError` after the samples then.
        """
        failure = self._read_log()
        logged = self._log.last if self._log and failure is None else {}
        for name, logged_name, count, age_s in connection.execute(_COUNTS, (list(self.document.queue.tables),)).fetchall():
            values = {"autovacuum_count": count, "last_autovacuum_age_s": age_s, **logged.get(logged_name, {})}
            yield from samples_of(server.name, f"table:{name}", values)
        if failure is not None:
            raise NotMeasuredError(f"{server.name}: the log cannot be read: {failure}")

    def _read_log(self) -> OSError | None:
        try:
            if self._log:
                self._log.read_on()
        except OSError as error:
            return error
        return None
