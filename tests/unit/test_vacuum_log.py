"""What is remembered of the vacuums in a server's log."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.engines.postgres.collectors.vacuum import AutovacuumLog

VACUUM = """2026-01-01 [1] LOG:  automatic vacuum of table "{table}": index scans: 0
\tpages: 0 removed, 447 remain, 447 scanned (100.00% of total)
\ttuples: 17 removed, 20062 remain, {kept} are dead but not yet removable
"""


def test_tables_of_the_same_name_are_distinguished_by_schema_and_database(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    tables = {"app.tenant_1.jobs": 5, "app.tenant_2.jobs": 7, "other.tenant_1.jobs": 9, 'app.tenant_1.a "quoted" one': 11}
    log.write_text("".join(VACUUM.format(table=table, kept=kept) for table, kept in tables.items()))
    reader = AutovacuumLog(log)
    reader.read_on()
    assert {table: figures["not_removable_tuples"] for table, figures in reader.last.items()} == tables


@pytest.mark.parametrize(
    "line",
    [
        '2026-01-01 [9] STATEMENT:  SELECT 1/0 /* automatic vacuum of table "app.public.jobs": index scans: 0',
        '2026-01-01 [9] STATEMENT:  SELECT 1/0 /* LOG:  automatic vacuum of table "app.public.jobs": index scans: 0',
        '2026-01-01 [9] ERROR:  invalid input syntax for type integer: "LOG:  automatic vacuum of table "app.public.jobs": index scans: 0',
        '2026-01-01 [9] [LOG:  automatic vacuum of table "app.public.jobs": index scans: 0] ERROR:  division by zero',
    ],
)
def test_what_a_client_writes_into_the_log_is_no_vacuum(tmp_path: Path, line: str) -> None:
    log = tmp_path / "server.log"
    log.write_text(f"{line}\n\ttuples: 0 removed, 20 remain, 4000000 are dead but not yet removable, oldest xmin: 700\n")
    reader = AutovacuumLog(log)
    reader.read_on()
    assert reader.last == {}
