"""Sealed records: what Spark reads holds what the text files hold, and is made again when these have changed."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stallbench.records import reading, sealing
from stallbench.records.layouts import EVENT_IDS, STATED_JOBS
from stallbench.records.reading import read_events
from stallbench.records.sealing import MANIFEST, SEALED, RecordFile, SealedRecords, find_sealed, remove_event_logs, seal
from stallbench.run.folder import RunFolder
from stallbench.studies.soak.disk import remove_records
from tests.garbled_lines import GOOD, T
from tests.synthetic_run import SyntheticRun

SAMPLE_RUN = Path(__file__).resolve().parents[1] / "small_run"


@pytest.fixture
def run(tmp_path: Path) -> SyntheticRun:
    made_up = SyntheticRun(tmp_path / "run").live(1, at_s=0.5).sample("backlog", "queue", at_s=1, depth=3)
    made_up.write(final_snapshot={2: "queued"})
    return made_up


def file_of(sealed: SealedRecords, name: str) -> RecordFile:
    (file,) = [file for file in sealed.files if file.name == name]
    return file


def rows_of(folder: Path, name: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = pq.read_table(folder / SEALED / name).to_pylist()
    return rows


def test_events_have_numbers_beside_their_names(run: SyntheticRun) -> None:
    sealed = seal(run.folder)
    (first, *_) = rows_of(run.folder, "events/worker-1.parquet")
    assert first["event_id"] == EVENT_IDS[str(first["event"])]
    assert first["process_id"] == sealed.process_ids["worker-1"]
    assert sealed.process_ids.keys() == {"producer-1", "worker-1"}


def test_a_process_without_a_log_of_its_own_has_no_number(run: SyntheticRun) -> None:
    (run.folder / "events" / "worker-9.csv").write_bytes(GOOD + GOOD.replace(b"worker-1", b"stranger"))
    seal(run.folder)
    known, unknown = rows_of(run.folder, "events/worker-9.parquet")
    assert known["process_id"] is not None
    assert (unknown["process"], unknown["process_id"]) == ("stranger", None)


def test_samples_have_their_numbers(run: SyntheticRun) -> None:
    seal(run.folder)
    (sample,) = rows_of(run.folder, "samples/backlog.parquet")
    assert (sample["metric"], sample["value"], sample["number"]) == ("depth", "3", 3.0)


def test_what_was_counted_is_kept_with_the_records(run: SyntheticRun) -> None:
    run.garble("events/worker-2.csv", GOOD + b"torn\n" + GOOD[:-1])
    run.write(final_snapshot={2: "queued"})
    assert find_sealed(run.folder) is None
    sealed = seal(run.folder)
    assert find_sealed(run.folder) == sealed
    damaged = file_of(sealed, "events/worker-2.csv")
    assert (damaged.lines, damaged.torn_lines, damaged.torn_at) == (3, 2, (2, 3))
    assert (damaged.last_line_torn, damaged.unfinished) == (True, True)
    assert damaged.counts["completed"] == 1
    assert damaged.counts["error"] == 0
    assert damaged.first_ns == damaged.last_ns == int(T)
    assert file_of(sealed, "final_snapshot.csv").counts == {STATED_JOBS: 1}


def test_a_real_run_is_sealed_as_it_was_recorded(tmp_path: Path) -> None:
    for part in ("events", "samples"):
        (tmp_path / part).symlink_to(SAMPLE_RUN / part)
    sealed = seal(tmp_path)
    assert sum(file.torn_lines for file in sealed.files) == 0
    names = ("t_ns", "mono_ns", "process", "event", "job_id", "attempt", "intended_ns", "duration_ns")
    for path in sorted((SAMPLE_RUN / "events").glob("*.csv")):
        recorded = [tuple(str(value) if value is not None else None for value in event[:8]) for event in read_events(path)]
        rows = rows_of(tmp_path, f"events/{path.stem}.parquet")
        assert [tuple(None if row[name] is None else str(row[name]) for name in names) for row in rows] == recorded
        assert len(recorded) == len(path.read_text().splitlines())


@pytest.mark.parametrize(
    "content",
    [b"", b"not JSON", b"\xff\xfe", b"[]", json.dumps({"format": 0, "files": [], "process_ids": {}}).encode()],
    ids=["empty", "no JSON", "no UTF-8", "no object", "another format"],
)
def test_records_whose_manifest_cannot_be_read_are_sealed_again(run: SyntheticRun, content: bytes) -> None:
    sealed = seal(run.folder)
    (run.folder / SEALED / MANIFEST).write_bytes(content)
    assert find_sealed(run.folder) is None
    assert seal(run.folder) == sealed


@pytest.mark.parametrize(
    "wrong",
    [
        {"process_ids": ["a"]},
        {"process_ids": {"a": "b"}},
        {"files": "x"},
        *({"files": [{"counts": each}]} for each in ("x", ["x"], {"x": "many"}, None)),
        {"files": [{"lines": "many"}]},
        {"files": [{"torn_at": "x"}]},
        {"files": [{"name": 1}]},
        {"files": [{"first_ns": "x"}]},
        {"files": [{"last_line_torn": 1}]},
    ],
    ids=str,
)
def test_records_whose_manifest_somebody_has_forged_are_sealed_again(run: SyntheticRun, wrong: dict[str, Any]) -> None:
    sealed = seal(run.folder)
    path = run.folder / SEALED / MANIFEST
    content = json.loads(path.read_text())
    if isinstance(files := wrong.get("files"), list):
        content["files"][0] |= files[0]
    else:
        content |= wrong
    path.write_text(json.dumps(content))
    assert find_sealed(run.folder) is None
    assert seal(run.folder) == sealed


def test_records_that_were_added_are_sealed_again(run: SyntheticRun) -> None:
    seal(run.folder)
    with (run.folder / "events" / "worker-1.csv").open("ab") as file:
        file.write(GOOD)
    before = file_of(seal(run.folder), "events/worker-1.csv").lines
    (run.folder / "events" / "worker-9.csv").write_bytes(GOOD)
    sealed = seal(run.folder)
    assert file_of(sealed, "events/worker-1.csv").lines == before == 4
    assert file_of(sealed, "events/worker-9.csv").lines == 1


def test_a_run_without_records_is_sealed_too(tmp_path: Path) -> None:
    assert seal(tmp_path) == find_sealed(tmp_path) == SealedRecords(files=(), process_ids={})


def test_nothing_is_left_of_a_sealing_that_failed(run: SyntheticRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = {path.name for path in run.folder.iterdir()}
    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    with pytest.raises(OSError, match="No space left"):
        seal(run.folder)
    assert {path.name for path in run.folder.iterdir()} == before


def test_blocks_are_counted_together(run: SyntheticRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run.garble("events/worker-2.csv", b"torn\n" * 3 + GOOD * 500 + b"torn\n" * 3 + GOOD)
    run.write(final_snapshot={2: "queued"})
    whole = seal(run.folder)
    monkeypatch.setattr(reading, "BLOCK_BYTES", 100)
    assert sealing._write(run.folder, run.folder.parent / "again") == whole
    assert file_of(whole, "events/worker-2.csv").torn_at == (1, 2, 3, 504, 505)


@pytest.mark.parametrize(
    "write",
    [
        lambda table, path: pq.write_table(table.slice(1), path, compression="none", use_dictionary=False),
        lambda table, path: pq.write_table(table, path, compression="zstd", use_dictionary=False),
        lambda table, path: path.write_bytes(b"PAR1"),
        lambda table, path: path.unlink(),
    ],
    ids=["other rows", "compressed", "damaged", "missing"],
)
def test_records_that_are_not_as_they_were_sealed_are_sealed_again(
    run: SyntheticRun, write: Callable[[pa.Table, Path], None]
) -> None:
    sealed = seal(run.folder)
    path = run.folder / SEALED / "events" / "worker-1.parquet"
    whole = pq.read_table(path)
    write(whole, path)
    assert find_sealed(run.folder) is None
    assert seal(run.folder) == sealed
    assert pq.read_table(path) == whole


def test_event_logs_are_removed_once_the_sealed_records_are_found_to_hold_every_line(run: SyntheticRun) -> None:
    sealed = seal(run.folder)
    logs = sorted((run.folder / "events").iterdir())
    size_bytes = sum(log.stat().st_size for log in logs)
    assert remove_event_logs(run.folder) == size_bytes
    assert list((run.folder / "events").iterdir()) == []
    assert find_sealed(run.folder) == sealed
    assert seal(run.folder) == sealed
    assert len(rows_of(run.folder, "events/worker-1.parquet")) == 3
    assert remove_event_logs(run.folder) == 0


def test_a_log_with_a_torn_line_stays_because_only_the_text_has_it(run: SyntheticRun) -> None:
    run.garble("events/worker-1.csv", b"torn").write(final_snapshot={2: "queued"})
    remove_event_logs(run.folder)
    assert [log.name for log in (run.folder / "events").iterdir()] == ["worker-1.csv"]
    assert find_sealed(run.folder) is not None


def test_no_log_is_removed_if_a_sealed_one_is_not_what_its_text_has(run: SyntheticRun) -> None:
    seal(run.folder)
    path = run.folder / SEALED / "events" / "worker-1.parquet"
    pq.write_table(pq.read_table(path).take([2, 1, 0]), path, compression="none", use_dictionary=False)
    with pytest.raises(OSError, match=r"is not what events/worker-1\.csv has"):
        remove_event_logs(run.folder)
    assert sorted(log.name for log in (run.folder / "events").iterdir()) == ["producer-1.csv", "worker-1.csv"]


def test_a_removal_that_was_broken_off_is_completed(run: SyntheticRun) -> None:
    seal(run.folder)
    text = (run.folder / "events" / "worker-1.csv").read_bytes()
    remove_event_logs(run.folder)
    (run.folder / "events" / "worker-1.csv").write_bytes(text)
    assert find_sealed(run.folder) is not None
    assert remove_event_logs(run.folder) == len(text)


@pytest.mark.parametrize("damaged", ["samples/backlog.csv", f"{SEALED}/{MANIFEST}"])
def test_the_only_copy_of_removed_logs_is_never_replaced(run: SyntheticRun, damaged: str) -> None:
    remove_event_logs(run.folder)
    with (run.folder / damaged).open("a") as file:
        file.write("more\n")
    with pytest.raises(OSError, match="has the only copy of 2 event logs"):
        seal(run.folder)
    assert len(rows_of(run.folder, "events/worker-1.parquet")) == 3


def test_a_soak_that_removes_the_records_of_a_cycle_removes_the_sealed_ones_too(run: SyntheticRun) -> None:
    seal(run.folder)
    remove_records(RunFolder(run.folder))
    assert sorted(left.name for left in run.folder.iterdir()) == ["run.json"]
