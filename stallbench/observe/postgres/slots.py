"""Replication slots: what each keeps, since when nobody uses it, and what it means that nobody does."""

from __future__ import annotations

from typing import Any, NamedTuple

from stallbench.base.number_text import format_bytes, format_count
from stallbench.engines.postgres.ending import statement_to_drop
from stallbench.observe.diagnostic import Finding, Severity
from stallbench.observe.formatting import format_age
from stallbench.observe.thresholds import MANY_XIDS

BRIEFLY_INACTIVE_S = 60.0
"""A replica or a subscriber that restarts is back by then."""
_KEPT_BYTES = 10 * 1024**3
# Through JSON, because before PostgreSQL 17 the view has no columns synced, inactive_since and invalidation_reason.
_SLOTS = """
SELECT slot_name, slot_type, coalesce(database, ''), active, coalesce(wal_status, ''),
  pg_catalog.pg_wal_lsn_diff(CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END,
    restart_lsn)::bigint,
  pg_catalog.age(xmin), pg_catalog.age(catalog_xmin),
  extract(epoch FROM pg_catalog.clock_timestamp() - (pg_catalog.to_jsonb(slot) ->> 'inactive_since')::pg_catalog.timestamptz)::double precision,
  pg_catalog.pg_is_in_recovery() AND coalesce((pg_catalog.to_jsonb(slot) ->> 'synced')::boolean, false),
  coalesce(pg_catalog.to_jsonb(slot) ->> 'invalidation_reason', ''), pg_catalog.current_setting('max_slot_wal_keep_size')
FROM pg_catalog.pg_replication_slots AS slot
ORDER BY restart_lsn
"""


class Slot(NamedTuple):
    """A replication slot of the server."""

    name: str
    kind: str
    """``physical`` or ``logical``."""
    database: str
    is_active: bool
    wal_status: str
    """``lost`` once it is invalidated: its consumer cannot continue, and the server keeps nothing for it."""
    kept_bytes: int | None
    """WAL since the position that it needs; none if it has no position: never used, or invalidated."""
    xmin_age: int | None
    catalog_age: int | None
    inactive_s: float | None
    """Since when nobody uses it; none before PostgreSQL 17, and while it is used."""
    is_synced: bool
    """Whether this server is a standby and copies the slot from its primary: it is never used here, and cannot be dropped here."""
    invalidation_reason: str
    """Like ``wal_removed``; empty if it is valid, and before PostgreSQL 17."""
    wal_limit: str
    """The server's max_slot_wal_keep_size: ``-1`` without a limit."""

    @property
    def is_invalidated(self) -> bool:
        """Whether its consumer has lost its position, and the server keeps nothing for it any more."""
        return self.wal_status == "lost"

    @property
    def is_briefly_inactive(self) -> bool:
        """Whether it became inactive so recently, and keeps so little, that its consumer may only be restarting.

        A consumer that crashes again and again uses the slot between its crashes, so the time alone would never be long.
        """
        keeps_little = (self.kept_bytes or 0) < _KEPT_BYTES and max(self.xmin_age or 0, self.catalog_age or 0) < MANY_XIDS
        return self._became_inactive_recently and keeps_little

    @property
    def _became_inactive_recently(self) -> bool:
        return self.inactive_s is not None and self.inactive_s < BRIEFLY_INACTIVE_S

    @property
    def inactivity(self) -> str:
        """Return since when nobody uses it, to follow its name."""
        if self.inactive_s is None:
            return "is inactive"
        may_restart = " (its consumer may be restarting)" if self._became_inactive_recently else ""
        return f"has been inactive for {format_age(self.inactive_s)}{may_restart}"

    @property
    def state(self) -> str:
        """Return whether it is used, since when not, and what is unusual about its WAL."""
        if self.is_synced:
            state = "synced from the primary"
        else:
            since = "" if self.inactive_s is None or self.is_active else f" for {format_age(self.inactive_s)}"
            state = "active" if self.is_active else f"inactive{since}"
        if self.is_invalidated:
            return f"{state}, invalidated" + (f" ({self.invalidation_reason})" if self.invalidation_reason else "")
        return state + ("" if self.wal_status in ("", "reserved", "extended") else f", WAL {self.wal_status}")

    @property
    def keeps(self) -> str:
        """Return what the server keeps for it."""
        if self.is_invalidated or self.kept_bytes is None:
            return "keeps nothing"
        what = "all tables" if self.xmin_age is not None else "system catalogs" if self.catalog_age is not None else "WAL only"
        return f"keeps {what}"


def read_slots(server: Any) -> list[Slot]:
    """Return every replication slot; the one that keeps the most WAL first. Raises errors of the server's driver."""
    return [Slot(*row) for row in server.execute(_SLOTS).fetchall()]


def judge_slot(slot: Slot, subject: str) -> Finding | None:
    """Return what it means that nobody uses the slot; none if that is as it should be. ``subject``: the name of the one who asks."""
    if slot.is_active or slot.is_synced:
        return None
    about = f"The {slot.kind} replication slot {slot.name}"
    if slot.is_invalidated:
        reason = f" ({slot.invalidation_reason})" if slot.invalidation_reason else ""
        return Finding(
            severity=Severity.WARNING,
            subject=subject,
            about=slot.name,
            sentence=f"{about} is invalidated{reason}: it keeps nothing any more, and its consumer cannot continue.",
            because=_name_rebuild(is_logical=slot.kind == "logical"),
            statement=statement_to_drop(slot.name),
            caution="loses nothing that is not lost already",
        )
    if slot.is_briefly_inactive:
        return None
    is_unused = slot.kept_bytes is None
    kept = "keeps no WAL, because it was never used" if is_unused else f"keeps {format_bytes(slot.kept_bytes)} of WAL"
    if slot.xmin_age is not None:
        kept += f" and dead rows of all tables ({format_count(slot.xmin_age)} transactions)"
    elif slot.catalog_age is not None:
        kept += f" and the dead rows of the system catalogs ({format_count(slot.catalog_age)} transactions)"
    is_urgent = slot.xmin_age is not None or (slot.kept_bytes or 0) >= _KEPT_BYTES
    until = "the disk is full" if slot.wal_limit == "-1" else f"it is more than {slot.wal_limit} (max_slot_wal_keep_size)"
    return Finding(
        severity=Severity.CRITICAL if is_urgent else Severity.NOTE if is_unused else Severity.WARNING,
        subject=subject,
        about=slot.name,
        sentence=f"{about} {slot.inactivity} and {kept}.",
        because="" if is_unused else f"the server keeps WAL for it until {until}, or its consumer comes back",
        statement=statement_to_drop(slot.name),
        caution=describe_loss_of_slot(is_logical=slot.kind == "logical"),
    )


def describe_loss_of_slot(*, is_logical: bool) -> str:
    """Return what is lost with an inactive replication slot, to follow 'which '."""
    return f"loses its consumer's position: {_name_rebuild(is_logical=is_logical)}"


def _name_rebuild(*, is_logical: bool) -> str:
    return "a subscriber must copy its tables again" if is_logical else "a replica must be built again"
