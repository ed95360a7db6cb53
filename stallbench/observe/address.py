"""Reads the addresses that `stallbench observe` is given, and where the password comes from.

A PostgreSQL address is libpq's, a URI or ``host=.. dbname=..``. What it leaves out comes from where psql takes it: PGHOST, PGUSER, the password file
(~/.pgpass). Parameters of an address of MariaDB or MySQL are read by `stallbench.engines.mysql_encryption`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr

from stallbench.engines.libpq import PARAMETERS, read_parameter
from stallbench.engines.mysql_encryption import Encryption, read_encryption
from stallbench.errors import BadInputError
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint, has_password
from stallbench.suggestion import did_you_mean

PRIMARY = "primary"
_POSTGRES = ("postgresql", "postgres")
_INNODB = ("mariadb", "mysql")
_LAST_PORT = 65535
_FORM = "expected SCHEME://USER@HOST:PORT/DATABASE with SCHEME postgresql, mariadb or mysql"
_PORTS = {"postgres": 5432, "mariadb": 3306, "mysql": 3306}
_FROM_ENVIRONMENT = {"host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE", "user": "PGUSER"}
_PARAMETERS = {**PARAMETERS, "passfile": "PGPASSFILE", "connect_timeout": "", "application_name": ""}
"""What else an address may have, and the variable by which libpq takes it; without one it is the bench's own choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedServers:
    """The servers of an observation."""

    primary: Endpoint
    """The server that is observed; it may itself be a replica."""
    replicas: Mapping[str, Endpoint]
    """By the application name under which each streams."""
    encryption: Mapping[str, Encryption] = field(default_factory=dict)
    """Of MariaDB and MySQL: by server, `PRIMARY` or a replica."""


def read_addresses(addresses: Sequence[str]) -> ObservedServers:
    """Read ``--dsn``. Raises `BadInputError`, with one line for each issue."""
    if not addresses:
        raise BadInputError(f"--dsn is missing; {_FORM}")
    issues: list[str] = []
    servers: dict[str, Endpoint] = {}
    encryption: dict[str, Encryption] = {}
    for address in addresses:
        name, url = _split_name(address)
        if not url.strip():
            issues.append(f"--dsn {name}: is empty; {_FORM}")
            continue
        if name in servers:
            issues.append(f"--dsn {name}: given twice; name each replica as it streams: --dsn NAME=..")
            continue
        try:
            if _is_postgres(url):
                servers[name] = _read_postgres(name, url)
            else:
                servers[name], encryption[name] = _read_innodb(name, url)
        except BadInputError as error:
            issues.append(str(error))
    primary = servers.pop(PRIMARY, None)
    if primary is None and not issues:
        issues.append("--dsn: the server to observe is missing; give its address without a name")
    engines = {endpoint.engine for endpoint in (primary, *servers.values()) if endpoint}
    if len(engines) > 1:
        issues.append(f"--dsn: the servers are of different engines: {', '.join(sorted(engines))}")
    if issues or primary is None:
        raise BadInputError("\n".join(issues))
    return ObservedServers(primary=primary, replicas=servers, encryption=encryption)


def _split_name(address: str) -> tuple[str, str]:
    """Return the server's name and its address; ``host=.. dbname=..`` has no name before its first ``=``."""
    name, separator, rest = address.partition("=")
    is_named = separator and "://" in rest and "://" not in name and " " not in name
    return (name, rest) if is_named else (PRIMARY, address)


def _is_postgres(url: str) -> bool:
    scheme, separator, _ = url.partition("://")
    return not separator or scheme in _POSTGRES


def _read_postgres(name: str, url: str) -> Endpoint:
    if has_password(url):
        raise _password_issue(name, "PGPASSWORD")
    try:
        given = {key: str(value) for key, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.Error as error:
        raise BadInputError(f"--dsn {name}: cannot be read: {' '.join(str(error).split())}; {_FORM}") from None
    if "password" in given:
        raise _password_issue(name, "PGPASSWORD")
    parameters = {
        key: value
        for key, value in given.items()
        if key not in _FROM_ENVIRONMENT and read_parameter(f"--dsn {name}", key, value, _PARAMETERS)
    }
    values = {key: given.get(key) or os.environ.get(variable, "") for key, variable in _FROM_ENVIRONMENT.items()}
    port = values["port"] or str(_PORTS["postgres"])
    if not port.isdecimal() or "," in values["host"]:
        raise BadInputError(f"--dsn {name}: has several hosts, or a port that is no number; {_FORM}")
    if not 0 < int(port) <= _LAST_PORT:
        raise BadInputError(f"--dsn {name}: port is {port}; expected 1 to {_LAST_PORT}")
    return Endpoint(
        engine="postgres",
        host=values["host"],
        port=int(port),
        database=values["dbname"],
        user=values["user"],
        parameters=parameters,
        password=_find_password("PGPASSWORD"),
    )


def _read_innodb(name: str, url: str) -> tuple[Endpoint, Encryption]:
    if has_password(url):
        raise _password_issue(name, "MYSQL_PWD")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadInputError(f"--dsn {name}: cannot be read as an address: {error}") from None
    if parts.scheme not in _INNODB:
        raise BadInputError(f"--dsn {name}: {_FORM}{did_you_mean(parts.scheme, (*_POSTGRES, *_INNODB))}")
    database = unquote(parts.path.removeprefix("/"))
    if not database or not parts.username or not parts.hostname or parts.fragment:
        raise BadInputError(f"--dsn {name}: {_FORM}")
    if port == 0:
        raise BadInputError(f"--dsn {name}: port is 0; expected 1 to {_LAST_PORT}")
    endpoint = Endpoint(
        engine=parts.scheme,
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        database=database,
        user=unquote(parts.username),
        password=_find_password("MYSQL_PWD"),
    )
    return endpoint, read_encryption(f"--dsn {name}", parts.query)


def _password_issue(name: str, variable: str) -> BadInputError:
    return BadInputError(f"--dsn {name}: contains a password, which the process list would show; remove it and set {variable}")


def _find_password(variable: str) -> SecretStr:
    """Return the password in the environment; an empty one lets libpq look into the password file."""
    return SecretStr(os.environ.get(PASSWORD_VARIABLE) or os.environ.get(variable, ""))
