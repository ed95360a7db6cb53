"""What `stallbench observe` concludes from replication slots, on servers of all versions."""

from __future__ import annotations

from typing import Any

import pytest

from stallbench.observe.diagnostic import ObserverState, Reading, Section, Severity
from stallbench.observe.postgres.horizon import HorizonDiagnostic
from stallbench.observe.postgres.replication import ReplicationDiagnostic
from stallbench.observe.postgres.session import Rows
from stallbench.observe.postgres.slots import Slot, judge_slot

GB = 1024**3


def slot(**values: Any) -> Slot:
    given: dict[str, Any] = {
        "name": "s",
        "kind": "physical",
        "database": "",
        "is_active": False,
        "wal_status": "reserved",
        "kept_bytes": GB,
        "xmin_age": None,
        "catalog_age": None,
        "inactive_s": 3600.0,
        "is_synced": False,
        "invalidation_reason": "",
        "wal_limit": "-1",
    }
    return Slot(**(given | values))


def test_a_slot_that_nobody_uses_is_dropped_after_a_look_at_since_when() -> None:
    finding = judge_slot(slot(), "replication")
    assert finding is not None
    assert finding.sentence == "The physical replication slot s has been inactive for 60 min and keeps 1.0 GB of WAL."
    assert finding.because == "the server keeps WAL for it until the disk is full, or its consumer comes back"
    assert finding.statement == "SELECT pg_catalog.pg_drop_replication_slot('s');"


def test_before_postgres_17_it_is_not_known_since_when() -> None:
    finding = judge_slot(slot(inactive_s=None), "replication")
    assert finding is not None
    assert "slot s is inactive and keeps" in finding.sentence


def test_a_replica_that_restarts_is_nothing_to_warn_of() -> None:
    assert judge_slot(slot(inactive_s=2.0), "replication") is None
    assert slot(inactive_s=2.0).state == "inactive for 2.0 s"


@pytest.mark.parametrize("values", [{"kept_bytes": 11 * GB}, {"xmin_age": 2_000_000}, {"catalog_age": 2_000_000}])
def test_a_consumer_that_crashes_again_and_again_is_reported_once_its_slot_keeps_much(values: dict[str, int]) -> None:
    """Each of its attempts begins the time anew."""
    finding = judge_slot(slot(inactive_s=2.0, **values), "replication")
    assert finding is not None
    assert "slot s has been inactive for 2.0 s (its consumer may be restarting) and keeps" in finding.sentence


def test_a_slot_that_a_standby_copies_from_its_primary_is_never_used_there() -> None:
    """It cannot be dropped on the standby either."""
    synced = slot(is_synced=True, kind="logical", inactive_s=90_000.0)
    assert judge_slot(synced, "replication") is None
    assert synced.state == "synced from the primary"


def test_an_invalidated_slot_keeps_nothing_and_its_consumer_is_lost() -> None:
    lost = slot(wal_status="lost", kept_bytes=None, xmin_age=900, invalidation_reason="wal_removed", inactive_s=1.0)
    finding = judge_slot(lost, "replication")
    assert finding is not None
    assert finding.sentence == (
        "The physical replication slot s is invalidated (wal_removed): it keeps nothing any more, and its consumer cannot continue."
    )
    assert finding.because == "a replica must be built again"
    assert finding.severity is Severity.WARNING


def test_a_slot_that_was_never_used_keeps_no_wal() -> None:
    finding = judge_slot(slot(kept_bytes=None), "replication")
    assert finding is not None
    assert (finding.severity, finding.because) == (Severity.NOTE, "")
    assert "keeps no WAL, because it was never used" in finding.sentence


@pytest.mark.parametrize("values", [{"xmin_age": 5}, {"kept_bytes": 11 * GB}])
def test_a_slot_that_holds_the_horizon_or_fills_the_disk_is_critical(values: dict[str, int]) -> None:
    finding = judge_slot(slot(**values), "replication")
    assert finding is not None
    assert finding.severity is Severity.CRITICAL


def test_a_server_with_a_limit_does_not_fill_its_disk_for_a_slot() -> None:
    finding = judge_slot(slot(wal_limit="20GB"), "replication")
    assert finding is not None
    assert "until it is more than 20GB (max_slot_wal_keep_size)" in finding.because


class Stub:
    """Answers each query with the rows whose key it contains."""

    def __init__(self, **rows: list[tuple[Any, ...]]) -> None:
        self.rows = rows

    def execute(self, query: str, values: Any = None) -> Rows:
        return Rows(next(rows for word, rows in self.rows.items() if word in query))


def test_the_table_says_of_an_invalidated_slot_that_it_keeps_nothing() -> None:
    server = Stub(
        SyncRep=[(0, None, "", [])],
        pg_stat_replication=[],
        pg_replication_slots=[tuple(slot(wal_status="lost", kept_bytes=None))],
    )
    section = ReplicationDiagnostic().read(Reading(server=server, at_s=0.0, state=ObserverState(sees_all=True)))
    assert section.rows == (("physical slot s", "", "inactive for 60 min, invalidated", "0 B", "", "keeps nothing"),)


def look_at_horizon(inactive: Slot) -> tuple[Section, ObserverState]:
    """Look at a server whose oldest holder is a slot, and the next a transaction that is prepared since an hour."""
    of_slot = ("slot", inactive.name, None, "", "inactive", None, inactive.xmin_age, "", False, None, False)
    prepared = ("prepared", "gid", None, "", "prepared", 3600.0, 4, "", False, "shop", False)
    server = Stub(
        catalog_only=[of_slot, prepared],
        to_jsonb=[tuple(inactive)],
        pg_prepared_xacts=[("gid", "app", "shop", 3600.0)],
        xid=[(1000,)],
        vacuum_defer_cleanup_age=[(None,)],
    )
    known = ObserverState(sees_all=True)
    return HorizonDiagnostic().read(Reading(server=server, at_s=0.0, state=known)), known


def test_behind_a_slot_whose_consumer_restarts_the_next_holder_is_named() -> None:
    section, known = look_at_horizon(slot(inactive_s=2.0, xmin_age=5))
    assert [row[-1] for row in section.rows] == ["may be restarting", "ROLLBACK PREPARED 'gid';"]
    assert [one.about for one in section.findings] == ["gid"]
    assert known.holders[0].name == "prepared transaction gid (database shop, owner app)"
    assert known.holders[0].finding.statement == "ROLLBACK PREPARED 'gid';"


def test_a_slot_whose_xmin_is_old_holds_the_horizon_although_it_was_used_just_now() -> None:
    section, known = look_at_horizon(slot(inactive_s=2.0, xmin_age=2_000_000))
    assert section.rows[0][-1] == "SELECT pg_catalog.pg_drop_replication_slot('s');"
    assert [one.about for one in section.findings] == ["s", "gid"]
    assert known.holders[0].name == "inactive replication slot s"
