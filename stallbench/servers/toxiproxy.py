"""Toxiproxy, through which every client and the replication reach a database.

``toxiproxy-python`` keeps the server's address in global state, treats HTTP 500 as success and has no timeouts. This wrapper therefore reads
every change back from the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests
from toxiproxy import Toxiproxy
from toxiproxy.api import APIConsumer
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

from stallbench.base.ports import LOOPBACK, find_free_port
from stallbench.errors import NotCarriedOutError
from stallbench.processes.process import Process
from stallbench.processes.supervisor import Supervisor
from stallbench.setup.components import require_toxiproxy
from stallbench.waiting import wait_until

_START_S = 10.0
_TRIES = 5
_REFUSED = (requests.RequestException, InvalidToxic, NotFound, ProxyExists, ValueError, KeyError)


def start_toxiproxy(processes: Supervisor, logs: Path) -> ToxiproxyServer:
    """Start one on a free control port and wait until it answers; raises `NotCarriedOutError` if it does not."""
    program = require_toxiproxy()
    for _ in range(_TRIES):
        server = ToxiproxyServer(LOOPBACK, find_free_port())
        process = processes.start(
            "toxiproxy",
            "toxiproxy",
            [str(program.path), "-host", LOOPBACK, "-port", str(server.port)],
            log=logs / "toxiproxy.log",
        )
        if _wait_until_answering(server, process):
            server.version, server.process = program.version, process
            return server
        process.intended = "stopped"
        process.kill()
    raise NotCarriedOutError(f"Toxiproxy did not start within {_START_S:.0f} s{process.tail_log()}")


def _wait_until_answering(server: ToxiproxyServer, process: Process) -> bool:
    """Wait until it answers, has ended (another process may have taken its port), or `_START_S` have passed."""
    wait_until(lambda: process.poll() is not None or server.answers(), within_s=_START_S, every_s=0.02)
    return process.poll() is None and server.answers()


def join_toxiproxy(host: str, port: int) -> ToxiproxyServer:
    """Return an external one; raises `NotCarriedOutError` if it does not answer in time."""
    server = ToxiproxyServer(host, port)
    if not wait_until(server.answers, within_s=_START_S, every_s=0.2):
        raise NotCarriedOutError(f"no Toxiproxy answered on http://{host}:{port} within {_START_S:.0f} s")
    return server


class ToxiproxyServer:
    """One Toxiproxy with the proxies of a run."""

    def __init__(self, host: str, port: int) -> None:
        """Store the address of its API; sends no request."""
        self.host = host
        self.port = port
        self.version = ""
        self.process: Process | None = None
        """None if it is external."""

    def answers(self) -> bool:
        """Whether it answers; if so, `version` is set."""
        try:
            self._client()
            answer = APIConsumer.get("/version", timeout=1)
            if answer.status_code != requests.codes.ok:
                return False
            self.version = str(answer.json().get("version", ""))
        except (requests.RequestException, ValueError, AttributeError):
            return False
        return True

    def find_proxy_port(self, name: str) -> int | None:
        """Return the port on which an existing proxy listens; none if there is no proxy of that name."""
        try:
            proxy = self._client().get_proxy(name)
        except _REFUSED as error:
            raise NotCarriedOutError(f"Toxiproxy did not describe proxy {name!r}: {error}") from error
        return int(proxy.listen.rpartition(":")[2]) if proxy else None

    def add_proxy(self, name: str, upstream_port: int, upstream_host: str = LOOPBACK) -> int:
        """Put a proxy in front of a server and return the port that it listens on.

        An external Toxiproxy chooses the port itself and listens on all addresses.
        """
        listen = "0.0.0.0:0" if self.process is None else f"{LOOPBACK}:{find_free_port()}"
        try:
            self._client().create(name=name, upstream=f"{upstream_host}:{upstream_port}", listen=listen, enabled=True)
            found = self._client().get_proxy(name)
        except _REFUSED as error:
            raise NotCarriedOutError(f"Toxiproxy refused proxy {name!r}: {error}") from error
        if found is None or not found.enabled:
            raise NotCarriedOutError(f"Toxiproxy accepted proxy {name!r}, but does not list it")
        return int(found.listen.rpartition(":")[2])

    def remove_proxy(self, name: str) -> None:
        """Remove a proxy; does nothing if there is none."""
        try:
            proxy = self._client().get_proxy(name)
            if proxy is not None:
                proxy.destroy()
        except _REFUSED as error:
            raise NotCarriedOutError(f"Toxiproxy refused to remove proxy {name!r}: {error}") from error

    def clear(self, name: str) -> None:
        """Open a proxy and remove its toxics."""
        for toxic in self.toxics(name):
            self.remove_toxic(name, toxic)
        self.set_enabled(name, True)

    def set_enabled(self, name: str, enabled: bool) -> None:
        """Cut a proxy (its connections are closed, new ones refused) or open it again."""
        try:
            proxy = self._proxy(name)
            if enabled:
                proxy.enable()
            else:
                proxy.disable()
            state = self._proxy(name).enabled
        except _REFUSED as error:
            raise NotCarriedOutError(f"Toxiproxy refused to change proxy {name!r}: {error}") from error
        if state != enabled:
            raise NotCarriedOutError(f"proxy {name!r} should be {'open' if enabled else 'cut'}, but is not")

    def upstream(self, name: str) -> str:
        """Return the upstream of a proxy, as ``host:port``."""
        try:
            return str(self._proxy(name).upstream)
        except _REFUSED as error:
            raise NotCarriedOutError(f"Toxiproxy did not describe proxy {name!r}: {error}") from error

    def set_upstream(self, name: str, upstream: str) -> None:
        """Change the upstream of a proxy to another ``host:port``. Its connections are closed; its toxics stay."""
        try:
            proxy = self._proxy(name)
            # The library has no function for this.
            APIConsumer.post(f"/proxies/{name}", json={"listen": proxy.listen, "upstream": upstream, "enabled": proxy.enabled})
            found = self._proxy(name)
        except _REFUSED as error:
            raise NotCarriedOutError(f"Toxiproxy refused to change proxy {name!r}: {error}") from error
        if found.upstream != upstream or found.enabled != proxy.enabled:
            raise NotCarriedOutError(f"proxy {name!r} should have upstream {upstream}, but has {found.upstream}")

    def is_enabled(self, name: str) -> bool:
        """Whether a proxy is open."""
        try:
            return bool(self._proxy(name).enabled)
        except _REFUSED as error:
            raise NotCarriedOutError(f"Toxiproxy did not describe proxy {name!r}: {error}") from error

    def add_toxic(
        self, proxy: str, toxic: str, kind: str, *, stream: str, attributes: Mapping[str, Any], toxicity: float = 1.0
    ) -> None:
        """Add a toxic of ``kind`` to one direction (``upstream``, ``downstream``) of a proxy's connections."""
        try:
            self._proxy(proxy).add_toxic(name=toxic, type=kind, stream=stream, toxicity=toxicity, attributes=dict(attributes))
            found = self._proxy(proxy).get_toxic(toxic)
        except _REFUSED as error:
            raise NotCarriedOutError(f"Toxiproxy refused toxic {toxic!r} on {proxy!r}: {error}") from error
        if found is None or any(found.attributes.get(key) != value for key, value in attributes.items()):
            raise NotCarriedOutError(f"Toxiproxy reports other attributes of toxic {toxic!r} on {proxy!r} than were set")

    def remove_toxic(self, proxy: str, toxic: str) -> None:
        """Remove a toxic; does nothing if there is none."""
        try:
            if self._proxy(proxy).get_toxic(toxic) is not None:
                self._proxy(proxy).destroy_toxic(toxic)
            found = self._proxy(proxy).get_toxic(toxic)
        except _REFUSED as error:
            raise NotCarriedOutError(f"Toxiproxy refused to remove toxic {toxic!r} from {proxy!r}: {error}") from error
        if found is not None:
            raise NotCarriedOutError(f"toxic {toxic!r} on {proxy!r} is still in force")

    def toxics(self, proxy: str) -> dict[str, Any]:
        """Return the toxics of a proxy by name, as the server reports them."""
        try:
            return dict(self._proxy(proxy).toxics())
        except _REFUSED as error:
            raise NotCarriedOutError(f"Toxiproxy did not list the toxics on {proxy!r}: {error}") from error

    def _proxy(self, name: str) -> Any:
        proxy = self._client().get_proxy(name)
        if proxy is None:
            raise NotCarriedOutError(f"there is no proxy {name!r}")
        return proxy

    def _client(self) -> Any:
        # The library's address is global: it is set before each use, so that two servers in one process (in tests) are not confused.
        client = Toxiproxy()
        client.update_api_consumer(self.host, self.port)
        return client
