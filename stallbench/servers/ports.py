"""Free ports on the loopback address."""

from __future__ import annotations

import socket

from stallbench.errors import NotCarriedOutError

LOOPBACK = "127.0.0.1"


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
