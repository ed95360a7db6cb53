"""Reads what an address of MariaDB or MySQL says about encryption: ``mariadb://reader@db.test/app?ssl_ca=/etc/ssl/db.pem``.

The parameters have the names that PyMySQL and the clients of both servers give them, with ``_`` or ``-``. A certificate authority in the address is
there to be checked against, so `ssl_ca` alone verifies the certificate. PyMySQL alone would not.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from stallbench.errors import BadInputError
from stallbench.suggestion import did_you_mean

_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")
"""Of MySQL's client, the weakest first."""
_FILES = ("ssl_ca", "ssl_cert", "ssl_key")
_SWITCHES = {
    "ssl": "required",
    "ssl_verify_cert": "verify_ca",
    "ssl_verify_identity": "verify_identity",
    "ssl_verify_server_cert": "verify_identity",
}
"""The mode that each demands: `ssl` and `ssl_verify_server_cert` are MariaDB's client's, the others PyMySQL's."""
_KNOWN = ("ssl_mode", *_FILES, *_SWITCHES)
_YES, _NO = ("true", "1", "yes", "on", ""), ("false", "0", "no", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class Encryption:
    """Whether a session is encrypted, and how the server's certificate is checked."""

    mode: str = "preferred"
    """One of MySQL's ``ssl-mode``: `preferred` encrypts if the server can."""
    context: ssl.SSLContext | None = None
    """What must be kept to; none if an unencrypted session is accepted."""

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of ``pymysql.connect``."""
        if self.context is not None:
            return {"ssl": self.context}
        return {"ssl_disabled": True} if self.mode == "disabled" else {}


def read_encryption(where: str, query: str) -> Encryption:
    """Read the part of an address after ``?``. ``where`` begins each message. Raises `BadInputError`."""
    given = _read_parameters(where, query)
    files = {name: _require_file(where, name, given[name]) for name in _FILES if name in given}
    if "ssl_key" in files and "ssl_cert" not in files:
        raise BadInputError(f"{where}: ssl_key is the key of a client's certificate; give ssl_cert, too")
    mode = _find_mode(where, given, files)
    if mode in ("disabled", "preferred"):
        return Encryption(mode=mode)
    return Encryption(mode=mode, context=_make_context(where, mode, files))


def _read_parameters(where: str, query: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for written, value in parse_qsl(query, keep_blank_values=True):
        name = written.lower().replace("-", "_")
        if name not in _KNOWN:
            raise BadInputError(
                f"{where}: parameter {written} is not supported; expected one of {', '.join(_KNOWN)}{did_you_mean(name, _KNOWN)}"
            )
        if name in given:
            raise BadInputError(f"{where}: {written} is given twice")
        given[name] = value
    return given


def _require_file(where: str, name: str, value: str) -> str:
    try:
        is_file = Path(value).is_file()
    except (OSError, ValueError):  # too long for a name, or not possible in one
        is_file = False
    if not is_file:
        raise BadInputError(f"{where}: {name} is {value!r}, and there is no such file on this machine; expected a PEM file")
    return value


def _find_mode(where: str, given: Mapping[str, str], files: Mapping[str, str]) -> str:
    """Return the strictest mode that is demanded; raises `BadInputError` if another parameter forbids it."""
    demanded = {name: mode for name, mode in _SWITCHES.items() if name in given and _is_on(where, name, given[name])}
    demanded |= {name: "verify_ca" if name == "ssl_ca" else "required" for name in files}
    by = max(demanded, key=lambda name: _MODES.index(demanded[name]), default="")
    mode = demanded.get(by, "preferred")
    refused = {name: _SWITCHES[name] for name in _SWITCHES if name in given and name not in demanded}
    for name, refused_mode in refused.items():
        if by and _MODES.index(mode) >= _MODES.index(refused_mode):
            raise BadInputError(f"{where}: {name} is {given[name]}, but {by} needs it; leave one of the two out")
    if "ssl_mode" not in given:
        return "disabled" if "ssl" in refused else mode
    chosen = given["ssl_mode"].lower().replace("-", "_")
    if chosen not in _MODES:
        raise BadInputError(
            f"{where}: ssl_mode is {given['ssl_mode']!r}; expected one of {', '.join(_MODES)}{did_you_mean(chosen, _MODES)}"
        )
    weak = _MODES.index(chosen) < _MODES.index("required")
    if by and weak:
        raise BadInputError(f"{where}: ssl_mode is {chosen}, but {by} needs encryption; leave one of the two out")
    if "ssl" in refused and chosen != "disabled":
        raise BadInputError(f"{where}: ssl is {given['ssl']}, and ssl_mode is {chosen}; leave one of the two out")
    return max(mode, chosen, key=_MODES.index) if by else chosen


def _is_on(where: str, name: str, value: str) -> bool:
    if value.lower() not in (*_YES, *_NO):
        raise BadInputError(f"{where}: {name} is {value!r}; expected true or false")
    return value.lower() in _YES


def _make_context(where: str, mode: str, files: Mapping[str, str]) -> ssl.SSLContext:
    """Return what a session with this mode must keep to; raises `BadInputError` if a file is no certificate or key."""
    try:
        context = ssl.create_default_context(cafile=files.get("ssl_ca"))
    except (ssl.SSLError, OSError) as error:
        raise BadInputError(f"{where}: ssl_ca is {files.get('ssl_ca')}, which has no certificate: {error}") from None
    # Certificates that MySQL makes for itself do not keep to all rules of X.509.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = mode == "verify_identity"
    context.verify_mode = ssl.CERT_NONE if mode == "required" else ssl.CERT_REQUIRED

    def refuse() -> str:
        raise BadInputError(f"{where}: the key of {files['ssl_cert']} is encrypted; give a key without a passphrase")

    if "ssl_cert" in files:
        try:
            context.load_cert_chain(files["ssl_cert"], files.get("ssl_key"), refuse)
        except (ssl.SSLError, OSError) as error:
            names = " and ".join(f"{name} {files[name]}" for name in ("ssl_cert", "ssl_key") if name in files)
            raise BadInputError(f"{where}: {names}: not a certificate with its key: {error}") from None
    return context
