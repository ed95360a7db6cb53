"""Periodic jobs: each producer knows the schedule, and only the leader enqueues. The other producers' jobs are refused.

A producer is the leader until its lease is over. One that stands still for longer does not know that another has taken over.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from stallbench.queues.queue import NewJob, RefusedError
from stallbench.queues.statements import read_statements
from stallbench.queues.status_column import StatusColumnOptions
from stallbench.queues.unique_jobs import UniqueJobs, UniqueJobsOptions

_STATEMENTS = read_statements(Path(__file__).with_suffix(".sql"))


class PeriodicJobsOptions(UniqueJobsOptions):
    """Options of the leader; those of the enqueue are those of `unique_jobs`."""

    leader: Literal["anyone", "row", "node", "fenced"] = Field(
        default="anyone",
        description="who may enqueue: every producer; the leader, who renews whatever lease there is; the leader, who renews only its own; "
        "the same, and each enqueue locks the lease and checks it in its transaction",
    )
    lease_s: float = Field(
        default=3.0, gt=0, le=3600, alias="lease", description="seconds after which a leader that is not heard of is replaced"
    )
    elect_every_s: float = Field(
        default=0.5,
        gt=0,
        le=3600,
        alias="elect_every",
        description="seconds between two elections, in which a leader renews its lease",
    )


class PeriodicJobs(UniqueJobs):
    """A leader with a lease."""

    kind = "periodic_jobs"
    summary = "only a leader with a lease enqueues; the jobs of the other producers are refused; claims as status_column does"
    source = "Oban.Peers.Database, whose renewal matched the row by its name alone up to 2.23.0 (Oban issue 1488)"
    options_type = PeriodicJobsOptions

    def __init__(self, connection: Any, options: StatusColumnOptions) -> None:
        """Serve ``connection``; it is no leader until an election."""
        super().__init__(connection, options)
        assert isinstance(options, PeriodicJobsOptions)
        self._lease = options
        self._node = b""
        self._leads = False
        self._elect_at_s = 0.0
        self.statements |= _STATEMENTS

    def introduce(self, endpoint: Any, name: str) -> None:
        """Take the process's name as that of the node."""
        self._node = name.encode()

    def install(self) -> None:
        """Create the tables and indexes."""
        super().install()
        self.execute("create_leader")

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Insert the jobs in one transaction, if this producer leads. Raises `RefusedError` if it does not, or as `UniqueJobs` does."""
        if self._lease.leader != "anyone" and not self._find_leadership():
            raise RefusedError("another producer is the leader")
        return super().enqueue(jobs)

    def _find_leadership(self) -> bool:
        """Whether this producer believes that it leads: by its latest election, which is repeated when it is due."""
        if time.monotonic() >= self._elect_at_s:
            renewal = "renew_row" if self._lease.leader == "row" else "renew_own"
            lease = (self._node, str(self._lease.lease_s).encode())
            self._leads = bool(self._leads and self.execute(renewal, *lease).ntuples) or bool(
                self.execute("run_for_election", *lease).ntuples
            )
            self._elect_at_s = time.monotonic() + self._lease.elect_every_s
        return self._leads

    def check_before_insert(self) -> None:
        """With a fence, raise `RefusedError` if this producer does not lead, and let nobody else lead before the transaction ends."""
        if self._lease.leader == "fenced" and not self.execute("is_leader", self._node).ntuples:
            raise RefusedError("the lease of this producer is over")
