"""A server's disk is full: what it cannot write, it must refuse, and what it may not refuse, it dies of."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from stallbench.engines.error_kinds import ErrorKind
from stallbench.errors import NotCarriedOutError
from stallbench.faults.fault import Fault, FaultOptions
from stallbench.servers.postgres import PostgresServer
from stallbench.servers.starter import answers

_RETURN_S = 120.0
_LOOK_EVERY_S = 0.05
_COMPLAINT = b"No space left on device"


class FullDisk(Fault[FaultOptions]):
    """Ballast on the small disk that ``database.small_disk`` gave a part of the server, topped up as long as it lasts.

    Where the WAL is, the server stops itself (PANIC), and cannot start while there is no room: it is started when there is, as a supervisor
    would. Where the queue's tables are, it refuses what needs another page.
    """

    kind = "full_disk"
    summary = "the disk of the server's WAL, or of the queue's tables, is full; it is over when the server answers again"
    source = (
        "PostgreSQL's documentation, Disk Full Failure; WAL that an unused replication slot or a failing archive command keeps"
    )
    explains_errors = frozenset({ErrorKind.DISK_FULL, ErrorKind.CONNECTION_LOST, ErrorKind.CANNOT_CONNECT})
    places = ("primary",)
    engines = frozenset({"postgres"})
    on_external = "never"
    ends_server = True
    needs_of_database = ("small_disk", '"wal" or "tables"')

    def inject(self) -> dict[str, Any]:
        """Fill it up."""
        self._server = self.context.cluster.server(self.on)
        control = self._server.control
        if not isinstance(control, PostgresServer) or control.disk is None or control.process is None:
            raise NotCarriedOutError(f'{self.on} has no small disk; give it one by database.small_disk = "wal" or "tables"')
        self._disk, self._process = control.disk, control.process
        self._log: Path = control.log
        self._log_begins = self._log.stat().st_size
        self._process.intended = "killed"  # by this: its end is what a full disk is about
        ballast_bytes = self._disk.fill()
        return {"ballast_bytes": ballast_bytes, "free_bytes": self._disk.free_bytes}

    def keep_up(self) -> None:
        """Take what has become free."""
        self._disk.fill()

    def find_lapse(self) -> str | None:
        """Look whether the server has met it: one that needs nothing more does not notice."""
        return None if self._count_complaints() else f"the disk was full, but {self.on} wanted nothing more of it"

    def undo(self) -> dict[str, Any]:
        """Make room, start the server if it has ended, and wait until it answers."""
        if not hasattr(self, "_disk"):
            return {}
        complaints = self._count_complaints()
        self._disk.clear()
        began_s = time.monotonic()
        while not answers(self._server.direct):
            if time.monotonic() > began_s + _RETURN_S:
                raise NotCarriedOutError(f"{self.on} has room again, but did not answer within {_RETURN_S:.0f} s")
            if self._server.control.process is not self._process:
                self._server.control.check()
            elif self._process.poll() is not None:
                self._server.control.start_again()
            time.sleep(_LOOK_EVERY_S)
        ended = self._process.poll() is not None
        if not ended:
            self._process.intended = "running"
        return {
            "complaints": complaints,
            "server_ended": ended,
            "exit_code": self._process.exit_code,
            "returning_s": round(time.monotonic() - began_s, 3),
            "free_bytes_after": self._disk.free_bytes,
        }

    def _count_complaints(self) -> int:
        with self._log.open("rb") as log:
            log.seek(self._log_begins)
            return log.read().count(_COMPLAINT)
