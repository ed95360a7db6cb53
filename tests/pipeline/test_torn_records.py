"""Torn and garbled lines are counted, left out, and never the end of a report, through sealed records and Spark.

`tests/unit/test_record_reading.py` tries each way in which a line may be torn.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stallbench.pipeline.paths import name_folder
from stallbench.pipeline.read import Records, make_torn, read_records
from tests.garbled_lines import GARBLED, GOOD, T
from tests.synthetic_run import SyntheticRun

WHOLE_LINES = 4
IN_THE_MIDDLE, WITH_AN_ERROR, FIRST_GARBLED = "worker-2", "worker-3", 100


@pytest.fixture
def run(tmp_path: Path) -> SyntheticRun:
    return SyntheticRun(tmp_path / "run").live(1, at_s=0.5)


@pytest.fixture(scope="module")
def records(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Records:
    """A run with whole files, and one file for each way in which a line may be torn."""
    run = SyntheticRun(tmp_path_factory.mktemp("torn") / "run").live(1, at_s=0.5)
    run.raise_error("40P01 in claim: it's a deadlock; really \\n", at_s=0.7, by=WITH_AN_ERROR)
    run.garble(f"events/{IN_THE_MIDDLE}.csv", of_job(2) + b"torn\n" + of_job(3))
    for number, garbled in enumerate(GARBLED.values(), start=FIRST_GARBLED):
        run.garble(f"events/worker-{number}.csv", of_job(number) + garbled)
    run.sample("backlog", "queue", at_s=1, depth=3).sample("backlog", "queue", at_s=2, depth="many")
    run.garble("samples/backlog.csv", T + b",primary,queue,depth\n" + T + b",primary,queue,depth,12")
    run.write()
    return read_records(spark, name_folder(run.folder))


def of_job(number: int) -> bytes:
    """A good line."""
    return GOOD.replace(b",77,", f",{number},".encode())


def counted(records: Records) -> dict[object, tuple[object, object, object]]:
    return {row["file"]: (row["lines"], row["torn_lines"], row["last_line_torn"]) for row in make_torn(records)}


def test_whole_lines_are_read_and_counted(records: Records) -> None:
    found = counted(records)
    assert found["events/worker-1.csv"] == (3, 0, False)
    assert found["events/producer-1.csv"] == (1, 0, False)
    assert found[f"events/{WITH_AN_ERROR}.csv"] == (1, 0, False)
    assert records.event_count == records.events.count() == WHOLE_LINES + 1 + 2 + len(GARBLED)


def test_every_garbled_line_is_counted_and_left_out(records: Records) -> None:
    """Each is in a file of its own behind a good line."""
    found = counted(records)
    names = {what: f"events/worker-{number}.csv" for number, what in enumerate(GARBLED, start=FIRST_GARBLED)}
    assert {what: found[name] for what, name in names.items()} == dict.fromkeys(GARBLED, (2, 1, True))
    completed = sorted(row["job_id"] for row in records.events.filter("event = 'completed'").collect())
    assert completed == [1, 2, 3, *range(FIRST_GARBLED, FIRST_GARBLED + len(GARBLED))]


def test_a_torn_line_in_the_middle_spoils_no_other(records: Records) -> None:
    assert counted(records)[f"events/{IN_THE_MIDDLE}.csv"] == (3, 1, False)


def test_errors_keep_their_text(records: Records) -> None:
    (error,) = records.events.filter("event = 'error'").collect()
    assert error["detail"] == "40P01 in claim: it's a deadlock; really \\n"


def test_torn_samples_are_left_out_too(records: Records) -> None:
    assert counted(records)["samples/backlog.csv"] == (4, 2, True)
    assert [(row["value"], row["number"]) for row in records.samples.collect()] == [("3", 3.0), ("many", None)]


@pytest.mark.parametrize(
    "final_snapshot",
    [
        pytest.param("", id="empty"),
        pytest.param("1,queued\n", id="not ended"),
        pytest.param("1,queued\nend,2\n", id="fewer jobs than it says"),
        pytest.param("1,queued\nend,", id="torn at its end"),
        pytest.param("1,queu\nend,1\n", id="a state that does not exist"),
        pytest.param("1,queued\nend,1\n2,queued\n", id="more behind its end"),
        pytest.param("end,1\nend,1\n", id="two ends"),
    ],
)
def test_a_final_snapshot_that_is_not_whole_is_not_used(spark: SparkSession, run: SyntheticRun, final_snapshot: str) -> None:
    run.write(snapshot_text=final_snapshot)
    assert read_records(spark, name_folder(run.folder)).final_snapshot is None


def test_a_whole_final_snapshot_is_used_even_if_the_queue_was_empty(spark: SparkSession, run: SyntheticRun) -> None:
    run.write(final_snapshot={})
    final_snapshot = read_records(spark, name_folder(run.folder)).final_snapshot
    assert final_snapshot is not None
    assert final_snapshot.count() == 0
