"""The job log keeps every record that was written, whatever happens to its writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stallbench.records.events import EVENT_NUMBERS, Event, EventLog, format_error
from stallbench.records.reading import read_events
from tests.error_details import split_error


def test_a_record_has_the_declared_columns_in_their_order(tmp_path: Path) -> None:
    with EventLog(tmp_path / "worker-1.csv", "worker-1") as log:
        log.write(Event.CLAIMED, job_id=7, attempt=1, duration_ns=1500)
    (record,) = read_events(tmp_path / "worker-1.csv")
    assert (record.process, record.event) == ("worker-1", Event.CLAIMED)
    assert (record.job_id, record.attempt, record.duration_ns) == (7, 1, 1500)
    assert record.intended_ns is None
    assert record.t_ns > record.mono_ns


def test_whole_numbers_are_declared_by_their_type() -> None:
    assert EVENT_NUMBERS == ("t_ns", "mono_ns", "job_id", "attempt", "intended_ns", "duration_ns")


def test_a_line_is_read_when_its_end_is_written(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("1,1,p,claimed,1,1,,5,\n2,2,p,completed,1,1,,5,")
    assert [record.event for record in read_events(path)] == [Event.CLAIMED]


def test_the_tail_of_a_log_begins_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    lines = [f"{n},1,p,completed,{n},1,,5,\n" for n in range(10, 20)]
    path.write_text("".join(lines))
    assert [record.job_id for record in read_events(path, tail_bytes=2 * len(lines[0]) + 3)] == [18, 19]


def test_a_log_that_was_never_opened_has_no_records(tmp_path: Path) -> None:
    assert list(read_events(tmp_path / "none.csv")) == []


@pytest.mark.parametrize(
    ("detail", "parts"),
    [
        (format_error("40P01", "claim", "deadlock detected"), ("40P01", "claim")),
        ("ConnectionError: gone", ("ConnectionError", "")),
        ("", ("", "")),
    ],
)
def test_the_detail_of_an_error_begins_with_its_code_and_operation(detail: str, parts: tuple[str, str]) -> None:
    assert split_error(detail) == parts


def test_a_record_is_in_the_file_before_the_log_is_closed(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "p.csv", "p")
    log.write(Event.EMPTY)
    assert len(list(read_events(tmp_path / "p.csv"))) == 1
    log.close()


def test_a_log_is_continued_and_never_overwritten(tmp_path: Path) -> None:
    for _ in range(2):
        with EventLog(tmp_path / "p.csv", "p") as log:
            log.write(Event.EMPTY)
    assert len(list(read_events(tmp_path / "p.csv"))) == 2


def test_a_detail_cannot_break_the_line_or_its_columns(tmp_path: Path) -> None:
    with EventLog(tmp_path / "p.csv", "p") as log:
        log.write(Event.ERROR, detail='40P01 in claim: a, "b"\nDETAIL: c\r' + "x" * 5000)
    (record,) = read_events(tmp_path / "p.csv")
    assert record.detail.startswith("40P01 in claim: a; 'b' DETAIL: c")
    assert len(record.detail) <= 500


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
    assert [record.job_id for record in read_events(path)] == list(range(1000))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_reported() -> None:
    with EventLog(Path("/dev/full"), "p") as log, pytest.raises(OSError, match="No space left"):
        log.write(Event.EMPTY)
