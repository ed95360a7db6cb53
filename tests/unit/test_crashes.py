"""At which passages of a crash point a process crashes, if each process has its turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.injection.crashes import Crashes
from stallbench.injection.job_faults import JobFault, JobFaults, start_job_fault
from stallbench.queues.crash_points import CrashPoint

POINT = CrashPoint.BEFORE_CLAIM_ACKNOWLEDGED
PASSAGES = 30


class _DiedError(Exception):
    pass


def find_turn(folder: Path, process: str, first: tuple[str, ...], on: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return at which passage ``process`` dies of a fault that began when the processes ``first`` ran."""
    start_job_fault(folder, "crash", JobFault(on=on, at=POINT, crash="kill", in_turn=True, first=first))
    role = on.partition("-")[0].removesuffix("s")
    job_faults = JobFaults(folder, process, role)
    job_faults.read_active()
    crashes = Crashes(job_faults)

    def die(pid: int, number: int) -> None:
        raise _DiedError

    monkeypatch.setattr("stallbench.injection.crashes.os.kill", die)
    for passage in range(1, PASSAGES + 1):
        try:
            crashes.passes(POINT)
        except _DiedError:
            return passage
    raise AssertionError(f"{process} did not die")


@pytest.mark.parametrize(
    ("on", "generations"),
    [
        ("workers", [("worker-1", "worker-2"), ("worker-1-2", "worker-2-2"), ("worker-1-3", "worker-2-3")]),
        ("workers", [("worker-1-7", "worker-2-5"), ("worker-1-8", "worker-2-6"), ("worker-1-9", "worker-2-7")]),
        ("producers", [("producer-1-4",), ("producer-1-5",), ("producer-1-6",)]),
        ("scheduler", [("scheduler",), ("scheduler-2",), ("scheduler-3",)]),
        ("scheduler", [("scheduler-6",), ("scheduler-7",), ("scheduler-8",)]),
        ("worker-3", [("worker-3-2",), ("worker-3-3",)]),
    ],
)
def test_no_two_deaths_are_at_the_same_passage_and_none_is_left_out(
    on: str, generations: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many died of earlier faults: a turn that is taken twice is a pair of statements between which nobody dies."""
    turns = [find_turn(tmp_path, process, generations[0], on, monkeypatch) for names in generations for process in names]
    assert turns == list(range(1, len(turns) + 1))


def test_a_process_that_was_started_since_has_a_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_turn(tmp_path, "worker-3", ("worker-1", "worker-2"), "workers", monkeypatch) == 1
    assert find_turn(tmp_path, "worker-3-2", ("worker-1", "worker-2"), "workers", monkeypatch) == 2
