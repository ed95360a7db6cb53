"""Whether and at which address Prometheus can scrape a process."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from stallbench.errors import BadInputError

if TYPE_CHECKING:
    from prometheus_client.registry import Collector


class Exposure(BaseModel):
    """The part of a process's document that makes it answer Prometheus."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=0, ge=0, le=65535, description="0: any free one")


def require_address(address: str) -> Exposure:
    """Return the exposure on an address of this machine. Raises `BadInputError` if it is not one."""
    try:
        with socket.create_server((address, 0)):
            return Exposure(host=address)
    except OSError as error:
        raise BadInputError(
            f"--expose {address}: expected an address of this machine, like 127.0.0.1: {error.strerror}"
        ) from error


def serve(exposure: Exposure | None, *figures: Collector | None) -> dict[str, int]:
    """Answer Prometheus from a separate thread until the process ends. Returns ``metrics_port``, or nothing if not exposed.

    Raises `OSError` if it cannot listen there.
    """
    if exposure is None:
        return {}
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    for one in figures:
        if one is not None:
            registry.register(one)
    server, _ = start_http_server(exposure.port, addr=exposure.host, registry=registry)
    return {"metrics_port": server.server_port}
