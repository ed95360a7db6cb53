"""Job ids on Redis that stay unique after a server has lost its latest writes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    """Ascending numbers, which restart far above any id that a crashed server may have forgotten."""

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
            # Once per connection, and a restarted server means a new connection: no id is assigned twice, even if the server has lost writes.
            self._adopt(self._keys, [self._run_id(), time.time_ns() // 1000])
            self._are_new = True
        last = int(self._connection.incrby(self._keys[1], count))
        return range(last - count + 1, last + 1)

    def _run_id(self) -> str:
        """Return the server's run id; it changes at each start."""
        return str(self._connection.info("server")["run_id"])
