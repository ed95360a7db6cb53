"""What a fault draws at random follows from the run's seed and the fault's name, however often other faults have drawn before it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stallbench.injection.faults.crash_point import CrashAtPoint, CrashPointOptions
from stallbench.injection.faults.pause import Pause, PauseOptions
from stallbench.run.folder import RunFolder


def make_context(folder: Path, seed: int) -> Any:
    workers = [SimpleNamespace(name=f"worker-{number}") for number in range(1, 101)]
    return SimpleNamespace(seed=seed, job_faults=RunFolder(folder).job_faults, load=SimpleNamespace(named=lambda _: workers))


def draw_seed(context: Any, name: str = "crash_point-1") -> int:
    options = CrashPointOptions.model_validate({"at": "after_claim", "action": "pause", "probability": 0.5})
    evidence = CrashAtPoint(name, "workers", options, context).inject()
    return int(evidence["job_fault"]["seed"])


def test_the_passages_of_a_crash_point_do_not_depend_on_the_faults_before_it(tmp_path: Path) -> None:
    """How often a repeated fault, such as `kill`, draws before it depends on the machine."""
    context = make_context(tmp_path, seed=1)
    first = draw_seed(context)
    Pause("pause-1", "workers", PauseOptions(count=7), context).random.random()
    assert draw_seed(context) == first


def test_they_depend_on_the_seed_and_on_the_name(tmp_path: Path) -> None:
    drawn = {draw_seed(make_context(tmp_path, seed), name) for seed in (1, 2) for name in ("crash_point-1", "crash_point-2")}
    assert len(drawn) == 4
