"""Imports point one way, so that a queue can be read on its own and a worker can run on another host without the bench."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]

BESIDE_THE_PROCESSES = {
    "stallbench.conditions",
    "stallbench.drivers",
    "stallbench.exposition",
    "stallbench.duration",
    "stallbench.open_queue",
    "stallbench.queue_client",
    "stallbench.queues",
    "stallbench.reconnection",
    "stallbench.records",
    "stallbench.role",
    "stallbench.role_document",
}
"""What producers, workers, schedulers and longrunners may use of the library."""

MAY_IMPORT = {
    "stallbench/queues": {"stallbench.queues"},
    "stallbench/records": {"stallbench.records"},
    "stallbench/pipeline": {
        "stallbench.pipeline",
        "stallbench.records",
        "stallbench.metrics",
        "stallbench.parts",
        "stallbench.errors",
    },
    "stallbench/comparison": {
        "stallbench.comparison",
        "stallbench.errors",
        "stallbench.fault",
        "stallbench.interval",
        "stallbench.metrics",
        "stallbench.pipeline.failures",
        "stallbench.report",
        "stallbench.run_folder",
        "stallbench.run_record",
        "stallbench.scenario",
        "stallbench.scenario_file",
        "stallbench.spelling",
        "stallbench.verdicts",
        "stallbench.whole_file",
    },
    "workers": BESIDE_THE_PROCESSES | {"workers"},
    "producers": BESIDE_THE_PROCESSES
    | {
        "producers",
        "stallbench.errors",
        "stallbench.invitation",
        "stallbench.joined",
        "stallbench.locust_bounds",
        "stallbench.scenario",
        "stallbench.scenario_file",
    },
    "schedulers": BESIDE_THE_PROCESSES | {"schedulers"},
    "longrunners": BESIDE_THE_PROCESSES | {"longrunners"},
    "dashboards": {"dashboards"},
}
"""What each room may import of this project; rooms that are not named may import anything of the library but `stallbench.run`."""

ROOT_PACKAGES = {"dashboards", "producers", "workers", "schedulers", "longrunners"}
ABOVE_RUN = {
    "stallbench/cli.py",
    "stallbench/commands/run.py",
    "stallbench/commands/compare.py",
    "stallbench/commands/soak.py",
    "stallbench/compare.py",
    "stallbench/measured_load.py",
    "stallbench/run.py",
    "stallbench/soak/cycle.py",
}


def imported_by(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return {name for name in found if name.split(".")[0] in ROOT_PACKAGES | {"stallbench"}}


def within(name: str, rooms: set[str]) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_it_may(room: str) -> None:
    files = sorted((PROJECT / room).rglob("*.py"))
    assert files, f"{room} holds no code"
    wrong = {
        f"{path.relative_to(PROJECT)} imports {name}"
        for path in files
        for name in imported_by(path)
        if not within(name, MAY_IMPORT[room])
    }
    assert not wrong


def test_the_library_never_imports_what_it_starts() -> None:
    wrong = {
        f"{path.relative_to(PROJECT)} imports {name}"
        for path in (PROJECT / "stallbench").rglob("*.py")
        for name in imported_by(path)
        if within(name, ROOT_PACKAGES)
    }
    assert not wrong


def test_only_the_command_line_imports_the_run() -> None:
    wrong = {
        str(path.relative_to(PROJECT))
        for path in (PROJECT / "stallbench").rglob("*.py")
        if str(path.relative_to(PROJECT)) not in ABOVE_RUN and "stallbench.run" in imported_by(path)
    }
    assert not wrong
