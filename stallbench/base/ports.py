"""Free ports on the loopback address."""

from __future__ import annotations

import socket
from collections.abc import Callable

from stallbench.errors import NotCarriedOutError

LOOPBACK = "127.0.0.1"
_TRIES = 5
_TAKEN = "Address already in use"
"""What every server writes to its log."""


def find_free_port() -> int:
    """Return a port that nothing listens on now. Another process may take it first, so the caller must be ready to try again."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Whether nothing listens on ``port``."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def require_free(port: int, what: str) -> int:
    """Return ``port``; raises `NotCarriedOutError` if something listens on it already."""
    if not is_free(port):
        raise NotCarriedOutError(
            f"{what}: port {port} on {LOOPBACK} is in use; choose another one, or leave it out to use a free one"
        )
    return port


def start_on_port(port: int | None, start: Callable[[int], None]) -> None:
    """Call ``start`` with ``port``, or with a free port if it is none; with another one when a process took that port before the server did.

    ``start`` starts a server and waits until it answers. Raises its `NotCarriedOutError`.
    """
    for attempt in range(1, _TRIES + 1):
        try:
            start(find_free_port() if port is None else port)
        except NotCarriedOutError as error:
            if port is not None or attempt == _TRIES or _TAKEN not in str(error):
                raise
        else:
            return
