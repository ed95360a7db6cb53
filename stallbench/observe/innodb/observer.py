"""Makes the observer of a MariaDB or MySQL server: its sessions, its subjects, and what its errors mean."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from stallbench.engines.innodb.driver import DRIVER
from stallbench.engines.innodb.encryption import Encryption
from stallbench.observe.address import PRIMARY, ObservedServers
from stallbench.observe.diagnostic import Diagnostic, NotVisible, Reading
from stallbench.observe.formatting import format_age
from stallbench.observe.innodb.blocking import InnoDBBlockingDiagnostic
from stallbench.observe.innodb.horizon import InnoDBHorizonDiagnostic
from stallbench.observe.innodb.lock_waits import InnoDBLockWaitsDiagnostic
from stallbench.observe.innodb.prepared import InnoDBPreparedDiagnostic
from stallbench.observe.innodb.queues import InnoDBQueuesDiagnostic
from stallbench.observe.innodb.rights import InnoDBRightsDiagnostic
from stallbench.observe.innodb.servers import InnoDBConnectionsDiagnostic, InnoDBReplicationDiagnostic
from stallbench.observe.innodb.session import InnoDBSession
from stallbench.observe.innodb.statements import InnoDBStatementsDiagnostic
from stallbench.observe.observer import Observer
from stallbench.observe.postgres.queues import QueuesDiagnostic

if TYPE_CHECKING:
    from stallbench.observe.postgres.load import LoadDiagnostic

_REFUSED = {1044, 1045, 1142, 1143, 1227, 1356, 1370}


def make_innodb_observer(servers: ObservedServers, queues: QueuesDiagnostic, load: LoadDiagnostic | None = None) -> Observer:
    """Return the observer. ``queues``: finds and counts the queues. ``load``: records the load of the queue."""
    assert isinstance(queues, InnoDBQueuesDiagnostic), "of this family of engines"
    return _make_observer(
        servers,
        [
            InnoDBRightsDiagnostic(),
            InnoDBLockWaitsDiagnostic(),
            InnoDBHorizonDiagnostic(),
            InnoDBPreparedDiagnostic(),
            queues,
            InnoDBBlockingDiagnostic(),
            InnoDBStatementsDiagnostic(),
            InnoDBReplicationDiagnostic(),
            InnoDBConnectionsDiagnostic(),
            *([load] if load else []),
        ],
    )


def make_innodb_observer_since(servers: ObservedServers, since: datetime) -> Observer:
    """Return an observer of what the server still knows of the time from ``since`` on, for one reading."""
    from stallbench.observe.innodb.since.counters import InnoDBCountersDiagnostic
    from stallbench.observe.innodb.since.latest_deadlock import LatestDeadlockDiagnostic
    from stallbench.observe.innodb.since.logged_settings import InnoDBLoggedSettingsDiagnostic
    from stallbench.observe.innodb.since.longest_executions import InnoDBLongestExecutionsDiagnostic

    return _make_observer(
        servers,
        [
            InnoDBRightsDiagnostic(),
            InnoDBCountersDiagnostic(since),
            LatestDeadlockDiagnostic(),
            InnoDBLongestExecutionsDiagnostic(since),
            InnoDBHorizonDiagnostic(),
            InnoDBPreparedDiagnostic(),
            InnoDBReplicationDiagnostic(),
            InnoDBLoggedSettingsDiagnostic(),
        ],
    )


def _make_observer(servers: ObservedServers, diagnostics: Sequence[Diagnostic]) -> Observer:
    endpoints = {PRIMARY: servers.primary, **servers.replicas}

    def open_session(name: str) -> InnoDBSession:
        encryption = servers.encryption.get(name)
        assert encryption is None or isinstance(encryption, Encryption)
        return InnoDBSession(endpoints[name], name, encryption)

    return Observer(
        open_session,
        tuple(servers.replicas),
        diagnostics,
        describe=_describe,
        explain=_explain,
    )


def _describe(reading: Reading) -> str:
    endpoint, state = reading.server.endpoint, reading.state
    if not state.version:
        return f"{endpoint.host}:{endpoint.port}"
    product = "MariaDB" if "mariadb" in state.version.lower() else "MySQL"
    return (
        f"{state.database} on {endpoint.host}:{endpoint.port}: {product} {state.version.partition('-')[0]}, "
        f"{'read-only' if state.is_replica else 'accepts writes'}, up for {format_age(state.up_s)}; read-only as {state.user}"
    )


def _explain(subject: Diagnostic, error: Exception) -> NotVisible:
    words = DRIVER.describe(error)
    if error.args and error.args[0] in _REFUSED:
        return NotVisible(what=subject.what, why=f"the server refuses: {words}")
    return NotVisible(what=subject.what, why=words)
