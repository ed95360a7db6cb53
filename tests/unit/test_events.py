"""The job log keeps every record that was written, whatever happens to its writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stallbench.records.events import EVENT_COLUMNS, Event, EventLog


def read_rows(path: Path) -> list[list[str]]:
    return [line.split(",") for line in path.read_text().splitlines()]


def test_a_record_has_the_declared_columns_in_their_order(tmp_path: Path) -> None:
    with EventLog(tmp_path / "worker-1.csv", "worker-1") as log:
        log.write(Event.CLAIMED, job_id=7, attempt=1, duration_ns=1500)
    (row,) = read_rows(tmp_path / "worker-1.csv")
    record = dict(zip(EVENT_COLUMNS, row, strict=True))
    assert record["process"] == "worker-1"
    assert record["event"] == "claimed"
    assert (record["job_id"], record["attempt"], record["duration_ns"]) == ("7", "1", "1500")
    assert record["intended_ns"] == ""
    assert int(record["t_ns"]) > int(record["mono_ns"])


def test_a_record_is_in_the_file_before_the_log_is_closed(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "p.csv", "p")
    log.write(Event.EMPTY)
    assert len(read_rows(tmp_path / "p.csv")) == 1
    log.close()


def test_a_log_is_continued_and_never_overwritten(tmp_path: Path) -> None:
    for _ in range(2):
        with EventLog(tmp_path / "p.csv", "p") as log:
            log.write(Event.EMPTY)
    assert len(read_rows(tmp_path / "p.csv")) == 2


def test_a_detail_cannot_break_the_line_or_its_columns(tmp_path: Path) -> None:
    with EventLog(tmp_path / "p.csv", "p") as log:
        log.write(Event.ERROR, detail='40P01 in claim: a, "b"\nDETAIL: c\r' + "x" * 5000)
    (row,) = read_rows(tmp_path / "p.csv")
    assert len(row) == len(EVENT_COLUMNS)
    assert row[-1].startswith("40P01 in claim: a; 'b' DETAIL: c")
    assert len(row[-1]) <= 500


def test_nothing_is_lost_when_the_writer_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    program = (
        "import sys; from pathlib import Path; from stallbench.records.events import Event, EventLog\n"
        f"log = EventLog(Path({str(path)!r}), 'p')\n"
        "for n in range(1000): log.write(Event.COMPLETED, job_id=n)\n"
        "print('written', flush=True); sys.stdin.read()"
    )
    writer = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdin is not None
    writer.stdout.readline()
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    writer.stdin.close()
    writer.stdout.close()
    assert [row[4] for row in read_rows(path)] == [str(n) for n in range(1000)]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_told_and_not_passed_over() -> None:
    with EventLog(Path("/dev/full"), "p") as log, pytest.raises(OSError, match="No space left"):
        log.write(Event.EMPTY)
