"""The user's Grafana: its address, its token, and what its error responses mean.

The client is loaded when it is first used. It takes half a second, and most runs have no Grafana.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from stallbench.errors import BadInputError, StallbenchError

if TYPE_CHECKING:
    from grafana_client.client import GrafanaException

TOKEN_VARIABLE = "STALLBENCH_GRAFANA_TOKEN"  # noqa: S105 - a name, not a secret
_TIMEOUT_S = 5.0
_FORBIDDEN, _SERVER_ERRORS = 403, 500
_HOW_TO_GET_A_TOKEN = "create one under Administration > Users and access > Service accounts"  # noqa: S105 - a sentence
Answer = TypeVar("Answer")


class GrafanaRefusedError(StallbenchError):
    """Grafana cannot be reached or refuses a request; the message says which, and what to do."""


@dataclass(frozen=True, slots=True)
class GrafanaAddress:
    """The address of a Grafana, and the token for it."""

    url: str
    token: SecretStr

    def connect(self) -> Any:  # the client's methods have no types
        """Return a client; sends no request."""
        from grafana_client.api import GrafanaApi

        return GrafanaApi.from_url(self.url, credential=self.token.get_secret_value(), timeout=_TIMEOUT_S)

    def ask(self, purpose: str, call: Callable[[], Answer]) -> Answer:
        """Return what ``call`` returns. ``purpose`` follows "may not" or "could not" in a message.

        Raises `GrafanaRefusedError`, which never contains the token.
        """
        from grafana_client.client import GrafanaException, GrafanaUnauthorizedError

        try:
            return call()
        except GrafanaUnauthorizedError as error:
            raise GrafanaRefusedError(
                f"Grafana at {self.url} does not accept the token (401); {_HOW_TO_GET_A_TOKEN}, with the role Editor"
            ) from error
        except GrafanaException as error:
            raise GrafanaRefusedError(self._describe(purpose, error)) from error
        except OSError as error:
            raise GrafanaRefusedError(f"no Grafana can be reached at {self.url}: {_reason(error)}") from error
        except ValueError as error:
            raise GrafanaRefusedError(f"what answers at {self.url} is not Grafana: it could not {purpose}") from error

    def _describe(self, purpose: str, error: GrafanaException) -> str:
        if error.status_code == _FORBIDDEN:
            return (
                f"Grafana at {self.url}: the token may not {purpose} (403); give its service account the role Editor, "
                "or Admin for a data source"
            )
        if error.status_code == 0:
            return f"no Grafana can be reached at {self.url}: {_reason(error)}"
        verb = "failed" if error.status_code >= _SERVER_ERRORS else "refused"
        return f"Grafana at {self.url} {verb} and could not {purpose}: {_reason(error)}"


def read_grafana(url: str, token: str | None, option: str) -> GrafanaAddress:
    """Check an address and find its token: ``token``, or else the environment's.

    ``option``: the one that gave the address. Raises `BadInputError`.
    """
    parts = require_http(url, option, "http://127.0.0.1:3000")
    if parts.username or parts.password:
        raise BadInputError(f"{option}: remove user and password from the address; put a token into {TOKEN_VARIABLE} instead")
    found = token or os.environ.get(TOKEN_VARIABLE, "")
    if not found:
        raise BadInputError(f"{option} {url}: the token is missing; {_HOW_TO_GET_A_TOKEN} and put it into {TOKEN_VARIABLE}")
    return GrafanaAddress(url.rstrip("/"), SecretStr(found))


def require_http(url: str, option: str, example: str) -> SplitResult:
    """Return the parts of an address that ``option`` gave; raises `BadInputError` if it is not a valid HTTP address."""
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0):
            return parts
    except ValueError:
        pass
    raise BadInputError(f'{option} {url}: expected an address like "{example}"')


def _reason(error: Exception) -> str:
    """Return the most specific part of an error that other libraries have wrapped."""
    text = (str(error).strip() or type(error).__name__).splitlines()[-1]
    found = re.search(r"\[Errno -?\d+\] ([^'\")]+)", text) or re.search(r"object at 0x\w+>: ([^\"]+)", text)
    return found[1] if found else text
