"""Faults of the network between clients and a server, or between primary and replica: one kind for each of Toxiproxy's toxics.

Toxiproxy's README describes the effect of each toxic. The defaults here are typical of a network problem in production.
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple, TypeVar

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.engines import SERVER_ENGINES
from stallbench.engines.error_kinds import ErrorKind
from stallbench.injection.faults.combination import Combination
from stallbench.injection.faults.fault import Fault, FaultOptions
from stallbench.records.injections import Evidence

Stream = Literal["upstream", "downstream", "both"]
_LONGER_THAN_ANY_S = 7 * 24 * 3600.0
"""No fault lasts as long."""
_SOURCE = "Toxiproxy's README, of its toxics"
_DEGRADES = Combination(place="network")
_CUTS = Combination(place="network", takes="server")


class ToxicOptions(FaultOptions):
    """Options that all toxics share."""

    stream: Stream = Field(
        default="downstream",
        description="which direction is affected: upstream is from client to server, downstream from server to client, or both",
    )
    toxicity: float = Field(default=1.0, gt=0, le=1, description="share of the connections that it affects")


ToxicOptionsT = TypeVar("ToxicOptionsT", bound=ToxicOptions)


class OneWayToxic(NamedTuple):
    """What Toxiproxy does with one direction of a proxy's connections."""

    name: str
    stream: str
    toxic: str
    attributes: dict[str, int]


class Toxic(Fault[ToxicOptionsT]):
    """A toxic on a proxy."""

    targets = ("server", "link")
    engines = SERVER_ENGINES
    combination: ClassVar[Combination | None] = _DEGRADES
    toxic: ClassVar[str]
    """Toxiproxy's name of the toxic."""
    source = _SOURCE

    def attributes(self) -> dict[str, int]:
        """Return the toxic's attributes by Toxiproxy's names and in its units: milliseconds, KB, bytes, microseconds."""
        return {}

    def inject(self) -> Evidence:
        """Add the toxic; Toxiproxy is read back to verify it."""
        for one in self.list_one_way():
            self.context.cluster.toxiproxy.add_toxic(
                self.on, one.name, one.toxic, stream=one.stream, attributes=one.attributes, toxicity=self.options.toxicity
            )
        return {"toxic": self.toxic, **self.attributes()}

    def why_inactive(self) -> str | None:
        """Ask Toxiproxy whether it is still there."""
        found = self.context.cluster.toxiproxy.toxics(self.on)
        return None if all(one.name in found for one in self.list_one_way()) else "Toxiproxy no longer has it"

    def undo(self) -> Evidence:
        """Remove the toxic; Toxiproxy is read back to verify that it is gone."""
        for one in self.list_one_way():
            self.context.cluster.toxiproxy.remove_toxic(self.on, one.name)
        return {}

    def list_one_way(self) -> list[OneWayToxic]:
        """Return the toxic of each direction that is affected, in the order in which they are added and removed: Toxiproxy's act on one direction."""
        if self.options.stream != "both":
            return [OneWayToxic(self.name, self.options.stream, self.toxic, self.attributes())]
        return [
            OneWayToxic(f"{self.name}-{stream}", stream, self.toxic, self.attributes()) for stream in ("upstream", "downstream")
        ]


class LatencyOptions(ToxicOptions):
    """Options of `Latency`."""

    latency_s: Duration = Field(default=0.05, alias="latency", gt=0, le=60, description="added to every packet")
    jitter_s: Duration = Field(
        default=0.0, alias="jitter", ge=0, le=60, description="variation around the latency, evenly distributed"
    )


class Latency(Toxic[LatencyOptions]):
    """A slow network path to the server."""

    kind = toxic = "latency"
    meanwhile = "every answer of {on} was delayed"
    summary = "every answer is delayed"
    explains_errors = frozenset({ErrorKind.CANNOT_CONNECT})
    options_type = LatencyOptions

    def attributes(self) -> dict[str, int]:
        """In ms."""
        return {"latency": _ms(self.options.latency_s), "jitter": _ms(self.options.jitter_s)}


class BandwidthOptions(ToxicOptions):
    """Options of `Bandwidth`."""

    kb_per_s: int = Field(default=64, ge=1, description="KB per second, of each connection")


class Bandwidth(Toxic[BandwidthOptions]):
    """A narrow network path."""

    kind = toxic = "bandwidth"
    meanwhile = "the network to {on} was slow"
    summary = "the bytes a second of each connection are limited"
    explains_errors = frozenset({ErrorKind.CANNOT_CONNECT})
    options_type = BandwidthOptions

    def attributes(self) -> dict[str, int]:
        """In KB/s."""
        return {"rate": self.options.kb_per_s}


class SlowCloseOptions(ToxicOptions):
    """Options of `SlowClose`."""

    delay_s: Duration = Field(
        default=1.0, alias="delay", gt=0, le=600, description="how long a closed connection still looks open to the other side"
    )


class SlowClose(Toxic[SlowCloseOptions]):
    """Closing a connection takes time."""

    kind = toxic = "slow_close"
    meanwhile = "closed connections to {on} stayed open"
    summary = "a connection that one side has closed stays open for the other"
    options_type = SlowCloseOptions

    def attributes(self) -> dict[str, int]:
        """In ms."""
        return {"delay": _ms(self.options.delay_s)}


class TimeoutOptions(ToxicOptions):
    """Options of `Timeout`."""

    stream: Stream = Field(
        default="both",
        description="which direction is cut: both, as in a partition; upstream, from client to server; or downstream, from server to "
        "client, so that the server executes what clients send, and only its answers are lost",
    )
    close_after_s: Duration = Field(
        default=0.0,
        alias="close_after",
        ge=0,
        le=600,
        description="after how long the connection is closed; 0: only when the fault ends",
    )


class Timeout(Toxic[TimeoutOptions]):
    """A network partition: packets are dropped without notice. Toxiproxy closes the connections when it ends."""

    kind = toxic = "timeout"
    meanwhile = "no data got through to {on}"
    combination = _CUTS
    summary = "no data gets through and no error is reported: a partition, as a firewall makes it"
    explains_errors = frozenset({ErrorKind.CONNECTION_LOST, ErrorKind.CANNOT_CONNECT})
    options_type = TimeoutOptions

    def attributes(self) -> dict[str, int]:
        """In ms."""
        return {"timeout": _ms(self.options.close_after_s)}

    def list_one_way(self) -> list[OneWayToxic]:
        """Drop what clients send, and hold back what the server sends.

        The end of a ``timeout`` closes the connections, so a second one would cut those clients again that reconnect after the end of the first.
        """
        upstream, *downstream = super().list_one_way()
        return [upstream, *(one._replace(toxic="latency", attributes={"latency": _ms(_LONGER_THAN_ANY_S)}) for one in downstream)]


class ResetPeerOptions(ToxicOptions):
    """Options of `ResetPeer`."""

    after_s: Duration = Field(default=0.0, alias="reset_after", ge=0, le=600, description="after how long a connection is reset")


class ResetPeer(Toxic[ResetPeerOptions]):
    """Connections are reset."""

    kind = toxic = "reset_peer"
    meanwhile = "connections to {on} were reset"
    combination = _CUTS
    summary = "every connection is reset (TCP RST), open ones and new ones"
    explains_errors = frozenset({ErrorKind.CONNECTION_LOST, ErrorKind.CANNOT_CONNECT})
    options_type = ResetPeerOptions

    def attributes(self) -> dict[str, int]:
        """In ms."""
        return {"timeout": _ms(self.options.after_s)}


class SlicerOptions(ToxicOptions):
    """Options of `Slicer`."""

    bytes_each: int = Field(default=64, ge=1, description="mean size of a slice")
    variation_bytes: int = Field(default=16, ge=0, description="variation around the mean; less than the size")
    pause_s: Duration = Field(default=0.001, alias="pause", ge=0, le=10, description="between slices")


class Slicer(Toxic[SlicerOptions]):
    """Small packets."""

    kind = toxic = "slicer"
    meanwhile = "data of {on} arrived in small slices"
    summary = "data arrives in small slices with pauses between them"
    explains_errors = frozenset({ErrorKind.CANNOT_CONNECT})
    options_type = SlicerOptions

    def attributes(self) -> dict[str, int]:
        """In bytes and microseconds."""
        return {
            "average_size": self.options.bytes_each,
            "size_variation": min(self.options.variation_bytes, self.options.bytes_each - 1),
            "delay": round(self.options.pause_s * 1e6),
        }


class LimitDataOptions(ToxicOptions):
    """Options of `LimitData`."""

    most_bytes: int = Field(default=100_000, ge=1, description="how many bytes a connection may carry")


class LimitData(Toxic[LimitDataOptions]):
    """Connections that are closed after a number of bytes."""

    kind = toxic = "limit_data"
    meanwhile = "connections to {on} were cut"
    summary = "a connection is closed when it has carried a number of bytes"
    explains_errors = frozenset({ErrorKind.CONNECTION_LOST, ErrorKind.CANNOT_CONNECT})
    options_type = LimitDataOptions

    def attributes(self) -> dict[str, int]:
        """In bytes."""
        return {"bytes": self.options.most_bytes}


class Down(Fault[FaultOptions]):
    """The network path is closed."""

    kind = "down"
    meanwhile = "connections to {on} were refused"
    combination = _CUTS
    summary = "connections are closed and new ones refused: the port refuses connections; the server keeps running"
    source = _SOURCE
    explains_errors = frozenset({ErrorKind.CONNECTION_LOST, ErrorKind.CANNOT_CONNECT})
    targets = ("server", "link")
    engines = SERVER_ENGINES

    def inject(self) -> Evidence:
        """Close the proxy."""
        self.context.cluster.toxiproxy.set_enabled(self.on, enabled=False)
        return {"enabled": False}

    def why_inactive(self) -> str | None:
        """Ask Toxiproxy whether it is still there."""
        return "Toxiproxy has opened it again" if self.context.cluster.toxiproxy.is_enabled(self.on) else None

    def undo(self) -> Evidence:
        """Open it again."""
        self.context.cluster.toxiproxy.set_enabled(self.on, enabled=True)
        return {"enabled": True}


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
