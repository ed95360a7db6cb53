"""Reads and checks the command line's addresses of external servers.

An address never contains a password, because the process list shows addresses. The password comes from the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import SecretStr

from stallbench.engines import ENGINES, list_schemes
from stallbench.engines.database import Database
from stallbench.errors import BadInputError
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint, has_password
from stallbench.suggestion import did_you_mean

_SCHEMES = {scheme: engine for engine in ENGINES.values() for scheme in engine.schemes}
_TOXIPROXY_PORT = 8474
_MOST_REPLICAS = 3
_FORM = f"expected NAME=SCHEME://USER@HOST:PORT/DATABASE, with NAME primary, replica-1, .. and SCHEME {list_schemes()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalServers:
    """External servers, as the bench reaches them."""

    servers: Mapping[str, Endpoint]
    """By name, in the order ``primary``, ``replica-1``, .."""
    toxiproxy: tuple[str, int] | None = None
    """Host and control port of an external Toxiproxy; the bench starts its own if none."""
    may_change_servers: bool = False
    """Whether settings and faults that affect every client of the servers are allowed."""


def read_external_servers(
    addresses: Sequence[str], *, database: str | None, toxiproxy: str | None, may_change_servers: bool, wanted: Database
) -> ExternalServers | None:
    """Read ``--dsn`` and the options that need it; none if there is no ``--dsn``. ``wanted``: what the scenario asks for.

    Raises `BadInputError`, with one line for each issue, if an address is not valid, is of another engine, or names another
    database than ``database``.
    """
    if not addresses:
        for option, given in (
            ("--database", database),
            ("--toxiproxy", toxiproxy),
            ("--allow-server-changes", may_change_servers),
        ):
            if given:
                raise BadInputError(f"{option} needs --dsn: it applies to external servers only")
        return None
    names = ["primary", *(f"replica-{number}" for number in range(1, _MOST_REPLICAS + 1))]
    needed = names[: 1 + wanted.replicas]
    issues: list[str] = []
    servers: dict[str, Endpoint] = {}
    for address in addresses:
        name, separator, url = address.partition("=")
        if not separator or "://" in name:
            name, url = "primary", address
        try:
            endpoint = _read_address(name, url, names, wanted.engine, database)
        except BadInputError as error:
            issues.append(str(error))
        else:
            if servers.setdefault(name, endpoint) is not endpoint:
                issues.append(f"--dsn {name}: given twice")
    missing = [name for name in needed if name not in servers]
    if missing and not issues:
        issues.append(f"--dsn {missing[0]}=.. is missing: the scenario needs {', '.join(needed)}")
    proxy = None
    try:
        proxy = _read_toxiproxy(toxiproxy) if toxiproxy else None
    except BadInputError as error:
        issues.append(str(error))
    if issues:
        raise BadInputError("\n".join(issues))
    return ExternalServers(
        servers={name: servers[name] for name in names if name in servers}, toxiproxy=proxy, may_change_servers=may_change_servers
    )


def _read_address(name: str, url: str, names: Sequence[str], engine: str, database: str | None) -> Endpoint:
    if name not in names:
        raise BadInputError(
            f"--dsn {name}: there is no server of that name; expected one of {', '.join(names)}{did_you_mean(name, names)}"
        )
    if has_password(url):
        raise BadInputError(
            f"--dsn {name}: contains a password, which the process list would show; remove it and set {PASSWORD_VARIABLE}"
        )
    parts, port = _split(f"--dsn {name}", url)
    if parts.scheme not in _SCHEMES:
        raise BadInputError(f"--dsn {name}: {_FORM}{did_you_mean(parts.scheme, _SCHEMES)}")
    found = _SCHEMES[parts.scheme]
    if found.name != engine:
        raise BadInputError(f"--dsn {name}: is {found.title}; the scenario runs on {ENGINES[engine].title}")
    named = unquote(parts.path.removeprefix("/"))
    if not named or (not parts.username and found.needs_user) or not parts.hostname or parts.fragment:
        raise BadInputError(f"--dsn {name}: {_FORM}")
    if named != database:
        repeated = f"--database says {database!r}" if database else "--database is not given"
        raise BadInputError(
            f"--dsn {name}: names database {named!r}, and {repeated}; repeat the name there, because the bench writes into that database"
        )
    return Endpoint(
        engine=engine,
        host=parts.hostname,
        port=port or found.port,
        database=named,
        user=unquote(parts.username or ""),
        password=SecretStr(os.environ.get(PASSWORD_VARIABLE, "")),
        parameters=found.read_parameters(f"--dsn {name}", parts.query),
    )


def _read_toxiproxy(url: str) -> tuple[str, int]:
    parts, port = _split("--toxiproxy", url)
    if parts.scheme != "http" or not parts.hostname or parts.path.strip("/"):
        raise BadInputError(f"--toxiproxy {url}: expected http://HOST:PORT, the address of its API")
    return parts.hostname, port or _TOXIPROXY_PORT


def _split(option: str, url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        return parts, parts.port
    except ValueError as error:
        raise BadInputError(f"{option}: cannot be read as an address: {error}") from error
