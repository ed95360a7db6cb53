"""A deadlock travels through a sample file whole, and its statements can be compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.deadlocks.deadlock import Deadlock, shape_of
from stallbench.records.samples import Sample, SampleLog
from tests.unit.innodb_listings import LISTINGS, deadlock_of


@pytest.mark.parametrize("listing", LISTINGS)
def test_json_is_one_line_and_survives_a_round_trip(listing: str) -> None:
    deadlock = deadlock_of(listing)
    assert "\n" not in deadlock.to_json()
    assert Deadlock.from_json(deadlock.to_json()) == deadlock


@pytest.mark.parametrize("listing", LISTINGS)
def test_a_sample_s_value_passes_through_the_sample_file(listing: str, tmp_path: Path) -> None:
    deadlock = deadlock_of(listing)
    with SampleLog(tmp_path / "deadlocks.csv") as log:
        log.write(1, [Sample("primary", "server", "deadlock", deadlock.to_sample_value())])
    (line,) = (tmp_path / "deadlocks.csv").read_text().splitlines()
    assert Deadlock.from_sample_value(line.split(",")[4]) == deadlock


@pytest.mark.parametrize("torn", ["", "x", "eJ", "münze", deadlock_of("mariadb_two_rows").to_sample_value()[:-20]])
def test_a_torn_value_is_a_value_error(torn: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Deadlock.from_sample_value(torn)


@pytest.mark.parametrize(
    ("sql", "shape"),
    [
        ("delete from `jobs` where `id` = 209", "delete from jobs where id = ?"),
        ("select *\n  from jobs1 where queue = 'it''s' limit 1", "select * from jobs1 where queue = ? limit ?"),
        ("insert into t values (1, 'a', -2.5)", "insert into t values (?, ...)"),
    ],
)
def test_a_shape_leaves_out_the_constants(sql: str, shape: str) -> None:
    assert shape_of(sql) == shape
