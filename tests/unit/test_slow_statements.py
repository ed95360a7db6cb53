"""The report names the SQL statement that became slow, from what to what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from stallbench.verdicts.slow_statements import describe_slow_statement
from tests.unit.made_up_run import make_run

CLAIM = {"server": "primary", "statement": "1", "is_claim": True, "text": "SELECT * FROM jobs ORDER BY id LIMIT $1 FOR UPDATE"}
COLUMNS = ["phase", "statement", "calls", "total_ms", "row_count", "buffers"]
BEFORE = ("baseline", "1", 1000, 100.0, 1000, 6_000)


def describe(tmp_path: Path, *rows: tuple[Any, ...], texts: str = json.dumps(CLAIM)) -> str:
    tmp_path.mkdir(exist_ok=True)
    run = make_run(tmp_path, statements=pd.DataFrame(rows, columns=COLUMNS))
    (run.folder / "statements.jsonl").write_text(texts + "\n")
    return describe_slow_statement(run)


def test_the_claim_statement_is_named_with_its_time_and_its_buffers(tmp_path: Path) -> None:
    assert describe(tmp_path, BEFORE, ("longtx", "1", 2000, 8000.0, 2000, 800_000)) == (
        "The claim statement became slower on the server: 0.10 ms and 6 buffers a call in baseline, 4.00 ms and 400 buffers a call in longtx "
        "(SELECT * FROM jobs ORDER BY id LIMIT $1 FOR UPDATE)."
    )


def test_of_several_the_one_with_the_most_additional_time_is_named(tmp_path: Path) -> None:
    rows = [("baseline", "2", 1000, 10.0, 1000, 3_000), ("longtx", "2", 100, 50.0, 100, 300)]
    assert describe(tmp_path, *rows, BEFORE, ("longtx", "1", 2000, 8000.0, 2000, 800_000)).startswith("The claim statement")


def test_a_statement_without_a_text_has_its_number(tmp_path: Path) -> None:
    torn = json.dumps(CLAIM)[:20]
    assert "(statement 1)" in describe(tmp_path, BEFORE, ("longtx", "1", 2000, 8000.0, 2000, 800_000), texts=torn)


def test_nothing_is_said_if_no_statement_became_slower(tmp_path: Path) -> None:
    assert describe(tmp_path, BEFORE, ("longtx", "1", 2000, 240.0, 2000, 12_000)) == ""
    assert describe(tmp_path / "few", BEFORE, ("longtx", "1", 5, 500.0, 5, 60)) == ""
    assert describe(tmp_path / "none") == ""


def test_additional_time_below_a_percent_of_the_phase_is_not_mentioned(tmp_path: Path) -> None:
    """Twice as long, but in a phase of 40 s it is 390 ms more, and then 410 ms."""
    assert describe(tmp_path, BEFORE, ("longtx", "1", 3900, 780.0, 3900, 23_400)) == ""
    assert describe(tmp_path / "more", BEFORE, ("longtx", "1", 4100, 820.0, 4100, 4_100)) == (
        "The claim statement became slower on the server: 0.10 ms and 6 buffers a call in baseline, 0.20 ms and 1 buffer a call in longtx "
        "(SELECT * FROM jobs ORDER BY id LIMIT $1 FOR UPDATE)."
    )
