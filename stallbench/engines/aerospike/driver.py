"""Aerospike, through its own client, which ``requirements/aerospike.lock`` installs; docs/stores-on-aerospike.md says what was run on a server."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from stallbench.engines.driver import CONNECT_TIMEOUT_S, SAMPLING_TIMEOUT_S, Driver
from stallbench.records.endpoint import Endpoint
from stallbench.visible_text import make_visible

try:
    from aerospike import exception

    _ERRORS: tuple[type[Exception], ...] = (exception.AerospikeError,)
except ImportError:  # optional: `AerospikeStarter` says what to install
    _ERRORS = (ImportError,)


@dataclass(frozen=True, slots=True, kw_only=True)
class AerospikeConnection:
    """A client, and the namespace and sets in which the bench may write."""

    client: Any
    namespace: str
    prefix: str
    """Prefix of the names of the bench's sets."""

    def store_set(self, queue: str) -> str:
        """Return the name of the set with the one record that a queue has beside its jobs."""
        return f"{self.prefix}_{queue}"

    def jobs_set(self, queue: str) -> str:
        """Return the name of the set with the jobs of a queue."""
        return f"{self.prefix}_{queue}_jobs"

    def empty(self, queue: str) -> None:
        """Remove all records of a queue. The server does this in the background; what is written from now on stays."""
        for name in (self.store_set(queue), self.jobs_set(queue)):
            self.client.truncate(self.namespace, name, 0)

    def ask(self, command: str) -> str:
        """Return the answer of one node to an info command, without the command, which the node repeats before a tab."""
        return str(self.client.info_random_node(command)).rpartition("\t")[2].strip()

    def close(self) -> None:
        """Close the client's connections."""
        self.client.close()


class AerospikeDriver(Driver):
    """One client for each process. The database of an endpoint is ``NAMESPACE/PREFIX``."""

    errors = _ERRORS

    def connect(self, endpoint: Endpoint, name: str) -> AerospikeConnection:
        """Connect; the client does not retry failed calls without the queue."""
        return self._connect(endpoint, timeout_s=0)

    def connect_for_sampling(self, endpoint: Endpoint, name: str) -> AerospikeConnection:
        """Connect with a time limit for every answer."""
        return self._connect(endpoint, timeout_s=SAMPLING_TIMEOUT_S)

    def abort(self, connection: AerospikeConnection) -> None:
        """Do nothing: the client crashes if it is closed while another thread uses it. A call that samples ends by its own time limit."""

    def is_closed(self, connection: AerospikeConnection) -> bool:
        """Whether the client is disconnected from its cluster."""
        return not connection.client.is_connected()

    def console(self, endpoint: Endpoint) -> str:
        """Return a command with aql."""
        return f"aql -h {endpoint.host} -p {endpoint.port}"

    def code(self, error: Exception) -> str:
        """Return the server's or the client's error number."""
        return str(getattr(error, "code", None) or super().code(error))

    def describe(self, error: Exception) -> str:
        """Return the message without its position in the client's source."""
        words = getattr(error, "msg", None)
        return make_visible(str(words), in_one_line=True) if words else super().describe(error)

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
