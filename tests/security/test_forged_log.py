"""Every user may write into the log of PostgreSQL (``RAISE LOG``): what imitates a message of autovacuum there blames nobody."""

from __future__ import annotations

import pytest

from stallbench.engines.postgres.collectors.vacuum import AutovacuumLog
from stallbench.engines.postgres.driver import connect
from tests.security.test_hostile_database import HostileDatabase, hostile
from tests.waiting import wait_for

__all__ = ["hostile"]
pytestmark = pytest.mark.integration
_IMITATION = (
    r"""DO $do$ BEGIN RAISE LOG E'automatic vacuum of table "{table}": index scans: 0\n"""
    r"""pages: 0 removed, 443 remain\ntuples: 0 removed, 10 remain, 90000 are dead but not yet removable\n"""
    r"""removable cutoff: 1, which was 0 XIDs old when operation ended\nsystem usage: CPU: user: 0.00 s'; RAISE LOG '{end}'; END $do$"""
)


def test_a_message_that_imitates_autovacuum_is_not_believed(hostile: HostileDatabase) -> None:
    log = hostile.database.cluster.server("primary").log
    assert log is not None
    table = f"{hostile.endpoint.database}.public.jobs"
    reader = AutovacuumLog(log, log.stat().st_size)
    reader.last[table] = {"not_removable_tuples": 7}
    with connect(hostile.attacker, "test") as attacker:
        attacker.execute(_IMITATION.format(table=table, end=hostile.mark).encode())
    wait_for(lambda: f"LOG:  {hostile.mark}" in log.read_text(errors="replace"), "the message")
    assert f'LOG:  automatic vacuum of table "{table}": index scans: 0' in log.read_text(errors="replace")
    reader.read_on()
    assert reader.last == {table: {"not_removable_tuples": 7}}
