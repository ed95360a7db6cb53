"""Posts a small JSON document to a URL when a finding begins, becomes worse or ends: ``stallbench observe --webhook``.

The URL of a webhook is often a secret itself: messages have its scheme, host and port only, and errors of the library that posts, which can repeat the
rest, are never printed as they are. Redirections are not followed: they could lead anywhere, also to an unencrypted address.
"""

from __future__ import annotations

import errno
import http.client
import os
import socket
import ssl
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_address
from queue import Full, Queue
from threading import Thread, Timer
from types import TracebackType
from typing import IO, Any, Literal, Self
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import (
    AbstractHTTPHandler,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from pydantic import Field

from stallbench import __version__
from stallbench.errors import BadInputError
from stallbench.observe.changes import find_changes
from stallbench.observe.diagnostic import Finding
from stallbench.observe.document import FoundProblem, Part, describe_finding
from stallbench.observe.observer import Observation
from stallbench.visible_text import is_visible, say

TIME_LIMIT_S = 5.0
"""Of one document, for each step of the connection; and for what is still to be posted when the observation ends."""
_WHOLE_LIMIT_S = 15.0
"""Of one document together: a receiver can answer each step in time, and never come to an end."""
_MOST_WAITING = 200
_MOST_FAILURES = 10
_FORM = "expected https://HOST/PATH, or the name of an environment variable that has it"


class Notice(Part):
    """What is posted. Every text is visible, and no statement in it has its literals, as in `ReadingDocument`."""

    format: Literal[1] = 1
    event: Literal["began", "worse", "ended"]
    at: datetime = Field(description="when the reading began that showed it, in UTC")
    server: str = Field(description="the server, its version, its role, and the user")
    finding: FoundProblem = Field(description="as it is now; of one that ended, as it was")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAddress:
    """Where to post."""

    url: str = field(repr=False)
    """Without user and password."""
    headers: Mapping[str, str] = field(repr=False)
    """The user and password of the URL, if it has them."""
    shown: str
    """What messages say of it: scheme, host and port."""
    is_local: bool
    """Whether it is on this machine, which no proxy can reach."""


def read_webhook(text: str, *, allows_unencrypted: bool) -> WebhookAddress:
    """Return where to post. ``text``: a URL, or the name of an environment variable that has it.

    Raises `BadInputError`, which does not repeat what may be a secret.
    """
    url = text if "://" in text else os.environ.get(text, "")
    if not url:
        raise BadInputError(f"--webhook: is no URL, and no environment variable has its name; {_FORM}")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or not url.isascii() or not is_visible(url) or " " in url:
        raise BadInputError(f"--webhook: cannot be read as a URL; {_FORM}")
    name = f"[{host}]" if ":" in host else host
    place = f"{name}:{port}" if port is not None else name
    shown, is_local = f"{parts.scheme}://{place}", _is_loopback(host)
    if parts.password is not None and url == text:
        raise BadInputError(
            f"--webhook {shown}: contains a password, which the process list would show; put the URL into an environment variable, and give its name"
        )
    if parts.scheme != "https" and not is_local and not allows_unencrypted:
        raise BadInputError(
            f"--webhook {shown}: is not encrypted, and a finding names users, hosts and tables; expected https, or an address of this machine; "
            "--allow-unencrypted-webhook permits it"
        )
    headers = {}
    if parts.username is not None or parts.password is not None:
        words = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(words.encode()).decode()}"
    return WebhookAddress(
        url=urlunsplit((parts.scheme, place, parts.path or "/", parts.query, "")), headers=headers, shown=shown, is_local=is_local
    )


class Webhook:
    """Posts what changes, one document after the other, beside the observation, which never waits for it."""

    def __init__(self, address: WebhookAddress) -> None:
        """Post to ``address``."""
        self.says_at_end = False
        """Whether to say only at the end that something failed, because a report covers the terminal until then."""
        self._address = address
        self._connection: http.client.HTTPConnection | None = None
        """That of the document which is being posted, as soon as it has one."""
        self._is_broken_off = False
        self._opener = _make_opener(address, self._watch)
        self._last: tuple[Finding, ...] = ()
        self._waiting: Queue[Notice | None] = Queue(_MOST_WAITING)
        self._is_failing = False
        self._failures: list[str] = []
        self._thread = Thread(target=self._post_all, name="webhook", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        with suppress(Full):
            self._waiting.put_nowait(None)
        self._thread.join(TIME_LIMIT_S)
        if self._thread.is_alive():
            self._fail(f"no answer when the observation ended, and in {TIME_LIMIT_S:g} s after that")
        for failure in self._failures if self.says_at_end else ():
            say(failure, to=sys.stderr)

    def report(self, observation: Observation) -> None:
        """Post what changed since the reading before. A reading at which the server could not be read changes nothing."""
        if observation.gone:
            return
        for change in find_changes(self._last, observation.findings):
            notice = Notice(
                event=change.kind, at=observation.at, server=observation.title, finding=describe_finding(change.finding)
            )
            try:
                self._waiting.put_nowait(notice)
            except Full:
                self._fail(f"{_MOST_WAITING} others wait for an answer")
        self._last = observation.findings

    def _post_all(self) -> None:
        while (notice := self._waiting.get()) is not None:
            try:
                self._post(notice)
            except (OSError, ValueError, http.client.HTTPException) as error:
                self._fail(_describe(error))
            else:
                self._is_failing = False

    def _post(self, notice: Notice) -> None:
        headers = {"Content-Type": "application/json", "User-Agent": f"stallbench/{__version__}", **self._address.headers}
        body = notice.model_dump_json().encode()
        request = Request(self._address.url, data=body, headers=headers, method="POST")  # noqa: S310 - http or https, as was checked
        self._connection, self._is_broken_off = None, False
        timer = Timer(_WHOLE_LIMIT_S, self._break_off)
        timer.daemon = True
        timer.start()
        try:
            with self._opener.open(request, timeout=TIME_LIMIT_S):
                pass
        except (OSError, ValueError, http.client.HTTPException):
            if self._is_broken_off:
                raise TimeoutError(errno.ETIMEDOUT, f"its answer did not end in {_WHOLE_LIMIT_S:g} s") from None
            raise
        finally:
            timer.cancel()

    def _watch(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    def _break_off(self) -> None:
        self._is_broken_off = True
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _fail(self, why: str) -> None:
        """Say it once, and again only if a document has been posted since."""
        if self._is_failing:
            return
        self._is_failing = True
        failure = f"--webhook {self._address.shown}: a finding could not be posted: {why}. The observation goes on"
        self._failures = [*self._failures[-_MOST_FAILURES + 1 :], failure]
        if not self.says_at_end:
            say(failure, to=sys.stderr)


class _NoRedirection(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> None:
        """Return no further request: the answer is an error."""
        return


class _WatchedHandler(AbstractHTTPHandler):
    """Tells of each connection that it opens."""

    def __init__(self, watch: Callable[[http.client.HTTPConnection], None]) -> None:
        super().__init__()
        self._watch = watch

    def do_open(self, http_class: Any, req: Request, **arguments: Any) -> http.client.HTTPResponse:
        """Return the answer to a request, on a connection of its own."""

        def connect(*place: Any, **options: Any) -> http.client.HTTPConnection:
            connection: http.client.HTTPConnection = http_class(*place, **options)
            self._watch(connection)
            return connection

        return super().do_open(connect, req, **arguments)


class _WatchedHTTP(_WatchedHandler, HTTPHandler):
    """Without encryption."""


class _WatchedHTTPS(_WatchedHandler, HTTPSHandler):
    """With encryption."""


def _make_opener(address: WebhookAddress, watch: Callable[[http.client.HTTPConnection], None]) -> OpenerDirector:
    proxies = ProxyHandler({} if address.is_local else None)
    return build_opener(_NoRedirection, proxies, _WatchedHTTP(watch), _WatchedHTTPS(watch))


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _describe(error: Exception) -> str:
    """Return why a document could not be posted, in words that cannot have the URL in them."""
    if isinstance(error, HTTPError):
        error.close()
        redirects = " (a redirection, which is not followed)" if error.code in range(300, 400) else ""
        return f"the answer was HTTP {error.code}{redirects}"
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError) and reason.errno != errno.ETIMEDOUT:
        return f"no answer in {TIME_LIMIT_S:g} s"
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {reason.verify_message}"
    return reason.strerror or type(reason).__name__ if isinstance(reason, OSError) else type(reason).__name__
