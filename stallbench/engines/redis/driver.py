"""Redis, through redis-py."""

from __future__ import annotations

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from stallbench.engines.driver import CONNECT_TIMEOUT_S, SAMPLING_TIMEOUT_S, Driver
from stallbench.records.endpoint import Endpoint


class RedisDriver(Driver):
    """One persistent connection for each client; the library does not retry failed calls without the queue."""

    errors = (redis.RedisError,)

    def connect(self, endpoint: Endpoint, name: str) -> redis.Redis:
        """Connect and send PING; raises `redis.ConnectionError` if the server cannot be reached."""
        return self._connect(endpoint, name, None)

    def connect_for_sampling(self, endpoint: Endpoint, name: str) -> redis.Redis:
        """Connect with a time limit for every answer."""
        return self._connect(endpoint, name, SAMPLING_TIMEOUT_S)

    def is_closed(self, connection: redis.Redis) -> bool:
        """Whether the client has closed its connection."""
        return connection.connection is None

    def read_clock(self, connection: redis.Redis) -> int:
        """Return it by TIME, with a resolution of 1 µs."""
        seconds, microseconds = connection.time()
        return (int(seconds) * 1_000_000 + int(microseconds)) * 1000

    def console(self, endpoint: Endpoint) -> str:
        """Return a command with redis-cli."""
        return f"REDISCLI_AUTH={endpoint.password.get_secret_value()} redis-cli -h {endpoint.host} -p {endpoint.port}"

    def _connect(self, endpoint: Endpoint, name: str, timeout_s: float | None) -> redis.Redis:
        client = redis.Redis(
            host=endpoint.host,
            port=endpoint.port,
            password=endpoint.password.get_secret_value() or None,
            client_name=f"stallbench:{name}",
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            socket_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            single_connection_client=True,
        )
        client.ping()
        return client


DRIVER = RedisDriver()
