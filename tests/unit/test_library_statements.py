"""The statements of a definition by which the bench reads a library's tables, where they are more than a list of columns."""

from __future__ import annotations

import sqlite3

import pytest

from stallbench.libraries import find_library


def jsonb(number: int) -> bytes:
    """Return the JSONB of ``{"n": number, "sum": 7}``, as SQLite 3.45 and later write it (https://sqlite.org/jsonb.html)."""
    digits = str(number).encode()
    header = bytes([len(digits) << 4 | 3]) if len(digits) < 12 else bytes([0xC3, len(digits)])
    members = b"\x17n" + header + digits + b"\x37sum" + b"\x137"
    return bytes([0xCC, len(members)]) + members


@pytest.mark.parametrize("number", [5, 12_345_678_901, 123_456_789_012, 31_704_374_837_541, 2**53 - 1])
def test_the_number_of_a_job_of_river_is_read_from_jsonb_that_an_older_sqlite_cannot_read(number: int) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE river_job (kind text, queue text, state text, args blob)")
    jobs = [
        ("stallbench", "default", "running"),
        ("stallbench", "noisy", "available"),
        ("stallbench", "other", "available"),
        ("other", "default", "running"),
    ]
    connection.executemany("INSERT INTO river_job VALUES (?, ?, ?, ?)", [(*job, jsonb(number)) for job in jobs])
    rows = connection.execute(find_library("river").sql.of("snapshot", "sqlite")).fetchall()
    assert rows == [(number, 1), (number, 0)]
