"""Would a vacuum remove a table's dead rows now? If not, which holder of the horizon keeps them? And do they cost a claim anything?

A vacuum removes what died before the oldest holder began. When a row died is not known; what is known is how many rows were dead at earlier readings, what
the last vacuum left, and how fast rows die. Without any of these the answer is that it is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from stallbench.base.number_text import format_count
from stallbench.observe.diagnostic import Finding
from stallbench.observe.formatting import format_ms
from stallbench.observe.thresholds import CLAIM_BUFFERS, FEEDBACK_DELAY_S, SLOWER_CLAIM, YOUNG_HOLDER_S

_FEWEST_XIDS = 10
"""Between two readings; with fewer, what happens now says nothing about earlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestHolder:
    """The oldest holder of the horizon."""

    name: str
    finding: Finding
    """What it is, and what ends it."""
    is_reported: bool
    """Whether its age alone makes it a finding."""
    is_feedback: bool
    """Whether it is a replica's feedback, behind which no session is known."""
    age_s: float | None
    """Since its transaction began; none if that is not known."""
    at_least_s: float
    """For how long it is known to hold: as long as it was seen, and longer if the server says so."""
    about_s: float | None
    """The same as estimated from its age in transactions and their present rate; none without a rate."""
    age_xids: int

    @property
    def is_young(self) -> bool:
        """Whether a server on which nothing is wrong has such a holder at any time."""
        if self.is_reported:
            return False
        limit_s = FEEDBACK_DELAY_S if self.is_feedback else YOUNG_HOLDER_S
        return max(self.at_least_s, self.about_s or 0.0) < limit_s


class Removal(Enum):
    """What a vacuum would do with most of a table's dead rows now."""

    REMOVED = "removed"
    KEPT = "kept"
    UNKNOWN = "unknown"


class Left(NamedTuple):
    """How many dead rows the last vacuum could not remove."""

    least: int
    most: int
    cutoff_age: int | None = None
    """How many transactions ago the oldest of them died, at most; known from the server's log only."""

    @property
    def is_exact(self) -> bool:
        """Whether the number is known."""
        return self.least == self.most

    def __str__(self) -> str:
        """Return it for a sentence or a cell."""
        if self.is_exact:
            return format_count(self.most)
        return f"{format_count(self.least)} to {format_count(self.most)}" if self.least else f"at most {format_count(self.most)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadRows:
    """What is known of the dead rows of one table."""

    dead: int
    vacuumed_s: float | None
    """Since the end of its last vacuum."""
    left: Left | None
    """By that vacuum; none if it is not known."""
    dead_before: int
    """At the first reading since its last vacuum."""
    xids_before: int
    """Transactions that have begun since that reading."""
    per_s: float | None
    """Rows that die in a second, between the last two readings; none if that is not known."""
    per_xid: float | None
    """The same for each transaction."""


def rate_of(grown: int, over_s: float, xids: int) -> tuple[float | None, float | None]:
    """Return how many rows die in a second and in a transaction; none of both if too little happened to tell."""
    if over_s <= 0 or xids < _FEWEST_XIDS or grown <= 0:
        return None, None
    return grown / over_s, grown / xids


def find_removal(rows: DeadRows, oldest: OldestHolder) -> Removal:
    """Return what a vacuum would do now if nothing but this holder held the horizon."""
    most = rows.dead / 2
    if oldest.age_xids < rows.xids_before and rows.dead_before >= most:
        return Removal.REMOVED
    if rows.left is not None and rows.left.least >= most and rows.vacuumed_s is not None:
        if rows.left.cutoff_age is not None:
            return Removal.KEPT if oldest.age_xids >= rows.left.cutoff_age else Removal.REMOVED
        if max(oldest.at_least_s, oldest.age_s or 0.0) >= rows.vacuumed_s:
            return Removal.KEPT
        if oldest.age_s is not None:
            return Removal.REMOVED
    if rows.per_s is None or rows.per_xid is None:
        return Removal.UNKNOWN
    died_since = rows.per_s * oldest.age_s if oldest.age_s is not None else rows.per_xid * oldest.age_xids
    return Removal.KEPT if died_since >= most else Removal.REMOVED


def find_keeper(rows: DeadRows, holders: Sequence[OldestHolder]) -> tuple[Removal, OldestHolder | None]:
    """Return what a vacuum would do now, and the holder that keeps the rows or may keep them; none if it would remove them."""
    for one in holders:
        removal = find_removal(rows, one)
        if removal is not Removal.REMOVED:
            return removal, one
    return Removal.REMOVED, None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimCost:
    """What a call of a claim statement took between the last two readings, and earlier."""

    text: str
    mean_ms: float
    earlier_ms: float | None
    buffers: float | None

    @property
    def is_high(self) -> bool:
        """Whether it reads more than the pages of a few jobs, or takes longer than earlier."""
        is_slower = bool(self.earlier_ms) and self.mean_ms >= SLOWER_CLAIM * (self.earlier_ms or 0.0)
        return (self.buffers or 0.0) >= CLAIM_BUFFERS or is_slower

    def __str__(self) -> str:
        """Return it for a sentence, to follow 'a claim '."""
        buffers = f" and reads {format_count(self.buffers)} buffers (8 kB)" if self.buffers is not None else ""
        earlier = f", earlier {format_ms(self.earlier_ms)}" if self.earlier_ms is not None else ""
        return f"takes {format_ms(self.mean_ms)}{earlier}{buffers}"


def find_claim(claims: Sequence[ClaimCost], table: str) -> ClaimCost | None:
    """Return the claim that reads most of those of a table, by its name without schema; of all claims if none names it."""
    named = [one for one in claims if table in one.text] or claims
    return max(named, key=lambda one: (one.is_high, one.buffers or 0.0), default=None)
