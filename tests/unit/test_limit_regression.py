"""A search for a limit against a baseline: the rate that the tolerance allows is tried, so that the limit is above it or below it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from stallbench.errors import EXIT_FAIL, EXIT_PASS, BadInputError
from stallbench.run.record import HostRecord
from stallbench.studies.baseline_collection import collect_baseline
from stallbench.studies.limit.kind import KIND
from stallbench.studies.limit.limit import LimitSearch, plan_limit
from stallbench.studies.limit.record import LimitPlan, LimitRecord, begin_search
from stallbench.studies.limit.slo import parse_slo
from stallbench.verdicts.baseline.against import BaselineChoice, read_against, write_against
from stallbench.verdicts.baseline.baseline_file import Baseline, parse_baseline, write_baseline
from tests.unit.fake_runner import FakeRunner
from tests.unit.made_up_baseline import make_made_up_run
from tests.unit.made_up_limit import make_probe
from tests.unit.made_up_run import PRIMARY, make_record

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this machine be the one of the made-up runs."""
    host = HostRecord.model_validate(make_record()["host"])
    monkeypatch.setattr("stallbench.studies.limit.regression.read_host_facts", lambda: host)


def make_plan(against: Baseline | None = None, *options: str, **changes: Any) -> LimitPlan:
    asked: dict[str, Any] = {
        "slo": parse_slo("latency_ms.p95 < 1s"),
        "variant": None,
        "overrides": [],
        "horizon": "free",
        "duration_s": 15,
        "within_s": 600,
        "precision": 0.1,
        "start_rate": 64 if against is None else None,
        "against": BaselineChoice(baseline=against, options=options) if against else None,
    }
    return plan_limit("longtx", **{**asked, **changes})


@dataclass(frozen=True, slots=True)
class Known:
    """A search that was carried out before, and the baseline of it and of those before it."""

    folder: Path
    baseline: Baseline


class Searches:
    """Searches whose runs are made up: a rate is sustained up to a limit, which may differ from probe to probe.

    Only the record and what the first run says of its conditions are written; that a search keeps its runs is tested in `test_limit_runs`.
    """

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._known: dict[str, Known] = {}

    def carry_out(self, plan: LimitPlan, *limits: float, version: str = "18.4") -> tuple[Path, LimitRecord]:
        folder, record = begin_search(plan, self._runs)
        if plan.against:
            write_against(folder.path, plan.against)
        search = LimitSearch(folder, record, FakeRunner(), lambda _: None, plan)
        search.prepare()
        while (run := search.next_run()) is not None:
            name = f"run-{run.number}"
            is_sustained = run.rate <= limits[min(run.number, len(limits)) - 1]
            probe = replace(make_probe(run.horizon, run.rate, reason="" if is_sustained else "too slow"), run=name)
            if len(search.record.probes_of(run.horizon)) == 0:
                (folder.path / name).mkdir()
                ran = make_record(
                    scenario=search.scenario_of(run).model_dump(mode="json"), servers=[PRIMARY | {"version": version}]
                )
                (folder.path / name / "run.json").write_text(json.dumps(ran))
            search.record = search.record.with_run(run.model_copy(update={"status": "completed", "folder": name, "probe": probe}))
        folder.write(search.record.with_end("completed", ""))
        conclusion = KIND.conclude(folder.path)
        conclusion.write()
        record = conclusion.record
        assert isinstance(record, LimitRecord)
        return folder.path, record

    def make_baseline(self, *limits: float, **changes: Any) -> Baseline:
        """Return that of a search for each limit."""
        return self.know(*limits, **changes).baseline

    def know(self, *limits: float, **changes: Any) -> Known:
        """Return the last of these searches, and the baseline of all; tests that ask for the same get the same, and leave it as it is."""
        key = repr((limits, changes))
        if key not in self._known:
            folders = [self.carry_out(make_plan(**changes), limit)[0] for limit in limits]
            self._known[key] = Known(folders[-1], collect_baseline([str(folder) for folder in folders], self._runs))
        return self._known[key]


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Searches:
    return Searches(tmp_path_factory.mktemp("searches"))


def results_of(outcome: LimitRecord) -> list[tuple[str, str]]:
    return [(finding.subject, finding.result) for finding in outcome.regressions]


def test_the_file_has_the_rate_that_was_sustained_and_can_be_read_again(search: Searches) -> None:
    baseline = search.make_baseline(100)
    (known,) = baseline.variants.values()
    assert baseline.kind == "limit"
    assert list(baseline.variants) == ["control, horizon free"]
    assert 90 < (known.metrics["sustained_rate"].values[0] or 0) <= 100
    assert "producers.rate" not in known.conditions
    assert parse_baseline(write_baseline(baseline), "file") == baseline


@pytest.mark.parametrize(
    ("limit", "result", "exit_code"), [(100, "pass", EXIT_PASS), (140, "pass", EXIT_PASS), (60, "fail", EXIT_FAIL)]
)
def test_a_lower_rate_fails(search: Searches, limit: float, result: str, exit_code: int) -> None:
    baseline = search.make_baseline(100)
    folder, outcome = search.carry_out(make_plan(baseline), limit)
    assert results_of(outcome) == [("control, horizon free: sustained_rate against the baseline", result)]
    assert outcome.exit_code == exit_code
    assert json.loads((folder / "study.json").read_text())["regressions"][0]["result"] == result
    assert ("<failure" in (folder / "junit.xml").read_text()) == (result == "fail")
    assert read_against(folder) == make_plan(baseline).against


@pytest.mark.parametrize("limit", [78.0, 79.0, 80.0, 81.0, 82.0])
def test_near_the_rate_that_is_allowed_the_width_of_the_interval_does_not_matter(search: Searches, limit: float) -> None:
    baseline = search.make_baseline(100)
    allowed = 0.8 * (baseline.variants["control, horizon free"].metrics["sustained_rate"].values[0] or 0)
    _, outcome = search.carry_out(make_plan(baseline, precision=0.5), limit)
    expected = "pass" if limit >= allowed else "fail"
    assert [result for _, result in results_of(outcome)] == [expected]


@pytest.mark.parametrize(("rate", "allowed"), [(102, 81.6), (107, 85.6), (11.4, 9.12)])
def test_a_limit_at_exactly_the_rate_that_is_allowed_passes(search: Searches, rate: float, allowed: float) -> None:
    """20 % less than 102 is 81.6; as a computer subtracts them, the difference of the two is a little more than 20 %."""
    found = search.make_baseline(100)
    ((name, known),) = found.variants.items()
    metrics = {"sustained_rate": known.metrics["sustained_rate"].model_copy(update={"values": (rate,)})}
    baseline = found.model_copy(update={"variants": {name: known.model_copy(update={"metrics": metrics})}})
    _, outcome = search.carry_out(make_plan(baseline, precision=0.5), allowed)
    assert outcome.find_limits()[0].interval.low == allowed
    assert [result for _, result in results_of(outcome)] == ["pass"]


def test_the_first_rate_is_that_of_the_baseline_and_no_capacity_is_measured(search: Searches) -> None:
    baseline = search.make_baseline(100)
    _, outcome = search.carry_out(make_plan(baseline), 100)
    reference = baseline.variants["control, horizon free"].metrics["sustained_rate"].values[0]
    assert outcome.capacity is None
    assert outcome.find_limits()[0].probes[0].rate == reference


def test_a_tolerance_of_its_own_is_used(search: Searches) -> None:
    baseline = search.make_baseline(100)
    _, outcome = search.carry_out(make_plan(baseline, "sustained_rate=60%"), 60)
    assert [result for _, result in results_of(outcome)] == ["pass"]


def test_with_three_searches_a_lower_rate_fails_only_if_the_difference_is_significant(search: Searches) -> None:
    noisy = search.make_baseline(60, 100, 140)
    assert [result for _, result in results_of(search.carry_out(make_plan(noisy), 70)[1])] == ["pass"]
    steady = search.make_baseline(99, 100, 101)
    _, outcome = search.carry_out(make_plan(steady), 70)
    assert [result for _, result in results_of(outcome)] == ["fail"]


def test_runs_that_contradict_each_other_decide_nothing(search: Searches) -> None:
    baseline = search.make_baseline(100)
    _, wide = search.carry_out(make_plan(baseline, precision=1), 70, 70, 70, 200, 200)
    (finding,) = wide.regressions
    assert finding.result == "unknown"
    assert "its runs contradict each other" in finding.reason
    assert wide.exit_code == EXIT_FAIL


def test_a_horizon_that_the_baseline_does_not_have_is_info(search: Searches) -> None:
    baseline = search.make_baseline(100)
    _, outcome = search.carry_out(make_plan(baseline, horizon=None, start_rate=64), 100)
    assert results_of(outcome) == [
        ("control, horizon free: sustained_rate against the baseline", "pass"),
        ("control, horizon held against the baseline", "info"),
    ]
    assert outcome.exit_code == EXIT_PASS


def test_another_major_version_is_unknown_and_another_minor_one_is_said(search: Searches) -> None:
    baseline = search.make_baseline(100)
    _, other = search.carry_out(make_plan(baseline), 100, version="17.2")
    assert [result for _, result in results_of(other)] == ["unknown"]
    assert "the server is postgres 17.2, in the baseline postgres 18.4" in other.regressions[0].reason
    _, minor = search.carry_out(make_plan(baseline), 100, version="18.5")
    assert [result for _, result in results_of(minor)] == ["pass", "info"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"slo": parse_slo("latency_ms.p95 < 2s")}, "slo is latency_ms.p95 < 2s, in the baseline latency_ms.p95 < 1s"),
        ({"duration_s": 20}, "phases.probe.duration_s is 20, in the baseline 15"),
        ({"overrides": ["workers.count=2"]}, "workers.count is 2, in the baseline"),
        ({"horizon": "held"}, "the baseline is of control, horizon free, and this is control, horizon held"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_starts(
    search: Searches, changes: dict[str, Any], expected: str
) -> None:
    baseline = search.make_baseline(100)
    with pytest.raises(BadInputError) as caught:
        make_plan(baseline, **changes)
    assert expected in str(caught.value)


def test_another_rate_of_the_scenario_does_not_matter(search: Searches) -> None:
    baseline = search.make_baseline(100, overrides=["producers.rate=10"])
    make_plan(baseline, overrides=["producers.rate=20"])


def test_another_machine_is_refused_because_a_rate_is_no_ratio(search: Searches, monkeypatch: pytest.MonkeyPatch) -> None:
    baseline = search.make_baseline(100)
    host = HostRecord.model_validate(make_record()["host"] | {"cpus": 64})
    monkeypatch.setattr("stallbench.studies.limit.regression.read_host_facts", lambda: host)
    with pytest.raises(BadInputError, match="this machine has 64 CPUs, that of the baseline 2, so none of its figures"):
        make_plan(baseline)


def test_a_baseline_of_runs_is_refused_and_so_is_a_mixture(search: Searches, tmp_path: Path) -> None:
    run = tmp_path / "20290101T000000Z-longtx"
    make_made_up_run(run)
    of_runs = collect_baseline([str(run)], tmp_path)
    with pytest.raises(BadInputError, match=r"the baseline is of runs \(stallbench run, .* needs one of searches for a limit"):
        make_plan(of_runs)
    folder = search.know(100).folder
    with pytest.raises(BadInputError, match="the baseline is of searches for a limit"):
        collect_baseline([str(run), str(folder)], tmp_path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"status": "aborted"}, "the search cannot be a baseline: its status is aborted; expected completed"),
        ({"format": 2}, "format 2 was written by a newer stallbench"),
        ({"plan": {}}, "not a study's record: plan.scenario: Field required"),
        ({"runs": []}, "with the horizon free its limit was not found in time"),
    ],
)
def test_a_search_that_is_damaged_or_was_broken_off_is_no_baseline(
    search: Searches, tmp_path: Path, content: dict[str, Any], expected: str
) -> None:
    folder = shutil.copytree(search.know(100).folder, tmp_path / "damaged")
    path = folder / "study.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | content))
    with pytest.raises(BadInputError, match=expected):
        collect_baseline([folder.name], tmp_path)


def test_a_search_without_an_upper_end_is_no_baseline(search: Searches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times: Sequence[float] = [0.0, *[0.0] * 8, *[1e6] * 100]
    clock = iter(times)
    monkeypatch.setattr("stallbench.studies.limit.limit.time.monotonic", lambda: next(clock))
    folder, outcome = search.carry_out(make_plan(), 1e9)
    assert not outcome.find_limits()[0].is_complete
    with pytest.raises(BadInputError, match="with the horizon free its limit was not found in time"):
        collect_baseline([str(folder)], tmp_path)
