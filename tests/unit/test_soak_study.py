"""The cycles of a soak, with fake runs that start nothing; and what a killed bench left does not affect the cycles that follow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stallbench.engines.database import Database
from stallbench.errors import NotCarriedOutError
from stallbench.injection.job_faults import JobFault, JobFaults, start_job_fault
from stallbench.scenario.model import Scenario
from stallbench.studies.soak.folder import SoakFolder
from stallbench.studies.soak.plan import SoakPlan, plan_soak
from stallbench.studies.soak.screen import SoakView
from stallbench.studies.soak.soak import carry_out_soak, continue_soak
from stallbench.verdicts import Verdict, judge
from tests.unit.fake_runner import FakeRunner, raise_at
from tests.unit.made_up_run import make_record, make_run
from tests.unit.test_shown_measures import FIGURES, PROGRESS
from tests.unit.test_soak_bad_input import make_soak

pytestmark = pytest.mark.slow

LEFT_OVER = 7


def own_servers(_: Database) -> None:
    """Return that there are no external servers."""


def make_cycle(folder: Path, scenario: Scenario, number: int) -> Verdict:
    """Write the records and tables of a cycle, and return its verdict: the second one fails."""
    run = make_run(folder, make_record(id=folder.name, scenario=scenario.model_dump(mode="json")))
    (folder / "final_snapshot.csv").write_text(f"1,queued\nend,{LEFT_OVER}\n")
    return replace(judge(run), verdict="fail" if number == 2 else "pass", reason=f"cycle {number}")


@pytest.fixture
def fake() -> FakeRunner:
    return FakeRunner(make_cycle, is_latest=False)


@pytest.fixture
def plan() -> SoakPlan:
    """Three cycles."""
    return plan_soak("baseline", "105s", variant=None, overrides=["seed=5"], keep=1, find_servers=own_servers)


def test_a_soak_ends_after_the_planned_cycles_whatever_their_verdicts_are(
    fake: FakeRunner, plan: SoakPlan, tmp_path: Path
) -> None:
    folder, record = carry_out_soak(plan, tmp_path, fake)
    assert folder.read() == record
    assert [(run.status, run.verdict, run.left_over) for run in record.runs] == [
        ("completed", "pass", LEFT_OVER),
        ("completed", "fail", LEFT_OVER),
        ("completed", "pass", LEFT_OVER),
    ]
    assert [scenario.seed for scenario in fake.scenarios] == [5, 6, 7]
    assert (record.verdict, record.exit_code) == ("fail", 1)
    assert (record.bound_bytes > 0, record.runs[0].record_bytes > 0, record.runs[0].spent_s > 0) == (True, True, True)
    said = (folder.path / "soak.log").read_text()
    assert "cycle 2: Not reproduced: cycle 2" in said
    assert "cycle 3 begins; 0 more follow" in said


def test_a_cycle_whose_tables_cannot_be_made_is_unknown_and_does_not_end_the_soak(
    fake: FakeRunner, plan: SoakPlan, tmp_path: Path
) -> None:
    make = fake.conclude

    def conclude(folder: object) -> Verdict:
        verdict = make(folder)  # type: ignore[arg-type]
        if len(fake.scenarios) == 1:
            raise NotCarriedOutError("no memory")
        return verdict

    fake.conclude = conclude  # type: ignore[method-assign]
    _, record = carry_out_soak(plan, tmp_path, fake)
    assert [run.verdict for run in record.runs] == ["unknown", "fail", "pass"]
    assert record.runs[0].reason == "its tables could not be made: no memory"


@pytest.mark.parametrize(
    ("error", "status", "reason", "exit_code"),
    [
        (KeyboardInterrupt(), "aborted", "interrupted", 130),
        (NotCarriedOutError("a worker died\nits records: ..."), "failed", "a worker died", 3),
    ],
    ids=["interrupted", "failed"],
)
def test_a_cycle_that_could_not_be_carried_out_ends_the_soak_which_is_continued_on_new_servers(
    fake: FakeRunner, plan: SoakPlan, tmp_path: Path, error: BaseException, status: str, reason: str, exit_code: int
) -> None:
    fake.before_run = raise_at(2, error)
    folder, record = carry_out_soak(plan, tmp_path, fake)
    assert (record.status, record.reason, record.exit_code) == (status, reason, exit_code)
    assert [(run.status, run.server_set) for run in record.runs] == [("completed", 1), (status, 1)]
    fake.before_run = lambda _: None
    continued = continue_soak(folder, None, own_servers, fake)
    assert [(run.status, run.server_set) for run in continued.runs] == [
        ("completed", 1),
        (status, 1),
        ("completed", 2),
        ("completed", 2),
    ]
    (note,) = continued.notes
    assert f"Cycle 2 is {status} ({reason}); it is kept and not counted." in note


def test_a_fault_that_was_active_when_the_bench_was_killed_is_not_active_in_the_next_cycles(
    fake: FakeRunner, tmp_path: Path
) -> None:
    soak = SoakFolder(make_soak(tmp_path, for_s=70))
    start_job_fault(soak.current.job_faults, "failing_jobs-3", JobFault(on="workers", fails=True))
    seen: list[dict[str, JobFault]] = []
    fake.before_run = lambda _: seen.append(JobFaults(soak.current.job_faults, "worker-1").read_active())
    continue_soak(soak, None, own_servers, fake)
    assert seen == [{}]


def test_the_folder_of_a_cycle_that_was_not_recorded_any_more_is_made_again(tmp_path: Path) -> None:
    soak = SoakFolder(make_soak(tmp_path))
    unrecorded = soak.begin_cycle(2)
    unrecorded.left_over.write_text("end,7\n")
    again = soak.begin_cycle(2)
    assert again.events.is_dir()
    assert not again.left_over.exists(), "the next cycle begins with an empty queue"


def test_the_figures_of_a_soak_are_in_its_log_too(tmp_path: Path) -> None:
    """So that they are written when the terminal is closed."""
    view = SoakView(tmp_path / "soak.log")
    view.show(replace(PROGRESS, phase="baseline", left_s=5.0), lambda: FIGURES)
    assert "baseline, 5 s left: " in (tmp_path / "soak.log").read_text()
