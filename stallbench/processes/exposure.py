"""Whether and at which address Prometheus can scrape a process, and the figures of its records that it serves there, as they are written.

`prometheus_client` and its web server take a third of the time that a worker needs to start, so only processes that are scraped load them. In
all others the functions here return none.
"""

from __future__ import annotations

import socket
from threading import Thread
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from stallbench.errors import BadInputError

if TYPE_CHECKING:
    from prometheus_client import Gauge
    from prometheus_client.registry import Collector

    from stallbench.processes.event_figures import EventFigures
    from stallbench.processes.sample_figures import SampleFigures


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
    from prometheus_client import CollectorRegistry

    from stallbench.processes.metrics_server import make_metrics_server

    registry = CollectorRegistry()
    for one in figures:
        if one is not None:
            registry.register(one)
    server = make_metrics_server(exposure.host, exposure.port, registry)
    Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return {"metrics_port": server.server_port}


def make_event_figures(exposure: Exposure | None) -> EventFigures | None:
    """Return the figures of a process that writes an event log; none if it is not exposed."""
    if exposure is None:
        return None
    from stallbench.processes.event_figures import EventFigures

    return EventFigures()


def make_sample_figures(exposure: Exposure | None, interval_s: float) -> SampleFigures | None:
    """Return the figures of the collectors, which sample every ``interval_s`` seconds; none if they are not exposed."""
    if exposure is None:
        return None
    from stallbench.processes.sample_figures import SampleFigures

    return SampleFigures(interval_s)


def make_offered_rate(exposure: Exposure | None, rate: float) -> Gauge | None:
    """Return the gauge of a producer that enqueues ``rate`` jobs per second; none if it is not exposed."""
    if exposure is None:
        return None
    from stallbench.processes.event_figures import offered_rate

    offered = offered_rate()
    offered.set(rate)
    return offered
