"""Connects to the external servers of a run: checks each, changes the settings that it may change, and records what to undo."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stallbench.base.section import SettingValue
from stallbench.engines import ENGINES
from stallbench.engines.adapter import InstalledQueue, ServerAdapter
from stallbench.engines.database import Database
from stallbench.errors import NotCarriedOutError
from stallbench.processes.process import Process
from stallbench.processes.supervisor import Supervisor
from stallbench.records.endpoint import Endpoint
from stallbench.servers.addresses import ExternalServers
from stallbench.servers.cleanup_journal import CleanupJournal
from stallbench.servers.cluster import Cluster, Server
from stallbench.servers.record import Role

if TYPE_CHECKING:
    from stallbench.servers.toxiproxy import ToxiproxyServer


@contextmanager
def open_adapter(server: str, endpoint: Endpoint, list_key: str = "") -> Iterator[ServerAdapter]:
    """Connect an adapter to ``endpoint`` for as long as the block lasts; arguments and errors are those of `ServerAdapter`."""
    adapter_type = ENGINES[endpoint.engine].adapter()
    assert adapter_type is not None, "there is no address of such a server"
    adapter = adapter_type(server, endpoint, list_key)
    try:
        yield adapter
    finally:
        adapter.close()


@dataclass(slots=True)
class ExternalServerControl:
    """The `ServerControl` of an external server, which the bench neither starts nor stops."""

    name: str
    endpoint: Endpoint
    version: str
    settings_in_force: dict[str, str] = field(default_factory=dict)
    process: Process | None = None
    log: Path | None = None
    list_key: str = field(default="", repr=False)
    """See `ServerAdapter.list_key`."""

    def stop(self) -> None:
        """Leave it running: the bench did not start it."""

    def kill(self) -> None:
        """Refuse; raises `NotCarriedOutError`."""
        raise NotCarriedOutError(f"{self.name} is external; the bench neither kills nor restarts a server that it did not start")

    start_again = kill

    def check(self) -> None:
        """Do nothing: if it ends, its clients record errors."""


def join_cluster(
    external_servers: ExternalServers,
    database: Database,
    *,
    journal: CleanupJournal,
    logs: Path,
    processes: Supervisor,
    progress: Callable[[str], None],
) -> Cluster:
    """Return the servers, after checks that each is reachable, empty, and has the role and settings that ``database`` requires.

    Each change is recorded in ``journal`` before it is made. Raises `NotCarriedOutError`.
    """
    from stallbench.servers.toxiproxy import join_toxiproxy, start_toxiproxy

    if external_servers.toxiproxy:
        toxiproxy = join_toxiproxy(*external_servers.toxiproxy)
        journal.record_toxiproxy(*external_servers.toxiproxy)
    else:
        toxiproxy = start_toxiproxy(processes, logs)
    cluster = Cluster(toxiproxy)
    for name, endpoint in external_servers.servers.items():
        role: Role = "primary" if name == "primary" else "replica"
        with open_adapter(name, endpoint) as adapter:
            adapter.require_role(role)
            # First the database: one that is not empty, or in use, is refused before anything on its server is changed.
            if role == "primary":
                adapter.prepare_database()
                journal.record_database(name, endpoint, adapter.list_key)
            _require_settings(adapter, _wanted_settings(database, role), journal if external_servers.may_change_servers else None)
            control = ExternalServerControl(
                name, endpoint, adapter.read_version(), adapter.read_settings(), list_key=adapter.list_key
            )
        proxied = _put_behind_proxy(toxiproxy, name, endpoint, journal)
        proxied = proxied.model_copy(update={"prepared_statements": database.prepared_statements})
        cluster.servers.append(
            Server(
                name=name,
                role=role,
                direct=endpoint,
                proxied=proxied,
                control=control,
                start_ns=time.time_ns(),
            )
        )
        title = ENGINES[database.engine].title
        progress(f"{name} is external: {title} {control.version} on {endpoint.host}, behind Toxiproxy {toxiproxy.version}")
    return cluster


def install(queue: InstalledQueue, primary: Server) -> None:
    """Let ``queue`` create its tables in the primary's database; if the bench did not start that, record there what is known to be its own."""
    if not isinstance(primary.control, ExternalServerControl):
        queue.install()
        return
    with open_adapter(primary.name, primary.direct, primary.control.list_key) as adapter:
        adapter.install(queue)


def record_declared(server: Server, tables: Iterable[str], patterns: Iterable[str]) -> None:
    """Record again what a queue declares to be its own, after its tables were changed on ``server``; only if the bench did not start that.

    Arguments as of `ServerAdapter.record_declared`.
    """
    if isinstance(server.control, ExternalServerControl):
        with open_adapter(server.name, server.direct, server.control.list_key) as adapter:
            adapter.record_declared(tables, patterns)


def create_recorded(server: Server, connection: Any, create: Callable[[], None]) -> None:
    """Create objects in the queue's database on ``server`` by ``connection``, and record them, so that they are also removed if the bench is killed.

    Nothing is recorded on a server that the bench has started: it ends with the run.
    """
    if not isinstance(server.control, ExternalServerControl):
        create()
        return
    with open_adapter(server.name, server.direct, server.control.list_key) as adapter:
        adapter.create_recorded(connection, create)


def _wanted_settings(database: Database, role: str) -> dict[str, SettingValue]:
    wanted = dict(database.settings)
    if role == "replica":
        wanted |= ENGINES[database.engine].settings_of_replicas(database)
        wanted |= database.replica_settings
    return wanted


def _require_settings(adapter: ServerAdapter, wanted: Mapping[str, SettingValue], journal: CleanupJournal | None) -> None:
    differing = adapter.find_differing(wanted)
    if differing and journal is None:
        described = ", ".join(f"{name} (is {is_!r}, wanted {want!r})" for name, (is_, want) in differing.items())
        raise NotCarriedOutError(
            f"{adapter.name} has other settings than the scenario asks for: {described}. Set them there, leave them out with "
            "--set, or let the bench set them and reset them after the run: --allow-server-changes"
        )
    for name, (before, _) in differing.items():
        assert journal is not None
        journal.record_setting(adapter.name, adapter.endpoint, name, before, was_overridden=adapter.is_overridden(name))
        adapter.change_setting(name, wanted[name])
    if still := adapter.find_differing({name: wanted[name] for name in differing}):
        described = ", ".join(f"{name} is {is_!r}, not {want!r}" for name, (is_, want) in still.items())
        raise NotCarriedOutError(f"{adapter.name} does not have the scenario's settings after the change: {described}")


def _put_behind_proxy(toxiproxy: ToxiproxyServer, name: str, endpoint: Endpoint, journal: CleanupJournal) -> Endpoint:
    """Use the proxy of that name if there is one, else create it. Faults also use a proxy ``replication-<name>`` if there is one."""
    for used in (name, f"replication-{name}"):
        if toxiproxy.process is None and toxiproxy.find_proxy_port(used) is not None:
            journal.record_cleared_proxy(used)
    port = toxiproxy.find_proxy_port(name)
    if port is None:
        if toxiproxy.process is None:
            journal.record_created_proxy(name)
        port = toxiproxy.add_proxy(name, endpoint.port, endpoint.host)
    if endpoint.parameters:  # the server's own name stays, because its certificate is checked against that
        return endpoint.model_copy(update={"proxy_host": toxiproxy.host, "port": port})
    return endpoint.model_copy(update={"host": toxiproxy.host, "port": port})
