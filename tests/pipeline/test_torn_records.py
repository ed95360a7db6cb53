"""Torn and garbled lines: counted, left out, and never the end of a report. Each run is read once with copies of whole files, once without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from stallbench.pipeline.layouts import EVENTS
from stallbench.pipeline.lines import RecordFile, parse_lines
from stallbench.pipeline.paths import name_folder, read_lines_of
from stallbench.pipeline.read import Records, read_records
from tests.synthetic_run import START_NS, SyntheticRun

T = str(START_NS + 10**9).encode()
GOOD = T + b",1,worker-1,completed,77,1,,1000,\n"
GARBLED = {
    "a column short": T + b",1,worker-1,completed,77,1,,1000\n",
    "a column over": T + b",1,worker-1,completed,77,1,,1000,,\n",
    "no time": b",1,worker-1,completed,77,1,,1000,\n",
    "a time that is no number": b"17x9,1,worker-1,completed,77,1,,1000,\n",
    "an id that is no number": T + b",1,worker-1,completed,seven,1,,1000,\n",
    "a number with a fraction": T + b",1,worker-1,completed,77,1,,0.5,\n",
    "a number that is too large": T + b",1,worker-1,completed,99999999999999999999,1,,1000,\n",
    "an event that does not exist": T + b",1,worker-1,complet,77,1,,1000,\n",
    "no process": T + b",1,,completed,77,1,,1000,\n",
    "NUL bytes": T + b",1,worker-1,completed,77,1,,1000,\x00\x00\n",
    "NUL bytes at its beginning": b"\x00\x00" + GOOD,
    "an empty line": b"\n",
    "no text at all": b"\xff\xfe\x9c\x01\n",
    "tens of thousands of commas": b"," * 30_000 + b"\n",
    "a quotation mark": b'"' + GOOD,
    "a line that ends in the middle": T + b",1,worker-1,comp",
    "a line that only lacks its end": GOOD[:-1],
    "a block of NUL bytes, as a machine that stops leaves it": b"\x00" * 100_000,
}

WHOLE_LINES = 4
IN_THE_MIDDLE, WITH_AN_ERROR, FIRST_GARBLED = "worker-2", "worker-3", 100

Read = Callable[[SyntheticRun], Records]


@pytest.fixture(scope="module", params=["copied", "as text"])
def read(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Read:
    def read_written(run: SyntheticRun) -> Records:
        scratch = tmp_path_factory.mktemp("copies") if request.param == "copied" else None
        return read_records(spark, name_folder(run.folder), scratch)

    return read_written


@pytest.fixture
def run(tmp_path: Path) -> SyntheticRun:
    return SyntheticRun(tmp_path / "run").live(1, at_s=0.5)


@pytest.fixture(scope="module")
def records(read: Read, tmp_path_factory: pytest.TempPathFactory) -> Records:
    """A run with whole files, and one file for each way in which a line may be torn."""
    run = SyntheticRun(tmp_path_factory.mktemp("torn") / "run").live(1, at_s=0.5)
    run.raise_error("40P01 in claim: it's a deadlock; really \\n", at_s=0.7, by=WITH_AN_ERROR)
    run.garble(f"events/{IN_THE_MIDDLE}.csv", of_job(2) + b"torn\n" + of_job(3))
    for number, garbled in enumerate(GARBLED.values(), start=FIRST_GARBLED):
        run.garble(f"events/worker-{number}.csv", of_job(number) + garbled)
    run.sample("backlog", "queue", at_s=1, depth=3).sample("backlog", "queue", at_s=2, depth="many")
    run.garble("samples/backlog.csv", T + b",primary,queue,depth\n" + T + b",primary,queue,depth,12")
    run.write()
    return read(run)


def of_job(number: int) -> bytes:
    """A good line."""
    return GOOD.replace(b",77,", f",{number},".encode())


def file_of(records: Records, name: str) -> RecordFile:
    (file,) = [file for file in records.files if file.name == name]
    return file


def counted(records: Records, name: str) -> tuple[int, int]:
    file = file_of(records, name)
    return file.lines, file.torn_lines


def completed_jobs(records: Records) -> list[int]:
    return sorted(row["job_id"] for row in records.events.filter("event = 'completed'").collect())


def test_whole_lines_are_read_and_counted(records: Records) -> None:
    assert counted(records, "events/worker-1.csv") == (3, 0)
    assert counted(records, "events/producer-1.csv") == (1, 0)
    assert counted(records, f"events/{WITH_AN_ERROR}.csv") == (1, 0)
    assert records.event_count == sum(file.lines - file.torn_lines for file in records.files if file.kind == EVENTS.kind)
    assert records.event_count == records.events.count() == WHOLE_LINES + 1 + 2 + len(GARBLED)


def test_a_line_that_spark_keeps_has_a_number_for_its_file_and_not_the_name(spark: SparkSession, run: SyntheticRun) -> None:
    lines = read_lines_of(spark, name_folder(run.write() / "events"))
    assert lines is not None
    parsed = parse_lines(lines, EVENTS, F.lit(True))
    texts = [name for name, kind in parsed.dtypes if kind == "string"]
    assert texts == ["process", "event", "detail"]


def test_every_garbled_line_is_counted_and_left_out(records: Records) -> None:
    """Each is in a file of its own behind a good line."""
    names = {what: f"events/worker-{number}.csv" for number, what in enumerate(GARBLED, start=FIRST_GARBLED)}
    assert {what: counted(records, name) for what, name in names.items()} == dict.fromkeys(GARBLED, (2, 1))
    assert all(file_of(records, name).last_line_torn for name in names.values())
    assert completed_jobs(records) == [1, 2, 3, *range(FIRST_GARBLED, FIRST_GARBLED + len(GARBLED))]


def test_a_torn_line_in_the_middle_spoils_no_other(records: Records) -> None:
    assert counted(records, f"events/{IN_THE_MIDDLE}.csv") == (3, 1)
    assert not file_of(records, f"events/{IN_THE_MIDDLE}.csv").last_line_torn
    assert {2, 3} <= {*completed_jobs(records)}


def test_a_file_of_several_blocks_misses_only_its_last_line(spark: SparkSession, run: SyntheticRun, read: Read) -> None:
    """Large files are read in blocks, in any order: only the last line of the last block is the last of the file."""
    lines = b"".join(of_job(number) for number in range(2000))
    run.garble("events/worker-2.csv", lines[:-1])
    run.write()
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "10000")
    try:
        records = read(run)
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(before))
    assert counted(records, "events/worker-2.csv") == (2000, 1)
    assert file_of(records, "events/worker-2.csv").last_line_torn
    assert completed_jobs(records) == sorted([1, *range(1999)])


def test_errors_keep_their_text(records: Records) -> None:
    (error,) = records.events.filter("event = 'error'").collect()
    assert error["detail"] == "40P01 in claim: it's a deadlock; really \\n"


def test_torn_samples_are_left_out_too(records: Records) -> None:
    assert counted(records, "samples/backlog.csv") == (4, 2)
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
    ],
)
def test_a_final_snapshot_that_is_not_whole_is_not_used(run: SyntheticRun, read: Read, final_snapshot: str) -> None:
    run.write(snapshot_text=final_snapshot)
    assert read(run).final_snapshot is None


def test_a_whole_final_snapshot_is_used_even_if_the_queue_was_empty(run: SyntheticRun, read: Read) -> None:
    run.write(final_snapshot={})
    final_snapshot = read(run).final_snapshot
    assert final_snapshot is not None
    assert final_snapshot.count() == 0
