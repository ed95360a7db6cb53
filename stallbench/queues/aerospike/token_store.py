"""The token store on Aerospike, as the article has it: a function in Lua."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from aerospike import exception
from aerospike_helpers import expressions
from aerospike_helpers.operations import operations

from stallbench.queues.aerospike.store import AerospikeStore, as_backlog, as_claim, store_is_gone
from stallbench.queues.queue import Backlog, Claim, NewJob
from stallbench.queues.token_store import TokenCounterStore, TokenStoreOptions
from stallbench.waiting import wait_until

_FUNCTIONS = Path(__file__).with_name("token_store.lua")
_NONE, _GONE = 0, -1
"""What the function returns instead of a token: there is none; the record is not there."""
_LONGEST_S, _PAUSE_S = 10.0, 0.001
"""How long to wait for a function to be there, or for the enqueue before this one, and how often to look."""


class AerospikeTokens(AerospikeStore, TokenCounterStore):
    """Three counters in one record: the next token to be processed, the last one whose job is there, and the last one given to a job."""

    def __init__(self, connection: Any, options: TokenStoreOptions) -> None:
        """Serve ``connection``."""
        super().__init__(connection, "token_store")
        self._options = options

    def install(self) -> None:
        """Register the function, wait until the server has it, and begin to count."""
        self._register()
        if not wait_until(self._is_registered, within_s=_LONGEST_S, every_s=_PAUSE_S):
            raise exception.UDFNotFound(f"{_FUNCTIONS.name} was registered and is not there after {_LONGEST_S} s")
        self.client.put(self.store, {"last_id": 0, "next_token": 1, "last_token": 0, "given_token": 0})

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Number the jobs, write them, and only then make their tokens available: there is no transaction over both records."""
        ids = self.take_ids(len(jobs))
        tokens = self._give_tokens(len(jobs))
        self.write(tokens, jobs, ids)
        self._publish(tokens)
        return ids

    def take_token(self) -> int | None:
        """Run the article's function."""
        token = int(self.client.apply(self.store, _FUNCTIONS.stem, "take", [0 if self._options.past_the_end else 1]))
        if token == _GONE:
            raise store_is_gone()
        return None if token == _NONE else token

    def fetch(self, token: int) -> Claim | None:
        """Get the record."""
        return as_claim(self.read(token), token)

    def complete(self, claim: Claim) -> None:
        """Remove the record."""
        self.remove([claim.handle])

    def release(self, claim: Claim) -> None:
        """Give it another token, at the end."""
        tokens = self._give_tokens(1)
        self.write(tokens, [NewJob(payload=claim.payload)], [claim.job_id])
        self._publish(tokens)
        self.remove([claim.handle])

    def backlog(self) -> Backlog:
        """Take the one counter from the other, and look at the job of the next token."""
        store = self.read_store()
        return as_backlog(store["last_token"] - store["next_token"] + 1, self.read(store["next_token"]))

    def is_drained(self) -> bool:
        """Whether no token that was given has a job."""
        return next(self.job_ids(), None) is None

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Look for every token that was given."""
        store = self.read_store()
        for token, job in self.held(range(1, int(store["given_token"]) + 1)):
            yield int(job["id"]), token < store["next_token"]

    def _register(self) -> None:
        """Send the function as the client's ``udf_put`` does, which would also copy the file into the working folder, and wait for two seconds."""
        content = base64.b64encode(_FUNCTIONS.read_bytes()).decode()
        answer = self.connection.ask(
            f"udf-put:filename={_FUNCTIONS.name};content={content};content-len={len(content)};udf-type=LUA;"
        )
        if answer.lower().startswith(("error", "fail")):
            raise exception.UDFError(f"the server does not accept the function {_FUNCTIONS.name}: {answer}")

    def _is_registered(self) -> bool:
        return any(each["name"] == _FUNCTIONS.name for each in self.client.udf_list())

    def _give_tokens(self, count: int) -> Sequence[int]:
        last = self.count_up("given_token", count)
        return range(last - count + 1, last + 1)

    def _publish(self, tokens: Sequence[int]) -> None:
        """Make tokens available, after all earlier ones; raises `FilteredOut` if an earlier one never becomes available."""
        are_next = expressions.Eq(expressions.IntBin("last_token"), tokens[0] - 1)
        refusals: list[Exception] = []

        def publish() -> bool:
            try:
                self.change_store([operations.write("last_token", tokens[-1])], only_if=are_next)
            except exception.FilteredOut as error:
                refusals.append(error)
                return False
            return True

        if not wait_until(publish, within_s=_LONGEST_S, every_s=_PAUSE_S):
            raise refusals[-1]


STORE = AerospikeTokens
