"""Which record files are copied to Parquet: those of which every line is whole. The others are left to Spark, which counts their torn lines."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from stallbench.pipeline import whole_files
from stallbench.pipeline.contents import list_contents
from stallbench.pipeline.layouts import EVENT_IDS, EVENTS, FINAL_SNAPSHOT, LEFT_OVER, Layout
from stallbench.pipeline.paths import name_folder
from stallbench.pipeline.read import read_records
from stallbench.pipeline.whole_files import Copies, copy_whole_files
from tests.pipeline.test_torn_records import GARBLED, GOOD, T

SAMPLE_RUN = Path(__file__).resolve().parents[2] / "reports" / "sample"


def copy(folder: Path) -> dict[Layout, Copies]:
    return copy_whole_files(folder, list_contents({"worker-1": 5}), folder.parent / "copies")


def copy_events(folder: Path, content: bytes) -> Copies:
    (folder / "events").mkdir(parents=True)
    (folder / "events" / "worker-1.csv").write_bytes(content)
    return copy(folder)[EVENTS]


def test_a_whole_file_is_copied_and_counted(tmp_path: Path) -> None:
    copies = copy_events(tmp_path / "run", GOOD + GOOD.replace(b"77", b"78"))
    assert not copies.left
    (file,) = copies.files
    assert (file.name, file.lines, file.torn_lines, file.counts["completed"]) == ("events/worker-1.csv", 2, 0, 2)
    assert file.first_ns == file.last_ns == int(T)
    (row, _) = pq.read_table(copies.folder).to_pylist()
    assert row == {
        "t_ns": int(T),
        "process": "worker-1",
        "event": "completed",
        "job_id": 77,
        "intended_ns": None,
        "duration_ns": 1000,
        "detail": None,
        "process_id": 5,
        "event_id": EVENT_IDS["completed"],
    }


@pytest.mark.parametrize("garbled", GARBLED.values(), ids=GARBLED)
def test_a_file_with_a_torn_line_is_left(tmp_path: Path, garbled: bytes) -> None:
    copies = copy_events(tmp_path / "run", GOOD + garbled)
    assert [path.name for path in copies.left] == ["worker-1.csv"]
    assert copies.files == ()
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(GOOD.replace(b",1000,", b",0x10,"), id="a hexadecimal number"),
        pytest.param(GOOD.replace(b"\n", b"\r\n"), id="the end of a line of another system"),
        pytest.param(b"\xef\xbb\xbf" + GOOD, id="a byte order mark"),
        pytest.param(GOOD.replace(b",1000,", b"," + b"0" * 20_000 + b"1,"), id="a line that is too long"),
    ],
)
def test_what_arrow_would_read_in_another_way_than_spark_is_left(tmp_path: Path, odd: bytes) -> None:
    assert copy_events(tmp_path / "run", odd + GOOD).left


def test_a_file_of_several_blocks_is_copied_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_files, "_BLOCK_BYTES", 100)
    lines = [GOOD.replace(b",77,", f",{number},".encode()) for number in range(1000)]
    copies = copy_events(tmp_path / "run", b"".join(lines))
    assert copies.files[0].lines == 1000
    assert pq.read_table(copies.folder)["job_id"].to_pylist() == list(range(1000))


def test_nothing_is_kept_of_a_file_whose_last_block_is_torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_files, "_BLOCK_BYTES", 100)
    copies = copy_events(tmp_path / "run", GOOD * 100 + b"torn\n")
    assert copies.left
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_file_whose_copy_does_not_fit_on_the_disk_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    assert copy_events(tmp_path / "run", GOOD).left
    assert not list(tmp_path.rglob("*.parquet"))


def test_an_empty_file_is_neither_copied_nor_left(tmp_path: Path) -> None:
    copies = copy_events(tmp_path / "run", b"")
    assert (copies.files, copies.left) == ((), ())


@pytest.mark.parametrize(
    ("content", "is_copied"),
    [
        (b"end,0\n", True),
        (b"1,queued\n2,claimed\nend,2\n", True),
        (b"1,queued\nend,1\n2,queued\n", False),
        (b"1,queu\nend,1\n", False),
        (b"one,queued\nend,1\n", False),
        (b"1,queued\nend,one\n", False),
    ],
)
def test_a_final_snapshot_is_copied_if_its_lines_are_jobs_and_their_number(
    tmp_path: Path, content: bytes, is_copied: bool
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "final_snapshot.csv").write_bytes(content)
    copies = copy(run)
    assert bool(copies[FINAL_SNAPSHOT].files) is is_copied
    assert (copies[LEFT_OVER].files, copies[LEFT_OVER].left) == ((), ())


def test_the_copies_of_a_real_run_have_what_spark_reads_from_its_text(spark: SparkSession, tmp_path: Path) -> None:
    from_copies = read_records(spark, name_folder(SAMPLE_RUN), tmp_path)
    from_text = read_records(spark, name_folder(SAMPLE_RUN))
    assert from_copies.files == from_text.files
    assert all((tmp_path / kind).is_dir() for kind in ("events", "samples", "final_snapshot.csv"))
    assert from_copies.event_count > 1000
    for copied, read in ((from_copies.events, from_text.events), (from_copies.samples, from_text.samples)):
        columns = [name for name in read.columns if name != "process_id"]
        assert sorted(copied.columns) == sorted(read.columns)
        copied, read = copied.select(columns), read.select(columns)  # noqa: PLW2901
        assert copied.exceptAll(read).count() == read.exceptAll(copied).count() == 0
