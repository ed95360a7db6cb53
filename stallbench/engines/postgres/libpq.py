"""Reads what an address of PostgreSQL says about the connection beside host, port, user and database: encryption above all.

A parameter that the address leaves out is taken from libpq's environment variable, as psql does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from stallbench.errors import BadInputError
from stallbench.suggestion import did_you_mean

PARAMETERS = {
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslcrl": "PGSSLCRL",
    "sslcrldir": "PGSSLCRLDIR",
    "sslsni": "PGSSLSNI",
    "sslnegotiation": "PGSSLNEGOTIATION",
    "sslcertmode": "PGSSLCERTMODE",
    "ssl_min_protocol_version": "PGSSLMINPROTOCOLVERSION",
    "ssl_max_protocol_version": "PGSSLMAXPROTOCOLVERSION",
    "channel_binding": "PGCHANNELBINDING",
    "require_auth": "PGREQUIREAUTH",
    "gssencmode": "PGGSSENCMODE",
    "krbsrvname": "PGKRBSRVNAME",
    "target_session_attrs": "PGTARGETSESSIONATTRS",
}
"""What an address may say about the connection, and the variable by which libpq takes it. None is a secret."""
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def read_parameter(where: str, key: str, value: str, known: Mapping[str, str]) -> str | None:
    """Check a parameter of an address; returns the variable by which libpq takes it. ``where`` begins each message. Raises `BadInputError`."""
    if key not in known:
        raise BadInputError(
            f"{where}: parameter {key} is not supported; expected one of {', '.join(known)}{did_you_mean(key, known)}"
        )
    if key == "sslmode" and value not in _SSL_MODES:
        raise BadInputError(
            f"{where}: sslmode is {value!r}; expected one of {', '.join(_SSL_MODES)}{did_you_mean(value, _SSL_MODES)}"
        )
    variable = known[key]
    if variable and os.environ.get(variable, value) != value:
        raise BadInputError(f"{where}: {key} is {value}, and {variable} is {os.environ[variable]}; give one of the two")
    return variable


def read_parameters(where: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of a connection: those of the address, and those of the environment. Raises `BadInputError`."""
    parameters = {key: os.environ[variable] for key, variable in PARAMETERS.items() if os.environ.get(variable)}
    for key, value in given.items():
        read_parameter(where, key, value, PARAMETERS)
        parameters[key] = value
    if (mode := parameters.get("sslmode")) is not None:
        read_parameter(where, "sslmode", mode, PARAMETERS)
    return parameters
