"""Base of all longrunners: hold the horizon, check that it is still held, release it, and clean up after a killed longrunner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from stallbench.processes.exposure import Exposure
from stallbench.processes.role import Stop
from stallbench.records.endpoint import Endpoint
from stallbench.records.injections import Evidence


class LongrunnerOptions(BaseModel):
    """Options of a kind, as the scenario gives them. Subclass, with a description on every field."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class LongrunnerDocument(BaseModel):
    """The JSON document that a longrunner is started with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_-]{0,40}$",
        description="identifies the process in the records and on the server, and the objects that it creates there; unique among the longrunners of a server",
    )
    kind: str = Field(description="name of the longrunner")
    on: str = Field(default="primary", description="name of the server, for the records")
    endpoint: Endpoint = Field(description="how to connect to the server")
    options: dict[str, object] = Field(default={}, description="options of the longrunner, as in a scenario")
    expose: Exposure | None = Field(default=None, description="address at which Prometheus can scrape it; none if not given")
    release: bool = Field(default=False, description="only remove what a killed longrunner of this name left")


class LostError(Exception):
    """The longrunner no longer holds the horizon although it was not asked to stop; the message says why."""


OptionsT = TypeVar("OptionsT", bound=LongrunnerOptions)


class Longrunner(ABC, Generic[OptionsT]):
    """Holds the horizon until it is asked to stop."""

    kind: ClassVar[str]
    """Its name in scenarios."""
    summary: ClassVar[str]
    """One sentence on what it does."""
    source: ClassVar[str]
    """Where it has been reported."""
    roles: ClassVar[tuple[str, ...]] = ("primary",)
    """The roles of the servers that it runs on: ``primary``, ``replica``."""
    engines: ClassVar[frozenset[str]]
    options_type: ClassVar[type[LongrunnerOptions]] = LongrunnerOptions

    def __init__(self, document: LongrunnerDocument, options: OptionsT) -> None:
        """Prepare; nothing is opened."""
        self.document = document
        self.options = options

    @classmethod
    def find_missing_setting(cls, options: OptionsT, settings: Mapping[str, object]) -> str | None:
        """Return what the server's ``settings`` (those that are not default) lack so that it could hold; none if nothing is missing."""
        return None

    @property
    def application_name(self) -> str:
        """The name of its sessions on the server."""
        return f"stallbench:longrunner:{self.document.name}"

    @property
    def object_name(self) -> str:
        """Name of the objects that outlive a connection (a table, a slot, a prepared transaction); shows that the bench made them."""
        return f"stallbench_{self.document.name.replace('-', '_')}"

    @abstractmethod
    def hold(self, stop: Stop) -> Evidence:
        """Begin to hold and return how the server identifies the holder: its ``kind``, and its ``pid``, or ``key`` if it has no
        session: the name of the slot or prepared transaction.

        Raises `CannotContinueError` or an error of the engine's driver if it cannot; nothing is then left on the server.
        """

    @abstractmethod
    def keep(self, stop: Stop) -> None:
        """Return when asked to stop; raises `LostError` as soon as it no longer holds."""

    @abstractmethod
    def release(self) -> None:
        """Stop holding and remove what was needed for it; raises `LostError` if the hold had ended before."""

    @abstractmethod
    def clean_up(self) -> list[str]:
        """Remove what a killed longrunner of this name left on the server; return a description of each part."""
