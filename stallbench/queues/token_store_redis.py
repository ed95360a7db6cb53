"""The token store on Redis."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from stallbench.queues.queue import Backlog, Claim, NewJob
from stallbench.queues.redis_store import RedisStore, age_s, as_claim
from stallbench.queues.token_store import TokenCounterStore, TokenStoreOptions

_NUMBER = """
-- Adds the jobs ARGV to the hash KEYS[2], each under the token that follows the last one, KEYS[1].
for _, job in ipairs(ARGV) do
    redis.call('hset', KEYS[2], redis.call('incr', KEYS[1]), job)
end
return true
"""
_TAKE = """
-- Reads the next token from KEYS[1], increments it, writes it, and returns the old one. If ARGV[1] is 1 and the token is greater than the
-- last one that a job has, KEYS[2], nothing is written, and it returns false.
local token = tonumber(redis.call('get', KEYS[1]) or 1)
if ARGV[1] == '1' and token > tonumber(redis.call('get', KEYS[2]) or 0) then
    return false
end
redis.call('set', KEYS[1], token + 1)
return token
"""


class RedisTokens(RedisStore, TokenCounterStore):
    """Two counters: the token of the next job to be processed, and the last one that was given to a job."""

    def __init__(self, connection: Any, options: TokenStoreOptions) -> None:
        """Make the scripts known."""
        super().__init__(connection, "token_store")
        self._options = options
        self._next, self._last = "token_store_next", "token_store_last"
        self._number = self.connection.register_script(_NUMBER)
        self._take = self.connection.register_script(_TAKE)

    def enqueue(self, jobs: Sequence[NewJob]) -> Sequence[int]:
        """Give each the token that follows the last one."""
        ids, written = self.write(jobs)
        self._number([self._last, self.jobs], written)
        return ids

    def take_token(self) -> int | None:
        """Run the article's function."""
        token = self._take([self._next, self._last], [0 if self._options.past_the_end else 1])
        return None if token is None else int(token)

    def fetch(self, token: int) -> Claim | None:
        """HGET."""
        return as_claim(self.connection.hget(self.jobs, str(token)), token)

    def complete(self, claim: Claim) -> None:
        """HDEL."""
        self.connection.hdel(self.jobs, str(claim.handle))

    def release(self, claim: Claim) -> None:
        """Give it another token, at the end."""
        for field, job in self.held([str(claim.handle)]):
            self._number([self._last, self.jobs], [job])
            self.connection.hdel(self.jobs, field)

    def backlog(self) -> Backlog:
        """Take the one counter from the other, and look at the job of the next token."""
        token, last = self._read_counters()
        depth = max(0, last - token + 1)
        return Backlog(depth=depth, oldest_job_s=age_s(self.connection.hget(self.jobs, str(token))) if depth else None)

    def job_ids(self) -> Iterator[tuple[int, bool]]:
        """Look for every token that was given."""
        token, last = self._read_counters()
        for field, job in self.held(range(1, last + 1)):
            yield int(json.loads(job)["id"]), field < token

    def _read_counters(self) -> tuple[int, int]:
        token, last = self.connection.mget(self._next, self._last)
        return int(token or 1), int(last or 0)


STORE = RedisTokens
