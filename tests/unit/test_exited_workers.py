"""What the end of every process of a role means for a run: it is over, or it could not be carried out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stallbench.errors import NotCarriedOutError
from stallbench.run.run import Run


def make_run(role: str, folder: Path, *injected: SimpleNamespace) -> Any:
    """Return a run whose two processes of ``role`` have exited."""
    log = folder / "log"
    exited = [SimpleNamespace(name=f"{role}-{number}", role=role, exit_cause="exit code 1", log=log) for number in (1, 2)]
    run: Any = object.__new__(Run)
    run._cluster = SimpleNamespace(check=lambda: None)
    run._processes = SimpleNamespace(
        exited_unexpectedly=lambda: exited,
        take_hard_ends=list,
        of_role=lambda asked: [each for each in exited if each.role == asked],
    )
    run._injections = SimpleNamespace(records=lambda: injected, may_be_ended=lambda _: False)
    run._exited_unexpectedly, run._why_nobody_is_left = set(), ""
    run.folder, run.view, run.recorder = SimpleNamespace(logs=folder), SimpleNamespace(say=str), SimpleNamespace(note=str)
    return run


FAULT = SimpleNamespace(category="fault", start_ns=1)
LATER = SimpleNamespace(category="fault", start_ns=None)
MAINTENANCE = SimpleNamespace(category="maintenance", start_ns=1)


def test_a_run_is_over_when_every_worker_has_exited_after_a_fault_began(tmp_path: Path) -> None:
    run = make_run("worker", tmp_path, FAULT, LATER)
    run._check_processes()
    assert run._why_nobody_is_left == "every worker has exited: worker-1, worker-2"


@pytest.mark.parametrize(("role", "injected"), [("producer", FAULT), ("worker", LATER), ("worker", MAINTENANCE)])
def test_a_run_without_a_load_or_that_injected_nothing_was_not_carried_out(
    tmp_path: Path, role: str, injected: SimpleNamespace
) -> None:
    with pytest.raises(NotCarriedOutError, match=f"^every {role} has exited: {role}-1, {role}-2; see {tmp_path}$"):
        make_run(role, tmp_path, injected)._check_processes()
