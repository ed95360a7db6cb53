"""How servers of MariaDB and MySQL are observed. Parameters of an address are read by `stallbench.engines.innodb.encryption`."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from stallbench.engines import ENGINES
from stallbench.engines.innodb.encryption import Encryption, read_encryption
from stallbench.errors import BadInputError
from stallbench.observe.address import FORM, LAST_PORT, find_password, password_issue
from stallbench.observe.family import ObservedFamily
from stallbench.observe.innodb.observer import make_innodb_observer, make_innodb_observer_since
from stallbench.observe.innodb.queues import InnoDBQueuesDiagnostic
from stallbench.records.endpoint import Endpoint, has_password

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from stallbench.observe.address import ObservedServers
    from stallbench.observe.observer import Observer
    from stallbench.observe.options import ObserveOptions
    from stallbench.observe.postgres.load import LoadDiagnostic
    from stallbench.observe.postgres.queues import QueuesDiagnostic

_VARIANTS = """\
[variants.longtx]
summary = "The recorded load beside one open read view."
phases.load.longrunners = [{ kind = "snapshot_reader", on = "primary" }]

[variants.longtx_watchdog]
summary = "The same; a watchdog ends sessions whose transaction is older than ten seconds."
maintenance = [{ kind = "watchdog", every = "1s", older_than = "10s" }]
phases.load.longrunners = [{ kind = "snapshot_reader", on = "primary", may_be_ended = true }]
"""


class InnoDBFamily(ObservedFamily):
    """Both engines."""

    variants = _VARIANTS

    def read_address(self, name: str, engine: str, address: str) -> tuple[Endpoint, Encryption]:
        """Read it as a URL, which must name the user and the database."""
        if has_password(address):
            raise password_issue(name, "MYSQL_PWD")
        try:
            parts = urlsplit(address)
            port = parts.port
        except ValueError as error:
            raise BadInputError(f"--dsn {name}: cannot be read as an address: {error}") from None
        database = unquote(parts.path.removeprefix("/"))
        if not database or not parts.username or not parts.hostname or parts.fragment:
            raise BadInputError(f"--dsn {name}: {FORM}")
        if port == 0:
            raise BadInputError(f"--dsn {name}: port is 0; expected 1 to {LAST_PORT}")
        endpoint = Endpoint(
            engine=engine,
            host=parts.hostname,
            port=port or ENGINES[engine].port,
            database=database,
            user=unquote(parts.username),
            password=find_password("MYSQL_PWD"),
        )
        return endpoint, read_encryption(f"--dsn {name}", parts.query)

    def prepare(self, options: ObserveOptions) -> tuple[QueuesDiagnostic, LoadDiagnostic | None, Observer]:
        """Load what records the load only if it is asked for."""
        queues, load = InnoDBQueuesDiagnostic(options.tables), None
        if options.profile:
            from stallbench.observe.innodb.load import InnoDBLoadDiagnostic

            load = InnoDBLoadDiagnostic(queues)
        return queues, load, make_innodb_observer(options.servers, queues, load)

    def observe_since(self, servers: ObservedServers, since: datetime, log: Path | None) -> Observer:
        """Read what its tables have of the time."""
        return make_innodb_observer_since(servers, since)


FAMILY = InnoDBFamily()
