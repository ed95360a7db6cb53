"""Aerospike, through its own client, an extra: ``requirements/aerospike.lock``. Never run against a server yet (docs/stores-on-aerospike.md)."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from stallbench.engines.driver import CONNECT_TIMEOUT_S, SAMPLING_TIMEOUT_S, Driver
from stallbench.records.endpoint import Endpoint

try:
    from aerospike import exception

    _ERRORS: tuple[type[Exception], ...] = (exception.AerospikeError,)
except ImportError:  # an extra: `AerospikeStarter.find_obstacle` says what to install
    _ERRORS = (ImportError,)


@dataclass(frozen=True, slots=True, kw_only=True)
class AerospikeConnection:
    """A client, and where on its cluster the bench may write."""

    client: Any
    namespace: str
    prefix: str
    """What the names of the bench's sets begin with."""

    def close(self) -> None:
        """Close the client's connections."""
        self.client.close()


class AerospikeDriver(Driver):
    """One client a process. An endpoint's database is ``NAMESPACE/PREFIX``."""

    errors = _ERRORS

    def connect(self, endpoint: Endpoint, name: str) -> AerospikeConnection:
        """Connect; a call that fails is not tried again behind the queue's back."""
        return self._connect(endpoint, timeout_s=0)

    def connect_for_sampling(self, endpoint: Endpoint, name: str) -> AerospikeConnection:
        """Connect with a time limit on every answer."""
        return self._connect(endpoint, timeout_s=SAMPLING_TIMEOUT_S)

    def is_closed(self, connection: AerospikeConnection) -> bool:
        """Whether the client has given its cluster up."""
        return not connection.client.is_connected()

    def console(self, endpoint: Endpoint) -> str:
        """Return a call of aql."""
        return f"aql -h {endpoint.host} -p {endpoint.port}"

    def code(self, error: Exception) -> str:
        """Return the server's or the client's error number."""
        return str(getattr(error, "code", None) or super().code(error))

    def describe(self, error: Exception) -> str:
        """Return the message without its place in the client's source."""
        return str(getattr(error, "msg", None) or super().describe(error))

    def _connect(self, endpoint: Endpoint, timeout_s: float) -> AerospikeConnection:
        policy = {"total_timeout": int(timeout_s * 1000), "max_retries": 0}
        config: dict[str, Any] = {
            "hosts": [(endpoint.host, endpoint.port)],
            "connect_timeout": CONNECT_TIMEOUT_S * 1000,
            "policies": dict.fromkeys(("read", "write", "operate", "apply", "batch"), policy),
        }
        if endpoint.user:
            config |= {"user": endpoint.user, "password": endpoint.password.get_secret_value()}
        namespace, _, prefix = endpoint.database.partition("/")
        return AerospikeConnection(client=import_module("aerospike").client(config).connect(), namespace=namespace, prefix=prefix)


DRIVER = AerospikeDriver()
