"""Makes the observer of a MariaDB or MySQL server: its sessions, its subjects, and what its errors mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallbench.engines.mysql import DRIVER
from stallbench.observe.address import PRIMARY, ObservedServers
from stallbench.observe.formatting import format_age
from stallbench.observe.innodb.blocking import InnoDBBlockingSubject
from stallbench.observe.innodb.horizon import InnoDBHorizonSubject
from stallbench.observe.innodb.lock_waits import InnoDBLockWaitsSubject
from stallbench.observe.innodb.prepared import InnoDBPreparedSubject
from stallbench.observe.innodb.queues import InnoDBQueuesSubject
from stallbench.observe.innodb.rights import InnoDBRightsSubject
from stallbench.observe.innodb.servers import InnoDBConnectionsSubject, InnoDBReplicationSubject
from stallbench.observe.innodb.session import InnoDBSession
from stallbench.observe.innodb.statements import InnoDBStatementsSubject
from stallbench.observe.observer import Observer
from stallbench.observe.postgres.queues import QueuesSubject
from stallbench.observe.subject import Look, Subject, Unseen

if TYPE_CHECKING:
    from stallbench.observe.postgres.load import LoadSubject

_REFUSED = {1044, 1045, 1142, 1143, 1227, 1356, 1370}


def make_innodb_observer(servers: ObservedServers, queues: QueuesSubject, load: LoadSubject | None = None) -> Observer:
    """Return the observer. ``queues``: finds and counts the queues. ``load``: records the load of the queue."""
    assert isinstance(queues, InnoDBQueuesSubject), "of this family of engines"
    endpoints = {PRIMARY: servers.primary, **servers.replicas}
    return Observer(
        lambda name: InnoDBSession(endpoints[name], name, servers.encryption.get(name)),
        tuple(servers.replicas),
        [
            InnoDBRightsSubject(),
            InnoDBLockWaitsSubject(),
            InnoDBHorizonSubject(),
            InnoDBPreparedSubject(),
            queues,
            InnoDBBlockingSubject(),
            InnoDBStatementsSubject(),
            InnoDBReplicationSubject(),
            InnoDBConnectionsSubject(),
            *([load] if load else []),
        ],
        describe=_describe,
        explain=_explain,
    )


def _describe(look: Look) -> str:
    endpoint, known = look.server.endpoint, look.known
    if not known.version:
        return f"{endpoint.host}:{endpoint.port}"
    product = "MariaDB" if "mariadb" in known.version.lower() else "MySQL"
    return (
        f"{known.database} on {endpoint.host}:{endpoint.port}: {product} {known.version.partition('-')[0]}, "
        f"{'read-only' if known.is_replica else 'accepts writes'}, up for {format_age(known.up_s)}; read-only as {known.user}"
    )


def _explain(subject: Subject, error: Exception) -> Unseen:
    words = DRIVER.describe(error)
    if error.args and error.args[0] in _REFUSED:
        return Unseen(what=subject.what, why=f"the server refuses: {words}")
    return Unseen(what=subject.what, why=words)
