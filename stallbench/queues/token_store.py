"""The token store: jobs are numbered as they come, and one record has the number of the next job to be processed.

A worker takes that number in one atomic read-increment-write, then fetches its job. There is no race, the cost of a claim is constant, and no
list can grow too large. But if a worker dies, the job of its number is lost.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from pydantic import Field

from stallbench.queues.queue import Claim, QueueOptions
from stallbench.queues.store_queue import JobStore, StoreQueue


class TokenStoreOptions(QueueOptions):
    """Options of the function that takes a token."""

    past_the_end: bool = Field(
        default=False,
        description=(
            "whether it also takes a token that no job has yet, as the article's function does, which was never called on an empty queue; "
            "the job that then gets it is lost"
        ),
    )


class TokenCounterStore(JobStore):
    """A store with an atomic counter."""

    @abstractmethod
    def take_token(self) -> int | None:
        """Read the token, increment it, write it, return the old one, all as one; none, and nothing written, at the end of the queue."""

    @abstractmethod
    def fetch(self, token: int) -> Claim | None:
        """Return the job that has the token; none if none has it."""


class TokenStore(StoreQueue[TokenStoreOptions, TokenCounterStore]):
    """Take a token, then fetch its job. The counter only increases: a job that was passed is never found again."""

    kind = "token_store"
    summary = "takes the next token in one atomic read-increment-write, then fetches the job that has it"
    engines = frozenset({"aerospike", "redis", "postgres", "mariadb", "mysql"})
    options_type = TokenStoreOptions
    tables = ("token_store_jobs", "token_store")
    claim_pattern = r"^UPDATE token_store SET next_token"
    indexes = ("token_store_jobs_token",)

    def claim(self) -> Sequence[Claim]:
        """Take one token, and fetch its job."""
        token = self.store.take_token()
        found = None if token is None else self.store.fetch(token)
        return [] if found is None else [found]
