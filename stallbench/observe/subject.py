"""The interface of every subject that `stallbench observe` looks at, and what one look returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar


class Severity(IntEnum):
    """How urgent a finding is. The report shows the lowest number first."""

    CRITICAL = 0
    """It slows the queue down, or will stop the server."""
    WARNING = 1
    """It is unusual, and grows into a problem if it stays."""
    NOTE = 2
    """Good to know when something else is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a look at the server found."""

    severity: Severity
    subject: str
    """Name of the `Subject` that found it."""
    about: str
    """What it is about: a session, a slot, a table. With `subject` it identifies the finding from look to look."""
    sentence: str
    """What is wrong, with figures and names."""
    because: str = ""
    """What that does to a queue."""
    statement: str = ""
    """The SQL statement that ends it; the user executes it, never the bench."""
    where: str = ""
    """Where to execute it, if not on the observed database."""
    caution: str = ""
    """What else the statement does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Something that could not be read, why, and what would let the user see it."""

    what: str
    why: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one subject has to show, whether something is wrong or not."""

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    sentences: tuple[str, ...] = ()
    """Below the table, or in its place."""
    findings: tuple[Finding, ...] = ()
    unseen: tuple[Unseen, ...] = ()


@dataclass(slots=True, kw_only=True)
class Look:
    """One look at a server: what its subjects share."""

    server: Any
    """The connection, a `stallbench.observe.postgres.session.ReadOnlySession` or its counterpart."""
    at_s: float
    """When it began, on the monotonic clock."""
    known: dict[str, Any] = field(default_factory=dict)
    """What subjects found, for those that look after them: ``holder``, ``queue_oids``, ``is_replica``, ``sees_all``, .. It stays from look to look."""


class Subject(ABC):
    """One subject of a server. An instance lives as long as the observation, so it can compare two looks."""

    name: ClassVar[str]
    what: ClassVar[str]
    """What it reads, in words that can follow 'cannot see'."""
    position: ClassVar[int]
    """In which order subjects look, and the order of the report's sections."""
    shortest_pause_s: ClassVar[float] = 0.0
    """The shortest time between two readings; looks in between show the former section."""

    @abstractmethod
    def look(self, look: Look) -> Section:
        """Read it once. An error of the server's driver becomes an `Unseen`."""


def require_order(subjects: Sequence[Subject]) -> list[Subject]:
    """Return the subjects in the order in which they look."""
    return sorted(subjects, key=lambda subject: (subject.position, subject.name))
