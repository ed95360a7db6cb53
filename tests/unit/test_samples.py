"""The sample log writes all samples of one moment at once, in the declared columns."""

from __future__ import annotations

from pathlib import Path

from stallbench.records.reading import read_samples
from stallbench.records.samples import Sample, SampleLog


def test_samples_of_one_moment_share_its_time(tmp_path: Path) -> None:
    with SampleLog(tmp_path / "tables.csv") as log:
        log.write(5, [Sample("primary", "table:jobs", "dead_tuples", 3), Sample("primary", "table:jobs", "live_tuples", 4.5)])
    assert (tmp_path / "tables.csv").read_text() == "5,primary,table:jobs,dead_tuples,3\n5,primary,table:jobs,live_tuples,4.5\n"


def test_text_cannot_break_the_columns(tmp_path: Path) -> None:
    with SampleLog(tmp_path / "horizon.csv") as log:
        log.write(1, [Sample("primary", "holder:a,b", "application", 'x,"y"\n')])
    (record,) = read_samples(tmp_path / "horizon.csv")
    assert record == (1, "primary", "holder:a;b", "application", "x;'y' ")


def test_a_moment_without_samples_leaves_no_line(tmp_path: Path) -> None:
    with SampleLog(tmp_path / "locks.csv") as log:
        log.write(1, [])
    assert (tmp_path / "locks.csv").read_text() == ""
