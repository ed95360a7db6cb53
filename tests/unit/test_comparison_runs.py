"""How a comparison carries out its runs, and what happens when one fails: with fake runs that start nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stallbench.errors import NotCarriedOutError
from stallbench.scenario.model import Scenario
from stallbench.studies.comparison.comparison import carry_out_runs
from stallbench.studies.comparison.plan import Plan
from stallbench.studies.comparison.record import ComparisonFolder, ComparisonRecord
from tests.unit.fake_runner import FakeRunner, raise_at
from tests.unit.made_up_comparison import conclude_comparison, make_made_up_plan

pytestmark = pytest.mark.slow


@pytest.fixture
def fake() -> FakeRunner:
    return FakeRunner()


def carry_out(fake: FakeRunner, plan: Plan, runs: Path) -> tuple[ComparisonRecord, list[str]]:
    said: list[str] = []
    folder, _ = carry_out_runs(plan, runs, said.append, runner=fake)
    return conclude_comparison(folder)[0], said


def test_runs_follow_the_plan_each_with_its_folder_and_its_seed(fake: FakeRunner, tmp_path: Path) -> None:
    plan = make_made_up_plan(["control", "cure", "half"], rounds=3)
    record, said = carry_out(fake, plan, tmp_path)
    assert [scenario.variant or "control" for scenario in fake.scenarios] == [run.variant for run in plan.runs]
    assert [scenario.seed for scenario in fake.scenarios] == [run.seed for run in plan.runs]
    assert record.status == "completed"
    assert len({run.folder for run in record.runs}) == 9
    assert {run.status for run in record.runs} == {"completed"}
    assert record.results is not None
    assert record.results["recommendation"].startswith("Use cure: ")
    assert "run 1 of 9: " in said[1]


def test_a_library_whose_capacity_cannot_be_measured_does_not_stop_the_others(fake: FakeRunner, tmp_path: Path) -> None:
    def measure(scenario: Scenario) -> float:
        if scenario.summary == "broken":
            raise NotCarriedOutError(
                "what the workers can do could not be measured: worker-1 exited unexpectedly\nits records: here"
            )
        return 100.0

    fake.measure = measure
    plan = make_made_up_plan(["library:river", "library:oban", "library:celery"], rounds=2, producers={"capacity_share": 0.5})
    broken = {name: one.model_copy(update={"summary": "broken"}) for name, one in plan.chosen.items() if name.endswith("river")}
    record, said = carry_out(fake, replace(plan, chosen={**plan.chosen, **broken}), tmp_path)
    reason = "what the workers can do could not be measured: worker-1 exited unexpectedly"
    assert any(sentence.startswith(f"library:river is left out: {reason}") for sentence in said)
    assert record.left_out == {"library:river": reason}
    assert [(run.variant, run.status) for run in record.runs if run.round == 1 and "river" in run.variant] == []
    assert {run.status for run in record.runs} == {"completed"}
    assert {one.name: one.capacity for one in record.variants} == {"library:oban": 100.0, "library:celery": 100.0}
    assert record.exit_code == 3


def test_a_run_of_which_it_is_not_known_whether_it_lost_jobs_is_recorded_as_such(fake: FakeRunner, tmp_path: Path) -> None:
    record, _ = carry_out(fake, make_made_up_plan(["control", "cure"], rounds=1), tmp_path)
    folder = ComparisonFolder(tmp_path / record.id)
    run = record.runs[0]
    path = tmp_path / str(run.folder) / "verdict.json"
    verdict = json.loads(path.read_text())
    for finding in verdict["findings"]:
        if finding["check"] == "conservation":
            finding |= {"result": "unknown", "reason": "3 unknown"}
    path.write_text(json.dumps(verdict))
    record, results = conclude_comparison(folder)
    assert (record.runs[0].unsafe, record.runs[0].undecided) == ("", "3 unknown")
    assert results.undecided == {run.variant: "3 unknown"}


def test_one_library_that_is_left_is_not_a_comparison(fake: FakeRunner, tmp_path: Path) -> None:
    def measure(scenario: Scenario) -> float:
        raise NotCarriedOutError("no server")

    fake.measure = measure
    plan = make_made_up_plan(["library:river", "library:oban"], rounds=1, producers={"capacity_share": 0.5})
    with pytest.raises(
        NotCarriedOutError, match="needs two variants or more; library:river is left out: no server; library:oban"
    ):
        carry_out(fake, plan, tmp_path)
    assert fake.scenarios == []


def test_latest_points_to_a_run_and_not_to_the_comparison(fake: FakeRunner, tmp_path: Path) -> None:
    record, _ = carry_out(fake, make_made_up_plan(["control", "cure"], rounds=1), tmp_path)
    assert (tmp_path / "latest").resolve().name == record.runs[-1].folder
    assert record.id.endswith("-compare-made-up")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NotCarriedOutError("the run could not be carried out: port 5432 is in use\nits records: here"), "port 5432"),
        (OSError("full"), "full"),
    ],
)
@pytest.mark.parametrize("at", ["before_run", "before_tables"])
def test_a_run_that_cannot_be_carried_out_does_not_stop_the_others(
    fake: FakeRunner, at: str, error: Exception, reason: str, tmp_path: Path
) -> None:
    setattr(fake, at, raise_at(2, error))
    record, said = carry_out(fake, make_made_up_plan(["control", "cure"], rounds=2), tmp_path)
    assert [run.status for run in record.runs] == ["completed", "failed", "completed", "completed"]
    assert reason in record.runs[1].reason
    assert "\n" not in record.runs[1].reason
    assert record.runs[1].folder is not None
    assert any("failed: " in sentence and reason in sentence for sentence in said)
    assert (record.status, record.exit_code) == ("completed", 3)


@pytest.mark.parametrize("at", ["before_run", "before_tables"])
def test_an_interrupt_ends_the_comparison_with_the_completed_runs(fake: FakeRunner, at: str, tmp_path: Path) -> None:
    setattr(fake, at, raise_at(4, KeyboardInterrupt()))
    record, _ = carry_out(fake, make_made_up_plan(["control", "cure"], rounds=3), tmp_path)
    assert [run.status for run in record.runs] == ["completed"] * 3 + ["aborted"] + ["planned"] * 2
    assert (record.status, record.exit_code) == ("aborted", 130)
    assert len(list(tmp_path.glob("*-compare-made-up/report.html"))) == 1


def test_a_file_in_place_of_the_folder_for_runs_is_refused(fake: FakeRunner, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(NotCarriedOutError, match="choose another folder with --runs DIR"):
        carry_out(fake, make_made_up_plan(["control", "cure"], rounds=1), tmp_path / "runs")
    assert fake.scenarios == []
