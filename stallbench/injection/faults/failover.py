"""The primary is lost for good, and a replica is promoted in its place."""

from __future__ import annotations

import time

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.engines import ENGINES
from stallbench.engines.error_kinds import ErrorKind
from stallbench.engines.starter import answers
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.fault import Fault, FaultOptions
from stallbench.records.injections import Evidence


class PromoteOptions(FaultOptions):
    """Options of `Promote`."""

    detect_after_s: Duration = Field(
        default=2.0,
        alias="detect_after",
        ge=0,
        le=3600,
        description="from the kill of the primary to the promotion of the replica: the time that failure detection takes",
    )


class Promote(Fault[PromoteOptions]):
    """A failover.

    The primary's machine is lost with everything that the replica had not received yet, and never returns. The replica is promoted, and the
    primary's proxy leads to it: clients reconnect to the address that they know and find what the replica had received. The fault is over when
    clients can reconnect.
    """

    kind = "promote"
    meanwhile = "a replica took over from the primary server"
    passes_pooler = True
    summary = "the primary is killed and not restarted; this replica is promoted and takes over its address"
    source = "asynchronous replication; PostgreSQL's documentation of failover, GitHub's post-incident analysis of October 2018"
    explains_errors = frozenset({ErrorKind.CONNECTION_LOST, ErrorKind.CANNOT_CONNECT, ErrorKind.READ_ONLY})
    targets = ("replica",)
    on_external = "never"
    ends_server = True
    may_end_claims = True
    engines = frozenset(name for name, engine in ENGINES.items() if engine.has_replicas)
    options_type = PromoteOptions

    _is_promoted = False

    def inject(self) -> Evidence:
        """Kill the primary, and close the link over which it replicated."""
        cluster = self.context.cluster
        self._old_primary, replica = cluster.server("primary"), cluster.server(self.on)
        if replica is self._old_primary:
            raise NotCarriedOutError(f"{self.on} is the primary already")
        replication = ENGINES[replica.direct.engine].replication()
        behind_bytes = replication.find_bytes_behind(self._old_primary.direct, replica.direct, self.on)
        self._old_primary.control.kill()
        cluster.toxiproxy.set_enabled(f"replication-{self.on}", enabled=False)
        self._killed_s = time.monotonic()
        if answers(self._old_primary.direct):
            raise NotCarriedOutError(f"{self._old_primary.name} was killed, but it still accepts connections")
        return {"killed": self._old_primary.name, "behind_bytes": behind_bytes}

    def tick(self) -> None:
        """Promote the replica after the time that failure detection takes."""
        if self._is_promoted or time.monotonic() < self._killed_s + self.options.detect_after_s:
            return
        began_s = time.monotonic()
        replica = self.context.cluster.server(self.on).direct
        self._evidence = ENGINES[replica.engine].replication().promote(replica)
        self.context.cluster.set_primary(self.on)
        self._evidence |= {
            "promoted": self.on,
            "promotion_s": round(time.monotonic() - began_s, 3),
            "down_s": round(time.monotonic() - self._killed_s, 3),
        }
        self._is_promoted = True

    def is_over(self) -> bool:
        """Whether clients can reach the promoted replica."""
        return self._is_promoted and answers(self.context.cluster.server("primary").proxied)

    def why_inactive(self) -> str | None:
        """Check that the replica was promoted, and that the old primary has not returned."""
        if not self._is_promoted:
            return f"it ended before {self.on} was promoted"
        return (
            f"{self._old_primary.name} accepts connections although it was killed" if answers(self._old_primary.direct) else None
        )

    def undo(self) -> Evidence:
        """Undo nothing: the promoted replica stays the primary until the run ends."""
        return self._evidence if self._is_promoted else {}
