"""How a server's log is read while the server writes it and other programs rotate it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.engines.postgres.server_log import ServerLog


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text("first\nsecond\nthird\n")
    return path


def test_each_line_is_read_once_and_when_it_is_complete(log: Path) -> None:
    reader = ServerLog(log)
    assert list(reader.read_lines()) == ["first", "second", "third"]
    with log.open("a") as file:
        file.write("fou")
    assert list(reader.read_lines()) == []
    with log.open("a") as file:
        file.write("rth\n")
    assert list(reader.read_lines()) == ["fourth"]


@pytest.mark.parametrize(("from_byte", "lines"), [(6, ["second", "third"]), (7, ["third"]), (13, ["third"]), (19, [])])
def test_it_is_read_from_the_first_line_that_begins_at_the_start_or_after_it(log: Path, from_byte: int, lines: list[str]) -> None:
    assert list(ServerLog(log, from_byte).read_lines()) == lines


def test_a_start_within_a_line_that_is_being_written_leaves_that_line_out(log: Path) -> None:
    log.write_text("first\nseco")
    reader = ServerLog(log, 8)
    assert list(reader.read_lines()) == []
    with log.open("a") as file:
        file.write("nd\nthird\n")
    assert list(reader.read_lines()) == ["third"]


def test_a_large_log_is_not_read_into_memory_at_once(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stallbench.engines.postgres.server_log._CHUNK_BYTES", 4)
    reader = ServerLog(log)
    lines = iter(reader.read_lines())
    assert next(lines) == "first"
    assert list(lines) == ["second", "third"]


@pytest.mark.parametrize("new", ["new\n", "a new log that is longer than the former one\n"])
def test_a_log_that_was_replaced_is_read_from_its_beginning(log: Path, new: str) -> None:
    reader = ServerLog(log)
    list(reader.read_lines())
    log.rename(log.with_suffix(".1"))
    with pytest.raises(FileNotFoundError):
        list(reader.read_lines())
    log.write_text(new)
    assert list(reader.read_lines()) == [new.strip()]


def test_a_log_that_was_emptied_is_read_from_its_beginning(log: Path) -> None:
    reader = ServerLog(log)
    list(reader.read_lines())
    log.write_text("new\n")
    assert list(reader.read_lines()) == ["new"]
