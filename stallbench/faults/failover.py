"""The primary dies for good, and a replica takes its place."""

from __future__ import annotations

import time
from typing import Any

from pydantic import Field

from stallbench.engines.error_kinds import ErrorKind
from stallbench.errors import NotCarriedOutError
from stallbench.faults.fault import Fault, FaultOptions
from stallbench.scenario.duration import Duration
from stallbench.servers.promotion import find_bytes_behind, promote
from stallbench.servers.starter import answers


class PromoteOptions(FaultOptions):
    """Options of `Promote`."""

    detect_after_s: Duration = Field(
        default=2.0,
        alias="detect_after",
        ge=0,
        le=3600,
        description="from the primary's death until somebody believes in it and promotes the replica",
    )


class Promote(Fault[PromoteOptions]):
    """A failover.

    The primary's machine dies with everything that was on its way to the replica, and never comes back. The replica is promoted, and the
    proxy of the primary leads to it: clients come back to the address that they know, and find what the replica had received. It is over when they can.
    """

    kind = "promote"
    summary = "the primary is killed and stays dead; this replica is promoted and takes over its address"
    source = "asynchronous replication; PostgreSQL's documentation of failover, GitHub's post-incident analysis of October 2018"
    explains_errors = frozenset({ErrorKind.CONNECTION_LOST, ErrorKind.CANNOT_CONNECT, ErrorKind.READ_ONLY})
    places = ("replica",)
    on_external = "never"
    ends_server = True
    engines = frozenset({"postgres", "mariadb", "mysql"})
    options_type = PromoteOptions

    _is_promoted = False

    def inject(self) -> dict[str, Any]:
        """Kill the primary, and cut the way on which it sent."""
        cluster = self.context.cluster
        self._dead, replica = cluster.server("primary"), cluster.server(self.on)
        if replica is self._dead:
            raise NotCarriedOutError(f"{self.on} is the primary already")
        behind_bytes = find_bytes_behind(self._dead.direct, replica.direct, self.on)
        self._dead.control.kill()
        cluster.toxiproxy.set_enabled(f"replication-{self.on}", enabled=False)
        self._died_s = time.monotonic()
        if answers(self._dead.direct):
            raise NotCarriedOutError(f"{self._dead.name} was killed, but answers")
        return {"killed": self._dead.name, "behind_bytes": behind_bytes}

    def keep_up(self) -> None:
        """Promote the replica when the time has come."""
        if self._is_promoted or time.monotonic() < self._died_s + self.options.detect_after_s:
            return
        began_s = time.monotonic()
        self._evidence = promote(self.context.cluster.server(self.on).direct)
        self.context.cluster.set_primary(self.on)
        self._evidence |= {
            "promoted": self.on,
            "promotion_s": round(time.monotonic() - began_s, 3),
            "down_s": round(time.monotonic() - self._died_s, 3),
        }
        self._is_promoted = True

    def is_over(self) -> bool:
        """Whether clients reach the promoted one."""
        return self._is_promoted and answers(self.context.cluster.server("primary").proxied)

    def find_lapse(self) -> str | None:
        """Look whether the dead one has stayed dead, and the replica has been promoted at all."""
        if not self._is_promoted:
            return f"its time ended before {self.on} was promoted"
        return f"{self._dead.name} answers, although it is dead" if answers(self._dead.direct) else None

    def undo(self) -> dict[str, Any]:
        """Put nothing back: the promoted one stays the primary to the run's end."""
        return self._evidence if self._is_promoted else {}
