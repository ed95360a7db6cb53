"""Base of all kinds of maintenance: a task that is repeated, and the actions of each iteration."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from stallbench.base.duration import Duration
from stallbench.engines import EngineName
from stallbench.processes.exposure import Exposure
from stallbench.queues import Queue
from stallbench.records.endpoint import Endpoint


class TaskOptions(BaseModel):
    """Options of a kind, as the scenario gives them. Subclass, with a description on every field."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    every_s: Duration = Field(default=5.0, alias="every", gt=0, le=86_400, description="pause between two iterations")


class TaskDocument(BaseModel):
    """The JSON document that a process of maintenance is started with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="identifies the process in the records and on the server")
    kind: str = Field(description="name of the maintenance task")
    endpoint: Endpoint = Field(description="how to connect to the server, not through the proxy")
    options: dict[str, object] = Field(default={}, description="options of the task, as in a scenario")
    tables: tuple[str, ...] = Field(default=(), description="the queue's tables")
    queue: str = Field(default="", description="kind of the queue")
    queue_options: dict[str, object] = Field(default={}, description="options of the queue, as in a scenario")
    expose: Exposure | None = Field(
        default=None, description="ignored: every process gets this key, but maintenance exposes no metrics"
    )


def _wait(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def set_statement_timeout(connection: Any, timeout_s: float | None) -> None:
    """Let PostgreSQL cancel each later statement of the session after ``timeout_s``; none leaves the server's setting."""
    if timeout_s is not None:
        connection.execute("SELECT pg_catalog.set_config('statement_timeout', %s, false)", (f"{round(timeout_s * 1000)}ms",))


OptionsT = TypeVar("OptionsT", bound=TaskOptions)


class Task(ABC, Generic[OptionsT]):
    """A task that is repeated on one server, on a separate connection that does not go through the proxy."""

    kind: ClassVar[str]
    """Its name in scenarios."""
    summary: ClassVar[str]
    """One sentence on what it does."""
    source: ClassVar[str]
    """Where it is recommended."""
    engines: ClassVar[frozenset[EngineName]]
    roles: ClassVar[tuple[str, ...]] = ("primary",)
    """Roles of the servers on which it can run: ``primary``, ``replica``."""
    on_external: ClassVar[Literal["always", "never"]] = "always"
    """Whether it may run on servers that the bench did not start."""
    options_type: ClassVar[type[TaskOptions]] = TaskOptions

    @classmethod
    def find_issue(cls, queue: type[Queue[Any]]) -> str | None:
        """Find why it cannot run for the queue: what follows ``kind`` in the user's line; none if it can."""
        return None

    def __init__(self, document: TaskDocument, options: OptionsT) -> None:
        """Prepare; nothing runs yet."""
        self.document = document
        self.options = options
        self.wait: Callable[[float], bool] = _wait
        """Pauses for that many seconds, or until the process is asked to end; returns whether it is."""

    @abstractmethod
    def iterate(self, connection: Any) -> Iterator[str]:
        """Run the task once; yield a description of each action as soon as it is done. Raises an error of the engine's driver."""
