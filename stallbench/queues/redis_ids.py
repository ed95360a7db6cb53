"""Ids of jobs on Redis, which a server that forgets must not give twice."""

from __future__ import annotations

import time
from collections.abc import Sequence

import redis

_ADOPT = """
-- Notes in KEYS[1] which run of the server gives ids (ARGV[1]), and lets the last id in KEYS[2] leap to ARGV[2] if it is another.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    redis.call('set', KEYS[1], ARGV[1])
    redis.call('set', KEYS[2], ARGV[2])
end
return true
"""


class RedisIds:
    """Numbers that count, and begin anew far above whatever a server that lost its last seconds has forgotten."""

    def __init__(self, connection: redis.Redis, prefix: str) -> None:
        """Keep the count in ``<prefix>:last-id`` and ``<prefix>:run-id``."""
        self._connection = connection
        self._keys = [f"{prefix}:run-id", f"{prefix}:last-id"]
        self._adopt = connection.register_script(_ADOPT)
        self._are_new = False

    def install(self) -> None:
        """Let ids begin at 1."""
        self._adopt(self._keys, [self._run_id(), 0])

    def take(self, count: int) -> Sequence[int]:
        """Return so many new ids."""
        if not self._are_new:
            # Once for each connection, and a server's new run means a new connection: no id is given twice, whatever it has lost.
            self._adopt(self._keys, [self._run_id(), time.time_ns() // 1000])
            self._are_new = True
        last = int(self._connection.incrby(self._keys[1], count))
        return range(last - count + 1, last + 1)

    def _run_id(self) -> str:
        """Return what the server calls its own run; it is another after each start."""
        return str(self._connection.info("server")["run_id"])
