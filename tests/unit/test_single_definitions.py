"""Facts that several parts of the bench need are defined once, and every other place reads the definition."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stallbench import PROJECT
from stallbench.records.final_snapshot import format_snapshot
from stallbench.records.reading import read_claimed

SOURCES = [
    path
    for folder in ("stallbench", "producers", "workers", "schedulers", "longrunners", "benchmarks", "tools")
    for path in sorted((PROJECT / folder).rglob("*.py"))
]
NOT_ABOUT_NANOSECONDS = {
    "stallbench/engines/collectors/innodb_statements.py",  # SQL: picoseconds to milliseconds
    "stallbench/observe/postgres/wraparound.py",  # transactions
    "benchmarks/sizing.py",  # gigabytes
}


@pytest.mark.parametrize(
    ("written", "owner"),
    [
        (r"\b1e9\b|\b10\*\*9\b|\b1_000_000_000\b", "stallbench/records/nanoseconds.py"),
        (r"\bexit\([1-9]|\bEXIT\w* = \d|_EXIT_[A-Z]\w+ = \d", "stallbench/errors.py"),
        (r'"final_snapshot\.csv"', "stallbench/records/final_snapshot.py"),
        (r'"statements\.jsonl"', "stallbench/engines/collectors/statements.py"),
        (r'"library:"', "stallbench/discovery.py"),
        (r"(LEVEL|CONFIDENCE)\w* = 0?\.\d", "stallbench/verdicts/baseline/statistics.py"),
        (r'"fail", "unknown", "pass"', "stallbench/verdicts/check.py"),
        (r'"pass": "green"', "stallbench/report/terminal.py"),
        (r'Literal\["higher", "lower"\]', "stallbench/measure.py"),
        (r"str\.maketrans\(\{", "stallbench/records/lines.py"),
        (r"= 1 << 62", "stallbench/records/nanoseconds.py"),
        (r"\b1193\b|information_schema_stats_expiry", "stallbench/engines/mysql.py"),
        (r'"(1205|1213|1969|3024|53300|40001)"', "stallbench/engines/error_kinds.py"),
        (r'- \{"sqlite"\}|has_server=False', "stallbench/engines/traits.py"),
        (r"\bMOST_(RATE|WORKERS|WORK_S|BACKLOG|PAYLOAD_BYTES) = |\ble=(256|1_048_576)\b", "stallbench/queues/load_bounds.py"),
        (r'\.kind == "locust"', "stallbench/scenario/sections.py"),
        (r'/ "locust"|LOCUST_FOLDER = ', "stallbench/scenario/locust_bounds.py"),
        (r'discover\([^)]*"stallbench\.|"stallbench\.(starters|adapters|checks)"', "stallbench/discovery.py"),
        (r"RESCUES_PER_EXPIRY = ", "stallbench/queues/postgres_queue.py"),
        (r'"Address already in use"', "stallbench/base/ports.py"),
        (r"WORTH_RECORDING_S = ", "stallbench/engines/collectors/holders.py"),
        (r"\b_?(BRIEF|LONG|VERY_LONG)_S = ", "stallbench/observe/thresholds.py"),
        (r"\bROLE_\w+_S = |_READY_S = 30", "stallbench/processes/process.py"),
        (r"_WIDTH = 120", "stallbench/console.py"),
        (r'evidence(\.get\(|\[)"(killed|paused|jobs|at_once|rate|ended_by_deadlock)"', "stallbench/records/injections.py"),
    ],
)
def test_a_fact_is_written_by_its_owner_only(written: str, owner: str) -> None:
    others = [str(path.relative_to(PROJECT)) for path in SOURCES if re.search(written, _without_exceptions(path))]
    assert [name for name in others if name != owner and name not in NOT_ABOUT_NANOSECONDS] == []


def _without_exceptions(path: Path) -> str:
    """Return the source without the exit of a Python that is too old to import the codes."""
    return path.read_text().replace("sys.exit(3)  # EXIT_NOT_CARRIED_OUT, which it cannot import", "")


def test_what_is_written_as_a_snapshot_is_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "final_snapshot.csv"
    path.write_text("".join(format_snapshot([(7, True), (8, False), (9, True)])))
    assert path.read_text() == "7,claimed\n8,queued\n9,claimed\nend,3\n"
    assert read_claimed(path) == {7, 9}
