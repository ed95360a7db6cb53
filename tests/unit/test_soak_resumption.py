"""A soak whose bench was killed is resumed: nothing that the killed bench left affects the cycles that follow."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from stallbench.errors import BadInputError
from stallbench.injection.job_faults import JobFault, JobFaults, start_job_fault
from stallbench.studies.soak.folder import SoakFolder
from stallbench.studies.soak.screen import SoakView
from stallbench.studies.soak.soak import Soak, resume
from tests.unit.test_soak_bad_input import make_soak


def test_a_fault_that_was_active_when_the_bench_was_killed_is_not_active_in_the_next_cycles(tmp_path: Path) -> None:
    soak = SoakFolder(make_soak(tmp_path))
    start_job_fault(soak.current.job_faults, "failing_jobs-3", JobFault(on="workers", fails=True))
    resume(soak, None, is_external=False)
    assert JobFaults(soak.current.job_faults, "worker-1").read_active() == {}


def test_the_folder_of_a_cycle_that_was_not_recorded_any_more_is_made_again(tmp_path: Path) -> None:
    soak = SoakFolder(make_soak(tmp_path))
    unrecorded = soak.begin_cycle(2)
    unrecorded.left_over.write_text("end,7\n")
    again = soak.begin_cycle(2)
    assert again.events.is_dir()
    assert not again.left_over.exists(), "the next cycle begins with an empty queue"


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [(KeyboardInterrupt(), "aborted", "interrupted"), (BadInputError("no such server"), "failed", "no such server")],
    ids=["interrupted", "refused"],
)
def test_a_cycle_that_ended_before_its_load_began_is_not_recorded_as_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: str, reason: str
) -> None:
    folder = SoakFolder(make_soak(tmp_path, cycles=()))
    folder.current.logs.mkdir()

    def open_cycle(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(Soak, "_open_cycle", open_cycle)
    record = folder.read()
    soak = Soak(folder, record, record.scenario, SoakView(folder.log), None)
    with pytest.raises(type(error)):
        soak.carry_out()
    (cycle,) = folder.read().cycles
    assert (cycle.status, cycle.reason) == (status, reason)
