"""How much of a table, of the values beside it and of its indexes holds no live row: what `stallbench observe` shows after a vacuum."""

from __future__ import annotations

import pytest

from stallbench.engines.postgres.driver import connect
from tests.integration.conftest import TestDatabase
from tests.integration.observed import observer_of
from tests.integration.test_observe_tables import row_of_the_table, vacuum
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

JOBS, LEFT = 12_000, 3
VALUE_BYTES = 4_800
TABLE = f"""
CREATE TABLE que_jobs (job_id bigserial PRIMARY KEY, args text);
ALTER TABLE que_jobs ALTER args SET STORAGE EXTERNAL;
CREATE INDEX ON que_jobs (lower(left(args, 40)), job_id);
INSERT INTO que_jobs (args) SELECT repeat(md5(n::text), {VALUE_BYTES // 32}) FROM generate_series(1, {JOBS + LEFT}) AS n;
ANALYZE que_jobs
"""


def mb(text: str) -> float:
    """Return the first size in a text like ``10 MB, about 9.4 MB bloat``."""
    number, unit = text.partition(",")[0].removeprefix("about ").removesuffix(" bloat").split()
    return float(number) * {"kB": 1 / 1024, "MB": 1}[unit]


def test_values_beside_the_table_and_indexes_stay_large_when_their_rows_are_gone(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stallbench.observe.postgres.tables.LITTLE_BYTES", 2**18)
    with connect(database.direct, "fixture") as admin, observer_of(database.direct, tables=("que_jobs",)) as observer:
        admin.execute(TABLE)
        whole = row_of_the_table(observer.read())
        assert mb(whole["TOAST"]) > JOBS * VALUE_BYTES / 2**20
        assert "bloat" not in whole["TOAST"]
        assert "bloat" not in whole["indexes"]
        admin.execute("DELETE FROM que_jobs WHERE job_id <= %s", (JOBS,))
        # At the end, so that no page can be cut off.
        admin.execute("INSERT INTO que_jobs (args) SELECT repeat('y', 5000) FROM generate_series(1, %s)", (LEFT,))

        def find_bloat() -> dict[str, str] | None:
            vacuum(database)
            admin.execute("ANALYZE que_jobs")
            row = row_of_the_table(observer.read(reads_everything=True))
            return row if "bloat" in row["TOAST"] and "bloat" in row["indexes"] else None

        gone = wait_for(find_bloat, "a vacuum that removes them: another transaction may hold the horizon")
    for column in ("TOAST", "indexes"):
        size, _, bloat = gone[column].partition(", ")
        assert mb(bloat) > 0.9 * mb(size), "hardly a row is left"
        assert mb(size) > 0.9 * mb(whole[column])


def test_rows_that_the_server_does_not_count_since_its_crash_are_no_bloat(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stallbench.observe.postgres.tables.LITTLE_BYTES", 2**18)
    with connect(database.direct, "fixture") as admin, observer_of(database.direct, tables=("que_jobs",)) as observer:
        admin.execute(TABLE)

        def reset() -> str | None:
            vacuum(database)
            admin.execute("SELECT pg_stat_reset()")  # as a crash does
            row = row_of_the_table(observer.read(reads_everything=True))
            return " ".join((row["bloat"], row["TOAST"], row["indexes"])) if row["live rows"] == "0" else None

        assert "about" not in wait_for(reset, "a reset that no later count of the inserted rows follows")


def test_a_table_whose_values_are_all_short_has_no_column_for_longer_ones(database: TestDatabase) -> None:
    with connect(database.direct, "fixture") as admin, observer_of(database.direct, tables=("que_jobs",)) as observer:
        admin.execute("CREATE TABLE que_jobs (job_id bigserial PRIMARY KEY, args text); INSERT INTO que_jobs (args) VALUES ('x')")
        assert "TOAST" not in row_of_the_table(observer.read())
