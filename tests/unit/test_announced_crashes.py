"""A process that has announced its crash but does not crash in time: the fault cannot be undone, and the run says so."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults import announced_kills, crash_point
from stallbench.injection.faults.announced_kills import AnnouncedKills
from stallbench.injection.faults.crash_point import CrashAtPoint, CrashPointOptions
from stallbench.run.folder import RunFolder

FAULT = "crash_point-1"


class Worker:
    """A process that runs."""

    name = "worker-1"

    def __init__(self) -> None:
        self.may_be_killed_by: set[str] = set()

    def poll(self) -> None:
        return None

    def is_paused(self) -> bool:
        return False


@pytest.fixture
def context(tmp_path: Path) -> Any:
    """That of a run with one worker, which has announced both crashes and goes on: on a machine that stands still, it has not come further yet."""
    folder = RunFolder(tmp_path)
    folder.job_faults.mkdir()
    for what in ("killed", "stopped"):
        (folder.job_faults / f"{FAULT}.worker-1.{what}").touch()
    worker = Worker()
    return SimpleNamespace(seed=1, job_faults=folder.job_faults, load=SimpleNamespace(named=lambda _: [worker]))


def test_one_that_is_stopped_later_would_never_be_resumed(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_point, "_STOPPED_WITHIN_S", 0.05)
    fault = CrashAtPoint(FAULT, "workers", CrashPointOptions.model_validate({"at": "after_claim", "action": "pause"}), context)
    fault._kills, fault._paused, fault._were_paused, fault._jobs_paused = None, {}, [], []
    with pytest.raises(NotCarriedOutError, match=r"worker-1 announced that it stops at after_claim, but did not within"):
        fault.undo()


def test_one_that_is_killed_later_would_have_exited_unexpectedly(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announced_kills, "_KILL_WITHIN_S", 0.05)
    kills = AnnouncedKills(context, FAULT, "workers", replace_after_s=0)
    with pytest.raises(
        NotCarriedOutError, match=r"worker-1 announced that it is killed by crash_point-1, but did not end within"
    ):
        kills.end()
