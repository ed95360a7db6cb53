"""How an interrupted comparison is completed, and how rounds are added to one: with fake runs that start nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.scenario.model import Scenario
from stallbench.studies.comparison.comparison import carry_out_runs, continue_runs
from stallbench.studies.comparison.plan import Load, make_plan
from stallbench.studies.comparison.record import ComparisonFolder, ComparisonRecord
from stallbench.studies.comparison.versions import make_matrix_plan
from stallbench.verdicts.baseline.against import BaselineChoice, read_against
from tests.unit.fake_runner import FakeRunner, raise_at
from tests.unit.made_up_baseline import make_baseline
from tests.unit.made_up_comparison import conclude_comparison
from tests.unit.scenario_text import SMALL

pytestmark = pytest.mark.slow

VARIANTS = """
[variants.cure]
summary = "It helps."
workers.count = 3
[variants.half]
summary = "It helps a little."
workers.count = 4
"""


@pytest.fixture
def fake() -> FakeRunner:
    return FakeRunner()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(SMALL + VARIANTS)
    return path


def begin(fake: FakeRunner, file: Path, rounds: int, overrides: tuple[str, ...] = ()) -> ComparisonFolder:
    plan = make_plan(str(file), variants="control,cure", rounds=rounds, seed=7, overrides=overrides)
    return carry_out_runs(plan, file.parent / "runs", lambda _: None, runner=fake)[0]


def continue_with(fake: FakeRunner, folder: ComparisonFolder, rounds: int = 3) -> tuple[ComparisonRecord, list[str]]:
    said: list[str] = []
    continue_runs(folder, rounds, said.append, fake)
    return conclude_comparison(folder)[0], said


def test_rounds_are_added_as_if_they_had_been_asked_for_at_first(fake: FakeRunner, file: Path) -> None:
    folder = begin(fake, file, rounds=1)
    first = folder.read().runs
    record, said = continue_with(fake, folder, rounds=3)
    whole = make_plan(str(file), variants="control,cure", rounds=3, seed=7)
    assert [(run.variant, run.round, run.seed) for run in record.runs] == [(r.variant, r.round, r.seed) for r in whole.runs]
    assert [run.folder for run in record.runs[:2]] == [run.folder for run in first], "these are not repeated"
    assert len(fake.scenarios) == 6
    assert (record.status, record.rounds) == ("completed", 3)
    assert said[0].startswith("4 runs of control, cure interleaved")
    assert record.results is not None


def test_an_interrupted_comparison_is_completed(fake: FakeRunner, file: Path) -> None:
    fake.before_run = raise_at(3, KeyboardInterrupt())
    folder = begin(fake, file, rounds=2)
    assert [run.status for run in folder.read().runs] == ["completed", "completed", "aborted", "planned"]
    fake.before_run = lambda _: None
    record, _ = continue_with(fake, folder, rounds=1)
    assert {run.status for run in record.runs} == {"completed"}
    assert len(record.runs) == 4, "as many rounds as it was planned with"
    assert (record.status, record.reason) == ("completed", "")


def test_the_command_of_an_added_round_has_each_change_once(fake: FakeRunner, file: Path) -> None:
    file.write_text(file.read_text().replace('name = "longtx"', 'name = "longtx"\nuntil = "fallen_behind"'))
    changes = ("workers.poll=0.5s", "phases.longtx.until=duration")
    folder = begin(fake, file, rounds=1, overrides=changes[:1])
    continue_with(fake, folder, rounds=2)
    for scenario in fake.scenarios:
        assert sorted(scenario.changes[:2]) == sorted(changes)
        assert scenario.changes[2].startswith("seed=")


def test_a_run_that_could_not_be_carried_out_is_carried_out_again(fake: FakeRunner, file: Path) -> None:
    fake.before_run = raise_at(2, NotCarriedOutError("no server"))
    folder = begin(fake, file, rounds=2)
    assert folder.read().runs[1].status == "failed"
    record, _ = continue_with(fake, folder, rounds=2)
    assert {(run.status, run.reason.startswith("no server")) for run in record.runs} == {("completed", False)}
    assert len(fake.scenarios) == 5


def test_a_load_that_was_measured_is_not_measured_again(fake: FakeRunner, file: Path) -> None:
    file.write_text(file.read_text().replace("rate = 500", "capacity_share = 0.5"))
    fake.measure = lambda _: 321.0
    folder = begin(fake, file, rounds=1)
    fake.measure = None
    continue_with(fake, folder, rounds=2)
    assert {scenario.producers.rate for scenario in fake.scenarios} == {160.0}


@pytest.mark.parametrize(
    ("load", "rates"),
    [("own", {"celery": 20.0, "oban": 60.0, "river": 40.0}), ("common", {"celery": 20.0, "oban": 20.0, "river": 20.0})],
)
def test_the_capacity_of_a_library_that_could_not_be_measured_is_measured_again(
    fake: FakeRunner, file: Path, load: Load, rates: dict[str, float]
) -> None:
    """Its runs follow the others, with the seeds of their rounds; a further round has all libraries."""
    file.write_text(file.read_text().replace("rate = 500", "capacity_share = 0.5"))
    capacities = {"library:celery": 40.0, "library:oban": 120.0}

    def measure(scenario: Scenario) -> float:
        if scenario.queue.kind not in capacities:
            raise NotCarriedOutError("what the workers can do could not be measured")
        return capacities[scenario.queue.kind]

    fake.measure = measure
    plan = make_plan(str(file), variants=None, libraries="celery,river,oban", load=load, rounds=2, seed=7)
    folder, _ = carry_out_runs(plan, file.parent / "runs", lambda _: None, runner=fake)
    before = folder.read()
    assert before.unmeasured == ("library:river",)

    record, said = continue_with(fake, folder, rounds=2)
    assert record.unmeasured == ("library:river",), "it could not be measured this time either"
    assert any(line.startswith("library:river is left out: what the workers can do") for line in said)
    assert [run.folder for run in record.runs] == [run.folder for run in before.runs]

    capacities["library:river"] = 80.0
    record, _ = continue_with(fake, folder, rounds=2)
    assert (record.unmeasured, record.left_out, record.names[-1]) == ((), {}, "library:river")
    assert [run.folder for run in record.runs[:4]] == [run.folder for run in before.runs], "these are not repeated"
    seeds = {run.round: run.seed for run in before.runs}
    assert [(run.variant, run.round, run.seed, run.status) for run in record.runs[4:]] == [
        ("library:river", round_, seeds[round_], "completed") for round_ in (1, 2)
    ]
    assert {scenario.queue.kind.removeprefix("library:"): scenario.producers.rate for scenario in fake.scenarios} == rates

    record, _ = continue_with(fake, folder, rounds=3)
    assert [run.number for run in record.runs] == list(range(1, 10))
    assert {run.variant for run in record.runs[6:]} == set(record.names)
    assert len({run.seed for run in record.runs}) == 3


def test_what_the_command_line_changed_stays_changed(fake: FakeRunner, file: Path) -> None:
    folder = begin(fake, file, rounds=1, overrides=("workers.work=3ms",))
    continue_with(fake, folder, rounds=2)
    assert {scenario.workers.work_s for scenario in fake.scenarios} == {0.003}


@pytest.mark.parametrize(
    ("old", "new", "issue"),
    [
        ("rate = 500", "rate = 400", "the scenario of cure has changed since: producers.rate was 500.0 and is 400.0"),
        ("[variants.cure]", "[variants.remedy]", 'there is no variant "cure"'),
    ],
)
def test_runs_of_another_scenario_are_not_added(fake: FakeRunner, file: Path, old: str, new: str, issue: str) -> None:
    folder = begin(fake, file, rounds=1)
    file.write_text(file.read_text().replace(old, new))
    before = folder.read()
    with pytest.raises(BadInputError, match=issue):
        continue_with(fake, folder)
    assert folder.read() == before
    assert len(fake.scenarios) == 2


def test_a_completed_comparison_has_nothing_to_continue(fake: FakeRunner, file: Path) -> None:
    folder = begin(fake, file, rounds=2)
    with pytest.raises(BadInputError, match="all 2 rounds are completed; add rounds with --repeat 3 or more"):
        continue_with(fake, folder, rounds=2)


def test_a_comparison_that_is_running_is_left_alone(fake: FakeRunner, file: Path) -> None:
    folder = begin(fake, file, rounds=1)
    folder.write(folder.read().model_copy(update={"status": "running"}))
    with pytest.raises(BadInputError, match="is still running, in the process"):
        continue_with(fake, folder)


def test_a_matrix_of_versions_is_continued_too(fake: FakeRunner, file: Path) -> None:
    """Also one that left out a version, which it does not try again."""
    fake.before_run = raise_at(2, KeyboardInterrupt())
    versions = "postgres:16,postgres:17,postgres:18"
    plan = make_matrix_plan(str(file), versions=versions, variant="cure", rounds=1, seed=7, overrides=())
    plan = plan.without({"postgres:16": "a setting is missing"})
    folder, _ = carry_out_runs(plan, file.parent / "runs", lambda _: None, runner=fake)
    fake.before_run = lambda _: None
    record, _ = continue_with(fake, folder, rounds=2)
    assert (record.status, record.versions, record.scenario.variant) == ("completed", versions, "cure")
    whole = make_matrix_plan(str(file), versions="postgres:17,postgres:18", variant="cure", rounds=2, seed=7, overrides=())
    assert [(run.variant, run.seed) for run in record.runs] == [(run.variant, run.seed) for run in whole.runs]
    assert {scenario.database.version for scenario in fake.scenarios} == {"17", "18"}


def test_the_baseline_of_an_interrupted_comparison_is_known_when_it_is_continued(fake: FakeRunner, file: Path) -> None:
    fake.before_run = raise_at(1, KeyboardInterrupt())
    plan = make_plan(str(file), variants="control,cure", rounds=1, seed=7)
    against = BaselineChoice(baseline=make_baseline(file.parent, [3.0]), options=("30%",))
    folder, _ = carry_out_runs(plan, file.parent / "runs", lambda _: None, against, fake)
    assert read_against(folder.path) == against
