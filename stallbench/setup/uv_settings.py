"""Passes pip's configuration, which uv does not read, to uv: where and how to download.

Imports the standard library only: set-up runs before the virtual environment exists.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

_OPTIONS_OF_PIP = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
}
"""The variable by which uv takes what an option of pip says."""
_SECTIONS_OF_PIP = ("global", "install", ":env:")
"""The sections of pip's configuration that its command `install` reads; a later one takes precedence."""


def settings_for_uv(configuration: str) -> Mapping[str, str]:
    """Return the environment variables that give uv the configuration of pip, which uv does not read: where and how to download.

    ``configuration``: what ``pip config list`` prints. As for pip, any index may offer a file, because the hashes decide what is installed.
    """
    found = {}
    for section in _SECTIONS_OF_PIP:
        for line in configuration.splitlines():
            name, _, value = line.partition("=")
            variable = _OPTIONS_OF_PIP.get(name.removeprefix(f"{section}."))
            if name.startswith(f"{section}.") and variable is not None:
                found[variable] = str(ast.literal_eval(value))
    for variable, separator in (("UV_INDEX", " "), ("UV_INSECURE_HOST", " "), ("UV_FIND_LINKS", ",")):
        if variable in found:
            found[variable] = separator.join(found[variable].split())
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", **found}
