"""The reader of record files: whole lines are read, torn ones are counted, named by their numbers, and never the end of a report."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from stallbench.records import reading
from stallbench.records.events import Event
from stallbench.records.final_snapshot import format_snapshot
from stallbench.records.layouts import EVENTS, FINAL_SNAPSHOT, SAMPLES
from stallbench.records.reading import Block, read_blocks, read_claimed, read_events, read_numbers, read_samples, read_table
from tests.garbled_lines import GARBLED, GOOD, T

ODD = {
    "a hexadecimal number": GOOD.replace(b",1000,", b",0x10,"),
    "white space before a number": GOOD.replace(b",1000,", b", 1000,"),
    "white space after a number": GOOD.replace(b",1000,", b",1000 ,"),
    "a tab after a number": GOOD.replace(b",1000,", b",1000\t,"),
    "white space before the time": b" " + GOOD,
    "the end of a line of another system": GOOD.replace(b"\n", b"\r\n"),
    "a byte order mark": b"\xef\xbb\xbf" + GOOD,
    "a line that is too long": GOOD.replace(b",1000,", b"," + b"0" * 20_000 + b"1,"),
    "one byte that is not UTF-8": GOOD.replace(b",\n", b",caf\xe9\n"),
}
"""Lines that a lenient reader would take for records."""


def of_job(number: int) -> bytes:
    """A good line."""
    return GOOD.replace(b",77,", f",{number},".encode())


def read(content: bytes) -> list[Block]:
    return list(read_blocks(io.BytesIO(content), EVENTS))


def jobs_of(content: bytes) -> list[int]:
    return [job for block in read(content) for job in block.table["job_id"].to_pylist()]


def test_a_whole_line_has_every_column() -> None:
    (block,) = read(GOOD)
    assert (block.lines, block.torn_lines, block.is_unfinished) == (1, 0, False)
    assert block.table.to_pylist() == [
        {
            "t_ns": int(T),
            "mono_ns": 1,
            "process": "worker-1",
            "event": "completed",
            "job_id": 77,
            "attempt": 1,
            "intended_ns": None,
            "duration_ns": 1000,
            "detail": None,
        }
    ]


@pytest.mark.parametrize("garbled", [*GARBLED.values(), *ODD.values()], ids=[*GARBLED, *ODD])
def test_a_torn_line_is_counted_and_left_out_wherever_it_is(garbled: bytes) -> None:
    blocks = read(of_job(1) + of_job(2) + garbled)
    assert sum(block.lines for block in blocks) == 3
    assert sum(block.torn_lines for block in blocks) == 1
    assert [at for block in blocks for at in block.torn_at] == [3]
    assert blocks[-1].is_last_line_torn
    assert [job for block in blocks for job in block.table["job_id"].to_pylist()] == [1, 2]
    if garbled.endswith(b"\n"):
        assert jobs_of(garbled + of_job(1) + garbled + of_job(2)) == [1, 2]


def test_a_line_that_only_lacks_its_end_is_unfinished() -> None:
    *_, last = read(GOOD + GOOD[:-1])
    assert (last.lines, last.torn_lines, last.is_unfinished) == (1, 1, True)


def test_bytes_that_arrow_takes_for_more_than_they_are_may_stand_in_a_text() -> None:
    line = GOOD.replace(b",\n", b', 40P01 in claim: at 0x10\tand 0X11; it\'s \xc3\xbc "quoted"\n')
    (block,) = read(of_job(1) + line)
    assert block.torn_lines == 0
    assert block.table["detail"].to_pylist() == [None, ' 40P01 in claim: at 0x10\tand 0X11; it\'s ü "quoted"']


def test_an_empty_file_has_no_block() -> None:
    assert read(b"") == []


def test_blocks_of_any_size_hold_the_same_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [of_job(number) for number in range(300)]
    for number, garbled in enumerate(GARBLED.values()):
        if garbled.endswith(b"\n"):
            lines.insert(17 * number, garbled)
    content = b"".join(lines)
    torn_at = [number for number, line in enumerate(lines, start=1) if line in GARBLED.values()]
    for block_bytes in (64, 1000, 40_000, len(content)):
        monkeypatch.setattr(reading, "BLOCK_BYTES", block_bytes)
        blocks = read(content)
        assert sum(block.lines for block in blocks) == len(lines)
        assert sum(block.torn_lines for block in blocks) == len(torn_at)
        assert [at for block in blocks for at in block.torn_at][: reading.TORN_NAMED] == torn_at[: reading.TORN_NAMED]
        assert jobs_of(content) == list(range(300))


def test_gigabytes_without_the_end_of_a_line_are_one_torn_line_and_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BLOCK_BYTES", 1000)
    (block,) = read(b"\0" * 1_000_000)
    assert (block.lines, block.torn_lines) == (1, 1)
    assert jobs_of(b"\0" * 1_000_000 + b"\n" + of_job(5)) == [5]


@pytest.mark.parametrize(
    ("content", "torn"),
    [
        (b"end,0\n", 0),
        (b"\xff\xfe\n\0\n", 2),
        (b"1,queued\n2,claimed\nend,2\n", 0),
        (b"1,queu\nend,1\n", 1),
        (b"one,queued\nend,1\n", 1),
        (b"1,queued\nend,one\n", 1),
        (b"1,queued\nend,\n", 1),
    ],
)
def test_a_line_of_a_final_snapshot_is_a_job_or_their_number(content: bytes, torn: int) -> None:
    assert sum(block.torn_lines for block in read_blocks(io.BytesIO(content), FINAL_SNAPSHOT)) == torn


def test_samples_are_read_with_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "backlog.csv"
    path.write_bytes(
        b"".join(T + b",primary,queue,depth," + value + b"\n" for value in (b"3", b"-1.5e3", b"many", b"", b"inf", b"nan"))
    )
    assert [sample.value for sample in read_samples(path)] == ["3", "-1.5e3", "many", "", "inf", "nan"]
    assert read_numbers(read_table(path, SAMPLES)["value"]).to_pylist() == [3.0, -1500.0, None, None, None, None]


def test_the_tail_of_a_file_begins_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "worker-1.csv"
    path.write_bytes(b"".join(of_job(number) for number in range(10, 20)))
    tail = list(read_events(path, tail_bytes=2 * len(GOOD) + 3))
    assert [event.job_id for event in tail] == [18, 19]
    assert tail[0].event is Event.COMPLETED
    assert len(list(read_events(path, tail_bytes=10_000))) == 10


def test_there_is_no_record_without_a_file(tmp_path: Path) -> None:
    assert list(read_events(tmp_path / "none.csv")) == []


def test_what_is_written_as_a_snapshot_is_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "final_snapshot.csv"
    path.write_text("".join(format_snapshot([(7, True), (8, False), (9, True)])))
    assert path.read_text() == "7,claimed\n8,queued\n9,claimed\nend,3\n"
    assert read_claimed(path) == {7, 9}
