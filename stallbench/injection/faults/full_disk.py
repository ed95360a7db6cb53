"""A server's disk is full: the server refuses writes, or stops if it cannot refuse them."""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.engines import engines_with
from stallbench.engines.error_kinds import ErrorKind
from stallbench.engines.postgres.server import PostgresServer
from stallbench.engines.postgres.small_disk import SmallDisk
from stallbench.engines.starter import answers
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.fault import Fault, FaultOptions
from stallbench.injection.faults.outage import RETURN_S
from stallbench.records.injections import Evidence
from stallbench.waiting import wait_until

_POLL_S = 0.05
_WRITE_FAILED = b"No space left on device"


class FullDiskOptions(FaultOptions):
    """Options of `FullDisk`."""

    ballast: bool = Field(
        default=True,
        description="whether a file fills the disk at once; if not, it fills as the server writes, and is made larger at the end",
    )
    enlarge_after_s: Duration = Field(
        default=5.0,
        alias="enlarge_after",
        ge=0,
        le=3600,
        description="without ballast: from the server's first failed write until the disk is made larger",
    )


class FullDisk(Fault[FullDiskOptions]):
    """Ballast fills the small disk that ``database.small_disk`` asks for, and is topped up while the fault is active.

    Without ballast the fault only waits until the disk is full, and makes it four times as large some time after that, as an operator would.

    If the WAL is on that disk, the server stops (PANIC) and cannot start while the disk is full; the bench starts it when there is space again, as a
    supervisor would. If the queue's tables are on it, the server refuses statements that need another page.
    """

    kind = "full_disk"
    meanwhile = "the server's disk was full"
    summary = (
        "the disk of the server's WAL, or of the queue's tables, is full; it is over when the server accepts connections again"
    )
    source = (
        "PostgreSQL's documentation, Disk Full Failure; WAL that an unused replication slot or a failing archive command keeps"
    )
    explains_errors = frozenset({ErrorKind.DISK_FULL, ErrorKind.CONNECTION_LOST, ErrorKind.CANNOT_CONNECT})
    targets = ("primary",)
    engines = engines_with("small_disk")
    on_external = "never"
    ends_server = True
    may_end_claims = True
    needs_of_database = ("small_disk", '"wal" or "tables"')
    options_type = FullDiskOptions

    _failed_s: float | None = None
    """When the first failed write was seen."""

    def inject(self) -> Evidence:
        """Fill the disk, or let the server fill it."""
        self._server = self.context.cluster.server(self.on)
        control = self._server.control
        if not isinstance(control, PostgresServer) or control.process is None or not isinstance(control.disk, SmallDisk):
            raise NotCarriedOutError(f'{self.on} has no small disk; give it one by database.small_disk = "wal" or "tables"')
        self._disk, self._process = control.disk, control.process
        self._log: Path = control.log
        self._log_begins = self._log.stat().st_size
        self._process.intended = "killed"  # a full disk may end the server: that is not an unexpected exit
        ballast_bytes = self._disk.fill() if self.options.ballast else 0
        return {"ballast_bytes": ballast_bytes, "free_bytes": self._disk.free_bytes}

    def tick(self) -> None:
        """Fill the space that has become free; without ballast, search the log for the first failed write."""
        if self.options.ballast:
            self._disk.fill()
        elif self._failed_s is None and self._count_failed_writes():
            self._failed_s = time.monotonic()

    def is_over(self) -> bool:
        """Without ballast: whether the disk has been full for long enough."""
        return self._failed_s is not None and time.monotonic() >= self._failed_s + self.options.enlarge_after_s

    def why_inactive(self) -> str | None:
        """Check in the server's log that it failed to write: a server that needs no more space is not affected."""
        return None if self._count_failed_writes() else f"the disk was full, but {self.on} did not try to write more"

    def undo(self) -> Evidence:
        """Free or enlarge the disk, start the server if it has ended, and wait until it accepts connections."""
        if not hasattr(self, "_disk"):
            return {}
        failed_writes = self._count_failed_writes()
        if self.options.ballast:
            self._disk.clear()
        else:
            self._disk.enlarge()
        began_s = time.monotonic()
        if not wait_until(self._has_returned, within_s=RETURN_S, every_s=_POLL_S):
            raise NotCarriedOutError(f"{self.on} did not accept connections within {RETURN_S:.0f} s after its disk was freed")
        ended = self._process.poll() is not None
        if not ended:
            self._process.intended = "running"
        return {
            "failed_writes": failed_writes,
            "server_ended": ended,
            "exit_code": self._process.exit_code,
            "returning_s": round(time.monotonic() - began_s, 3),
            "free_bytes_after": self._disk.free_bytes,
        }

    def _has_returned(self) -> bool:
        """Whether the server accepts connections; start it if it has ended."""
        if answers(self._server.direct):
            return True
        if self._server.control.process is not self._process:
            self._server.control.check()
        elif self._process.poll() is not None:
            self._server.control.start_again()
        return False

    def _count_failed_writes(self) -> int:
        with self._log.open("rb") as log:
            log.seek(self._log_begins)
            return log.read().count(_WRITE_FAILED)
