"""The record of a server in ``run.json``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Role = Literal["primary", "replica", "fenced", "second"]
"""``second``: a server of another engine, beside the primary. ``fenced``: the former primary, dead, after a replica was promoted."""


class ServerRecord(BaseModel):
    """One server: started by the bench, or external."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    role: Role
    engine: str
    version: str
    port: int | None
    """None for an engine without a network."""
    proxy_port: int | None
    pooler: str | None = None
    """Through which pooler clients reach it, as one phrase; none if they reach it directly."""
    settings: dict[str, str]
    """The settings in force that are not default, without secrets."""
    start_ns: int
    end_ns: int | None
    """None while it runs, for a library, and for an external server."""
