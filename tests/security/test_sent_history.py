"""A history of `observe --record` that somebody has sent: `--at` answers from it or refuses it with one message, and no more than a line of it is in memory."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stallbench.errors import NotCarriedOutError
from stallbench.observe.past import answer

SEGMENT = "20261127T140500Z.jsonl.gz"
AT = datetime(2026, 11, 27, 15, tzinfo=UTC)
FIGURES = {"subject": "horizon", "title": "t", "columns": ["a"], "rows": [["1"]], "sentences": [], "has_statements": False}


def make_line(**changes: object) -> bytes:
    reading: dict[str, Any] = {"format": 1, "at": "2026-11-27T14:05:00Z", "server": "s", "gone": "", "took_s": 0, "findings": []}
    return (
        json.dumps({**reading, "queues": [], "cannot_see": [], "figures": [], **changes}, separators=(",", ":")).encode() + b"\n"
    )


def send(folder: Path, text: bytes, name: str = SEGMENT) -> Path:
    stream = zlib.compressobj(wbits=31)
    (folder / name).write_bytes(stream.compress(text) + stream.flush())
    return folder


def ask(folder: Path) -> None:
    answer(folder, AT, shows_all=True, as_json=False)


@pytest.mark.parametrize("name", ["20269999T000000Z.jsonl.gz", "00000101T000000Z.jsonl.gz.open"])
def test_a_file_whose_name_is_no_time_is_no_segment(tmp_path: Path, name: str) -> None:
    send(tmp_path, make_line(), name)
    with pytest.raises(NotCarriedOutError, match="no reading was recorded there"):
        ask(tmp_path)


@pytest.mark.parametrize("row", [[], ["1", "2"]])
def test_rows_that_have_more_or_fewer_columns_than_they_say_are_refused(tmp_path: Path, row: list[str]) -> None:
    send(tmp_path, make_line(figures=[{**FIGURES, "rows": [row]}]))
    with pytest.raises(
        NotCarriedOutError, match=r"has a line that is no reading of this version: figures\.0: .*values for 1 columns"
    ):
        ask(tmp_path)


def test_a_heading_is_text_and_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heading = "[red]x[/] [/] [link=http://evil.test]y[/link]"
    send(tmp_path, make_line(figures=[{**FIGURES, "columns": [heading]}]))
    ask(tmp_path)
    assert heading in capsys.readouterr().out


@pytest.mark.parametrize("unit", [b"\n", b"x"], ids=["lines", "one line"])
def test_a_small_file_with_much_text_in_it_is_refused_without_holding_it_in_memory(tmp_path: Path, unit: bytes) -> None:
    send(tmp_path, make_line() + unit * 200_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(NotCarriedOutError, match=f"{SEGMENT}: has a line"):
            ask(tmp_path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 50_000_000
