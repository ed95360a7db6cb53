"""What every longrunner does: hold, watch whether it still holds, let go, and clean up after one that was killed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from stallbench.exposition import Exposure
from stallbench.processes.role import Stop
from stallbench.records.endpoint import Endpoint


class LongrunnerOptions(BaseModel):
    """Options of a kind, as the scenario gives them. Subclass, with a description on every field."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class LongrunnerDocument(BaseModel):
    """The JSON document that a longrunner is started with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_-]{0,40}$",
        description="names the process in the records and to the server, and what it makes there; of one longrunner at a time",
    )
    kind: str
    on: str = Field(default="primary", description="name of the server, for the records")
    endpoint: Endpoint
    options: dict[str, object] = {}
    expose: Exposure | None = Field(default=None, description="where to answer Prometheus; nowhere if not given")
    release: bool = Field(default=False, description="only remove what one of this name left when it was killed")


class LostError(Exception):
    """The longrunner holds no longer, although nobody told it to let go; the message says why."""


OptionsT = TypeVar("OptionsT", bound=LongrunnerOptions)


class Longrunner(ABC, Generic[OptionsT]):
    """Holds the horizon until it is told to let go."""

    kind: ClassVar[str]
    """Its name in scenarios."""
    summary: ClassVar[str]
    """One sentence on what it does."""
    source: ClassVar[str]
    """Who has met it."""
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
        """Return what the server's ``settings`` (those that are not default) lack for it to hold, in words; none if nothing."""
        return None

    @property
    def application_name(self) -> str:
        """What the server calls its sessions."""
        return f"stallbench:longrunner:{self.document.name}"

    @property
    def object_name(self) -> str:
        """Name for what outlives a connection (a table, a slot, a prepared transaction): recognisably the bench's."""
        return f"stallbench_{self.document.name.replace('-', '_')}"

    @abstractmethod
    def hold(self, stop: Stop) -> dict[str, Any]:
        """Take hold and return what the server knows the holder by: its ``kind``, and ``pid``, ``gid`` or ``slot``.

        Raises `CannotGoOnError` or an error of the engine's driver if that cannot be done; nothing is then left on the server.
        """

    @abstractmethod
    def keep(self, stop: Stop) -> None:
        """Return when asked to stop; raises `LostError` as soon as it holds no longer."""

    @abstractmethod
    def let_go(self) -> None:
        """End the hold, and remove what it needed; raises `LostError` if it had ended before."""

    @abstractmethod
    def release(self) -> list[str]:
        """Remove what a killed longrunner of this name left on the server; returns what that was, in words."""
