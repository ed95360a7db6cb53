"""How servers of PostgreSQL are observed.

An address is libpq's, a URI or ``host=.. dbname=..``. What it leaves out comes from where psql takes it: PGHOST, PGUSER, the password file (~/.pgpass).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict

from stallbench.engines import ENGINES
from stallbench.engines.postgres.libpq import PARAMETERS, read_parameter
from stallbench.errors import BadInputError
from stallbench.observe.address import FORM, LAST_PORT, find_password, password_issue
from stallbench.observe.family import ObservedFamily
from stallbench.observe.postgres.observer import make_postgres_observer, make_postgres_observer_since
from stallbench.observe.postgres.queues import QueuesDiagnostic
from stallbench.records.endpoint import Endpoint, has_password

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from stallbench.observe.address import ObservedServers
    from stallbench.observe.observer import Observer
    from stallbench.observe.options import ObserveOptions
    from stallbench.observe.postgres.load import LoadDiagnostic

_FROM_ENVIRONMENT = {"host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE", "user": "PGUSER"}
_PARAMETERS = {**PARAMETERS, "passfile": "PGPASSFILE", "connect_timeout": "", "application_name": ""}
"""What else an address may have, and the variable by which libpq takes it; without one it is the bench's own choice."""
_VARIANTS = """\
[variants.longtx]
summary = "The recorded load beside one idle transaction."
phases.load.longrunners = [{ kind = "idle_writer", on = "primary" }]

[variants.longtx_idle_timeout]
summary = "The same; the server ends a transaction that has been idle for ten seconds."
database.settings.idle_in_transaction_session_timeout = "10s"
phases.load.longrunners = [{ kind = "idle_writer", on = "primary", may_be_ended = true }]

[variants.longtx_watchdog]
summary = "The same; a watchdog ends sessions whose transaction is older than ten seconds."
maintenance = [{ kind = "watchdog", every = "1s", older_than = "10s" }]
phases.load.longrunners = [{ kind = "idle_writer", on = "primary", may_be_ended = true }]

[variants.longtx_rotating_tables]
summary = "The same transaction beside another queue: tables in rotation, which TRUNCATE empties regardless of the horizon."
queue.kind = "rotating_tables"
phases.load.longrunners = [{ kind = "idle_writer", on = "primary" }]
"""


class PostgresFamily(ObservedFamily):
    """Its view and its log."""

    reads_logs = True
    variants = _VARIANTS

    def read_address(self, name: str, engine: str, address: str) -> tuple[Endpoint, None]:
        """Read it as libpq does. How the session is encrypted is in the parameters."""
        if has_password(address):
            raise password_issue(name, "PGPASSWORD")
        try:
            given = {key: str(value) for key, value in conninfo_to_dict(address).items() if value is not None}
        except psycopg.Error as error:
            raise BadInputError(f"--dsn {name}: cannot be read: {' '.join(str(error).split())}; {FORM}") from None
        if "password" in given:
            raise password_issue(name, "PGPASSWORD")
        parameters = {
            key: value
            for key, value in given.items()
            if key not in _FROM_ENVIRONMENT and read_parameter(f"--dsn {name}", key, value, _PARAMETERS)
        }
        values = {key: given.get(key) or os.environ.get(variable, "") for key, variable in _FROM_ENVIRONMENT.items()}
        port = values["port"] or str(ENGINES[engine].port)
        if not port.isdecimal() or "," in values["host"]:
            raise BadInputError(f"--dsn {name}: has several hosts, or a port that is no number; {FORM}")
        if not 0 < int(port) <= LAST_PORT:
            raise BadInputError(f"--dsn {name}: port is {port}; expected 1 to {LAST_PORT}")
        endpoint = Endpoint(
            engine=engine,
            host=values["host"],
            port=int(port),
            database=values["dbname"],
            user=values["user"],
            parameters=parameters,
            password=find_password("PGPASSWORD"),
        )
        return endpoint, None

    def prepare(self, options: ObserveOptions) -> tuple[QueuesDiagnostic, LoadDiagnostic | None, Observer]:
        """Load what records the load only if it is asked for."""
        queues, load = QueuesDiagnostic(options.tables), None
        if options.profile:
            from stallbench.observe.postgres.load import LoadDiagnostic

            load = LoadDiagnostic(queues)
        return queues, load, make_postgres_observer(options.servers, queues, options.log, load)

    def observe_since(self, servers: ObservedServers, since: datetime, log: Path | None) -> Observer:
        """Read what its views and its log have of the time."""
        return make_postgres_observer_since(servers, since, log)


FAMILY = PostgresFamily()
