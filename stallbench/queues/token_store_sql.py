"""The token store on one row with two counters, beside a table of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stallbench.queues.queue import Claim, NewJob
from stallbench.queues.sql_session import Value
from stallbench.queues.sql_store import SqlStore, now_ms
from stallbench.queues.token_store import TokenCounterStore, TokenStoreOptions


class SqlTokens(SqlStore, TokenCounterStore):
    """The row is locked only while a statement increments it, so claims wait for each other only that long."""

    def __init__(self, connection: Any, options: TokenStoreOptions) -> None:
        """Serve ``connection``."""
        super().__init__(connection, Path(__file__).with_name("token_store.sql"))
        condition = "1 = 1" if options.past_the_end else "next_token <= last_token"
        self._take = self.statements[f"take_{self.session.engine_family}"].format(there_is_one=condition)

    def install(self) -> None:
        """Create both tables and begin to count."""
        for name in (f"create_jobs_{self.session.engine_family}", "create_index", "create_counter", "begin_counting"):
            self.session.run(self.statements[name])

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Number them and insert them, in one transaction, so that no token is available before its job."""
        return self._add(jobs, lambda rows: self.session.insert(self.statements["insert"], rows))

    def load(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Do the same by the engine's quickest way in."""
        return self._add(jobs, lambda rows: self.session.load("token_store_jobs", ("token", "payload", "enqueued_at_ms"), rows))

    def take_token(self) -> int | None:
        """Count on."""
        outcome = self.session.run(self._take)
        if outcome.affected == 0:
            return None
        rows = outcome.rows or self.session.run(self.statements[f"taken_{self.session.engine_family}"]).rows
        return int(rows[0][0])

    def fetch(self, token: int) -> Claim | None:
        """Select the job by its token."""
        rows = self.session.run(self.statements["fetch"], token).rows
        return Claim(job_id=int(rows[0][0]), attempt=None, payload=rows[0][1], handle=token) if rows else None

    def complete(self, claim: Claim) -> None:
        """Delete it."""
        self.session.run(self.statements["complete"], int(claim.handle))

    def release(self, claim: Claim) -> None:
        """Give it another token, at the end."""
        self.session.begin()
        (token,) = self._number(1)
        self.session.run(self.statements["release"], token, int(claim.handle))
        self.session.commit()

    def _add(self, jobs: Sequence[NewJob], write: Callable[[Sequence[Sequence[Value]]], Sequence[int]]) -> Sequence[int]:
        at_ms = now_ms()
        self.session.begin()
        rows = [(token, job.payload, at_ms) for token, job in zip(self._number(len(jobs)), jobs, strict=True)]
        ids = write(rows)
        self.session.commit()
        return ids

    def _number(self, count: int) -> Sequence[int]:
        self.session.run(self.statements["number"], count)
        last = int(self.session.run(self.statements["last_token"]).rows[0][0])
        return range(last - count + 1, last + 1)


STORE = SqlTokens
