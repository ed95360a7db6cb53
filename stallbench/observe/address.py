"""Reads the addresses that `stallbench observe` is given, and where the password comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import SecretStr

from stallbench.engines import DEFAULT_ENGINE, ENGINES, list_schemes
from stallbench.errors import BadInputError
from stallbench.observe.family import find_family
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint
from stallbench.suggestion import did_you_mean

PRIMARY = "primary"
LAST_PORT = 65535
FORM = f"expected SCHEME://USER@HOST:PORT/DATABASE with SCHEME {list_schemes()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedServers:
    """The servers of an observation."""

    primary: Endpoint
    """The server that is observed; it may itself be a replica."""
    replicas: Mapping[str, Endpoint]
    """By the application name under which each streams."""
    encryption: Mapping[str, object] = field(default_factory=dict)
    """By server, `PRIMARY` or a replica, as `ObservedFamily.read_address` returned it; none where the endpoint says it."""


def read_addresses(addresses: Sequence[str]) -> ObservedServers:
    """Read ``--dsn``. Raises `BadInputError`, with one line for each issue."""
    if not addresses:
        raise BadInputError(f"--dsn is missing; {FORM}")
    issues: list[str] = []
    servers: dict[str, Endpoint] = {}
    encryption: dict[str, object] = {}
    for address in addresses:
        name, url = _split_name(address)
        if not url.strip():
            issues.append(f"--dsn {name}: is empty; {FORM}")
            continue
        if name in servers:
            issues.append(f"--dsn {name}: given twice; name each replica as it streams: --dsn NAME=..")
            continue
        try:
            engine = _find_engine(name, url)
            servers[name], own_encryption = find_family(engine).read_address(name, engine, url)
            if own_encryption is not None:
                encryption[name] = own_encryption
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


def _find_engine(name: str, address: str) -> str:
    """Return the engine of a scheme; ``host=.. dbname=..`` has none, and is libpq's."""
    scheme, separator, _ = address.partition("://")
    if not separator:
        return DEFAULT_ENGINE
    engines = {known: engine.name for engine in ENGINES.values() for known in engine.schemes}
    if scheme not in engines:
        raise BadInputError(f"--dsn {name}: {FORM}{did_you_mean(scheme, engines)}")
    return engines[scheme]


def password_issue(name: str, variable: str) -> BadInputError:
    """Return the error for an address of the server ``name`` that has a password, which is to be in the environment variable."""
    return BadInputError(f"--dsn {name}: contains a password, which the process list would show; remove it and set {variable}")


def find_password(variable: str) -> SecretStr:
    """Return the password in the environment; an empty one lets libpq look into the password file."""
    return SecretStr(os.environ.get(PASSWORD_VARIABLE) or os.environ.get(variable, ""))
