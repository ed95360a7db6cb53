"""The interface of every subject that `stallbench observe` looks at, and what one reading returns."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

from stallbench.observe.lock_waits import LockWaits
from stallbench.sql_names import NO_SQL
from stallbench.visible_text import make_visible

if TYPE_CHECKING:
    from stallbench.observe.postgres.dead_rows import ClaimCost, DeadRows, OldestHolder

HORIZON = "horizon"
"""Name of the subject that describes the holders of the horizon, before other subjects name them."""


class Severity(IntEnum):
    """How urgent a finding is. The report shows the lowest number first."""

    CRITICAL = 0
    """It slows the queue down, or will stop the server."""
    WARNING = 1
    """It is unusual, and grows into a problem if it stays."""
    NOTE = 2
    """Good to know when something else is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One way to end a problem."""

    statement: str = ""
    """The SQL statement; the user executes it, never the bench. Empty if no statement ends the problem."""
    where: str = ""
    """Where to execute it, if not on the observed database."""
    caution: str = ""
    """What else the statement does, as the end of a sentence that begins with 'which'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a reading of the server found."""

    severity: Severity
    subject: str
    """Name of the `Diagnostic` that found it."""
    about: str
    """What it is about: a session, a slot, a table. With `subject` it identifies the finding from reading to reading."""
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
    only_shows: bool = False
    """Whether the statement ends nothing, but shows what to end."""
    is_of_victim: bool = False
    """Whether it is about somebody who waits for what the statement ends: it is said after what is about that itself."""
    other_ways: tuple[Remedy, ...] = ()
    """Other ways to end it, each with its own consequence."""
    also_found_by: tuple[str, ...] = ()
    """Names of further subjects, if the same statement ends what they found, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotVisible:
    """Something that could not be read, why, and what would let the user see it."""

    what: str
    why: str
    remedy: str = ""
    could_change_the_answer: bool = True
    """Whether what slows the queue down could be among it. If not, only a report of all figures names it."""
    is_of_next_time: bool = False
    """Whether the remedy shows it from then on alone: what was not kept is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one subject has to show, whether something is wrong or not."""

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    sentences: tuple[str, ...] = ()
    """Below the table, or in its place."""
    summary: tuple[str, ...] = ()
    """What a report of the findings alone has of it, in a line each."""
    has_statements: bool = False
    """Whether the last column has statements, which no report breaks."""
    says_nothing: bool = False
    """Whether it says only that nothing is there, or far off: no report shows it."""
    findings: tuple[Finding, ...] = ()
    not_visible: tuple[NotVisible, ...] = ()
    subject: str = ""
    """Name of the `Diagnostic`, which the observer fills in."""

    def in_lines(self) -> Section:
        """Return it with every text visible and in one line, so that no name of the server can begin a line, or a finding, of its own."""
        section = _in_lines(self)
        assert isinstance(section, Section)
        return section


_OF_SQL = ("statement", "remedy")


def _in_lines(value: object, field_name: str = "") -> object:
    if isinstance(value, str):
        visible = make_visible(value, in_one_line=True)
        return f"{visible} ({NO_SQL})" if field_name in _OF_SQL and visible != value else visible
    if isinstance(value, tuple):
        return tuple(_in_lines(one) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        lines: dict[str, Any] = {each.name: _in_lines(getattr(value, each.name), each.name) for each in fields(value)}
        return replace(value, **lines)
    return value


@dataclass(slots=True, kw_only=True)
class ObserverState:
    """What subjects found, for those that reading after them. It stays from reading to reading, and is empty until its subject has looked."""

    user: str = ""
    database: str = ""
    version: str = ""
    """As the server reports it; empty if not even the server's kind could be read."""
    is_replica: bool = False
    shows_past: bool = False
    """Whether it is a replica whose replay stands still or is far behind: what it shows is not so any more."""
    sees_all: bool = False
    """Whether the user may see the sessions and statements of other users."""
    up_s: float | None = None
    """How long the server has been up."""
    replicas: Mapping[str, Any] = field(default_factory=dict)
    """The open sessions to replicas, by name."""
    lock_waits: LockWaits = field(default_factory=LockWaits)
    """Who waits for whom."""
    holders: Sequence[OldestHolder] = ()
    """The oldest holder of the horizon, however young; and a replica's feedback that is older, but may only be delayed."""
    next_xid: int = 0
    """The next transaction id of the server."""
    dead_rows: Mapping[int, DeadRows] = field(default_factory=dict)
    """What is known of the dead rows of each table that was looked at, by PostgreSQL's oid."""
    claims: Sequence[ClaimCost] = ()
    """The claims that were executed between the last two readings."""
    described: dict[str, frozenset[int]] = field(default_factory=dict)
    """The process ids of the sessions that the findings of each subject describe, by its name: others only name them."""
    queue_oids: Sequence[int] = ()
    """The tables of queues, each partition by itself."""
    without_autovacuum: Sequence[int] = ()
    """Tables with many dead rows for which autovacuum is switched off, by PostgreSQL's oid."""
    queue_names: Sequence[str] = ()
    """The tables of queues, without schema."""
    may_be_late: bool = False
    """Whether a job of a queue waits, or a queue could not be counted: how long claims take then matters."""
    claim_patterns: Sequence[re.Pattern[str]] = ()
    """What finds the claims of known libraries."""


@dataclass(slots=True, kw_only=True)
class Reading:
    """One reading of a server: what its diagnostics share."""

    server: Any
    """The connection, a `stallbench.observe.postgres.session.ReadOnlySession` or its counterpart."""
    at_s: float
    """When it began, on the monotonic clock."""
    state: ObserverState


class Diagnostic(ABC):
    """Reads and judges one subject of a server. An instance lives as long as the observation, so it can compare two readings."""

    name: ClassVar[str]
    what: ClassVar[str]
    """What it reads, in words that can follow 'cannot see'."""
    position: ClassVar[int]
    """In which order they read, and the order of the report's sections."""
    shortest_pause_s: ClassVar[float] = 0.0
    """The shortest time between two readings; readings in between show the former section."""

    @abstractmethod
    def read(self, reading: Reading) -> Section:
        """Read it once. An error of the server's driver becomes a `NotVisible`."""

    def judge(self, reading: Reading) -> tuple[Finding, ...]:
        """Return further findings, from what all diagnostics know, once all have read. It asks the server nothing."""
        return ()


def require_order(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics in the order in which they read."""
    return sorted(diagnostics, key=lambda diagnostic: (diagnostic.position, diagnostic.name))
