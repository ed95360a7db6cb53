"""A soak against a baseline: what its last cycles show, and what drifts for the worse."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from stallbench.commands.endings import conclude_study_and_exit
from stallbench.errors import EXIT_FAIL, EXIT_PASS, BadInputError
from stallbench.run.record import BenchRecord, HostRecord
from stallbench.scenario.file import read_scenario
from stallbench.studies.baseline_collection import collect_baseline
from stallbench.studies.soak.folder import SoakFolder
from stallbench.studies.soak.kind import KIND
from stallbench.studies.soak.plan import plan_soak
from stallbench.studies.soak.record import CycleRun, Figure, SoakRecord
from stallbench.studies.soak.regression import require_comparable_soak
from stallbench.verdicts.baseline.against import BaselineChoice, write_against
from stallbench.verdicts.baseline.baseline_file import Baseline
from stallbench.verdicts.check import Finding
from tests.unit.made_up_run import PRIMARY, make_record

Values = Callable[[int], float]
"""Of a figure, by the number of the cycle, from 0."""
CYCLES = 16
CALM: Mapping[str, Values] = {
    "latency_ms.p95 in baseline": lambda n: 10 + random.Random(n).random(),
    "completed.rate in baseline": lambda n: 100 + random.Random(n + 50).random(),
    "table_bytes.last in baseline": lambda n: 50_000 + random.Random(n + 99).random(),
    "live_tuples.last in baseline": lambda n: 1000 * (n + 1),
    "memory of worker-1": lambda n: 30 + random.Random(n + 7).random() / 10,
}
"""Nothing drifts but the rows of completed jobs, of which neither more nor fewer is better."""
_FOR_S = 35.0 * CYCLES


def make_soak(
    runs: Path,
    name: str,
    figures: Mapping[str, Values] | None = None,
    *,
    cycles: int = CYCLES,
    version: str = "18.4",
    status: str = "completed",
) -> Path:
    """Write a soak; ``figures`` replace some of `CALM`, by the keys of `_KEYS`."""
    scenario = read_scenario("baseline")
    known = {**CALM, **{_KEYS[key]: values for key, values in (figures or {}).items()}}
    folder = SoakFolder(runs / name)
    folder.path.mkdir(parents=True)
    record = SoakRecord(
        id=name,
        bench=BenchRecord(version="0", pid=1, process_started_s=1.0),
        scenario=scenario,
        for_s=_FOR_S,
        keep=3,
        is_external=False,
        status=status,
        runs=tuple(
            CycleRun(
                number=number + 1,
                server_set=1,
                status="completed",
                verdict="pass",
                start_ns=1_800_000_000_000_000_000 + number,
                spent_s=225.0,
                figures={key: make_figure(key, values(number)) for key, values in known.items()},
            )
            for number in range(cycles)
        ),
    )
    folder.write(record)
    last = folder.cycle(cycles).path
    last.mkdir(parents=True)
    content = make_record(scenario=scenario.model_dump(mode="json"), servers=[PRIMARY | {"version": version}])
    (last / "run.json").write_text(json.dumps(content))
    return folder.path


def make_figure(name: str, value: float) -> Figure:
    """Return the figure of that name, as a cycle has it."""
    if name == _KEYS["memory"]:
        return Figure(value=value, metric="memory_bytes", process="worker-1")
    metric, phase = name.split(" in ")
    return Figure(value=value, metric=metric, phase=phase)


_KEYS = {
    "latency": "latency_ms.p95 in baseline",
    "rate": "completed.rate in baseline",
    "table": "table_bytes.last in baseline",
    "memory": "memory of worker-1",
    "depth": "depth.last in baseline",
}


def judge(path: Path, baseline: Baseline, *options: str) -> dict[str, Finding]:
    write_against(path, BaselineChoice(baseline=baseline, options=options))
    conclusion = KIND.conclude(path)
    conclusion.write()
    return {finding.subject.removesuffix(" against the baseline"): finding for finding in conclusion.record.regressions}


def failed(findings: Mapping[str, Finding]) -> list[str]:
    return [subject for subject, finding in findings.items() if finding.result == "fail"]


def exit_code_of(path: Path) -> Any:
    with pytest.raises(SystemExit) as ended:
        conclude_study_and_exit(path)
    return ended.value.code


def steady(value: float) -> Values:
    return lambda n: value


@pytest.fixture
def baseline(tmp_path: Path) -> Baseline:
    make_soak(tmp_path, "then")
    return collect_baseline(["then"], tmp_path)


def test_the_file_has_what_the_queue_is_like_at_the_end_and_every_drift(baseline: Baseline) -> None:
    known = baseline.variants["control"]
    assert baseline.kind == "soak"
    assert known.conditions["for_s"] == _FOR_S
    assert known.runs == ("then",)
    assert set(known.metrics) == {
        "latency_ms.p95 in baseline",
        "completed.rate in baseline",
        "table_bytes.last in baseline",
        "drift of latency_ms.p95 in baseline",
        "drift of completed.rate in baseline",
        "drift of table_bytes.last in baseline",
        "drift of memory of worker-1",
    }


def test_an_equal_soak_passes(tmp_path: Path, baseline: Baseline) -> None:
    path = make_soak(tmp_path, "now")
    findings = judge(path, baseline)
    assert {finding.result for finding in findings.values()} == {"pass"}
    assert findings["drift of control"].reason == "drift of control: 4 of 4 figures do not become significantly worse"
    assert exit_code_of(path) == EXIT_PASS


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"latency": lambda n: 14.0}, ["latency_ms.p95 in baseline"]),
        ({"rate": lambda n: 70.0 + n % 2}, ["completed.rate in baseline"]),
        ({"rate": lambda n: 140.0 + n % 2}, []),
        ({"memory": lambda n: 60.0 + n % 2 / 10}, []),
        ({"memory": lambda n: 30.0 + n + random.Random(n).random() / 10}, ["drift of memory of worker-1"]),
        ({"memory": lambda n: 60.0 - n + random.Random(n).random() / 10}, []),
        ({"table": lambda n: 50_000.0 + 500 * n + random.Random(n).random()}, []),
    ],
    ids=[
        "slower",
        "fewer jobs",
        "more jobs",
        "a larger process",
        "a leak",
        "less and less",
        "a slow growth within the tolerance",
    ],
)
def test_what_is_worse_fails(tmp_path: Path, baseline: Baseline, figures: dict[str, Values], expected: Sequence[str]) -> None:
    path = make_soak(tmp_path, "now", figures)
    assert failed(judge(path, baseline)) == expected
    assert exit_code_of(path) == (EXIT_FAIL if expected else EXIT_PASS)
    for file in ("report.html", "summary.md", "junit.xml", "study.json"):
        text = (path / file).read_text()
        assert "against the baseline" in text
        assert not expected or f"{expected[0]} against the baseline" in text


@pytest.mark.parametrize(("depth", "expected"), [(90.0, []), (110.0, ["depth.last in baseline"])])
def test_a_queue_that_was_empty_may_have_a_second_of_load(tmp_path: Path, depth: float, expected: Sequence[str]) -> None:
    rate = read_scenario("baseline").producers.rate
    make_soak(tmp_path, "then", {"depth": steady(0.0)})
    path = make_soak(tmp_path, "now", {"depth": steady(depth * rate / 100)})
    assert failed(judge(path, collect_baseline(["then"], tmp_path))) == expected


def test_a_tolerance_of_drift_is_in_percentage_points(tmp_path: Path, baseline: Baseline) -> None:
    path = make_soak(tmp_path, "now", {"table": lambda n: 50_000.0 + 500 * n + random.Random(n).random()})
    # 8,000 bytes in 16 cycles, of a median of 53,750
    finding = judge(path, baseline, "drift=14%")["drift of table_bytes.last in baseline"]
    assert finding.result == "fail"
    assert "(a tolerance of 14)" in finding.expected
    assert judge(path, baseline, "drift=16%")["drift of table_bytes.last in baseline"].result == "pass"


def test_a_drift_that_the_baseline_has_too_passes(tmp_path: Path) -> None:
    leak: Values = lambda n: 30.0 + n + random.Random(n).random() / 10  # noqa: E731
    make_soak(tmp_path, "then", {"memory": leak})
    findings = judge(make_soak(tmp_path, "now", {"memory": leak}), collect_baseline(["then"], tmp_path))
    assert findings["drift of memory of worker-1"].result == "pass"


def test_with_too_few_cycles_drift_is_not_compared(tmp_path: Path) -> None:
    make_soak(tmp_path, "then", cycles=7)
    findings = judge(make_soak(tmp_path, "now", {"memory": lambda n: 30.0 + n}, cycles=7), collect_baseline(["then"], tmp_path))
    assert findings["drift of control"].result == "info"
    assert "needs 8 cycles" in findings["drift of control"].reason


def test_with_three_soaks_a_difference_must_be_significant(tmp_path: Path) -> None:
    for number, latency in enumerate((6.0, 10.0, 14.0)):
        make_soak(tmp_path, f"then-{number}", {"latency": steady(latency)})
    noisy = collect_baseline(["then-0", "then-1", "then-2"], tmp_path)
    assert failed(judge(make_soak(tmp_path, "now", {"latency": lambda n: 13.0}), noisy)) == []
    assert failed(judge(make_soak(tmp_path, "far", {"latency": lambda n: 90.0}), noisy)) == ["latency_ms.p95 in baseline"]


def test_a_soak_that_was_interrupted_is_unknown_and_no_baseline(tmp_path: Path, baseline: Baseline) -> None:
    path = make_soak(tmp_path, "now", status="aborted")
    findings = judge(path, baseline)
    assert [(finding.result, finding.reason) for finding in findings.values()] == [
        ("unknown", "control: cannot be compared with the baseline: the soak is aborted")
    ]
    with pytest.raises(BadInputError, match="the soak cannot be a baseline: its status is aborted; expected completed"):
        collect_baseline(["now"], tmp_path)


def test_another_major_version_is_unknown(tmp_path: Path, baseline: Baseline) -> None:
    (finding,) = judge(make_soak(tmp_path, "now", version="17.1"), baseline).values()
    assert finding.result == "unknown"
    assert "the server is postgres 17.1, in the baseline postgres 18.4" in finding.reason


def test_what_cannot_be_compared_is_refused_before_anything_starts(
    tmp_path: Path, baseline: Baseline, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = HostRecord.model_validate(make_record()["host"])
    monkeypatch.setattr("stallbench.studies.soak.regression.read_host_facts", lambda: host)
    against, scenario = BaselineChoice(baseline=baseline), read_scenario("baseline")
    require_comparable_soak(against, scenario, _FOR_S)
    with pytest.raises(BadInputError, match="for_s is 70, in the baseline 560"):
        require_comparable_soak(against, scenario, 70.0)
    with pytest.raises(BadInputError, match="the baseline is of the scenario baseline, and this is longtx"):
        require_comparable_soak(against, read_scenario("longtx"), _FOR_S)
    monkeypatch.setattr("stallbench.studies.soak.regression.read_host_facts", lambda: host.model_copy(update={"cpus": 64}))
    with pytest.raises(BadInputError, match="this machine has 64 CPUs, that of the baseline 2"):
        require_comparable_soak(against, scenario, _FOR_S)


def test_a_soak_that_cannot_be_compared_is_refused_when_it_is_planned(baseline: Baseline) -> None:
    with pytest.raises(BadInputError, match="for_s is 70"):
        plan_soak(
            "baseline",
            "70s",
            variant=None,
            overrides=(),
            keep=3,
            find_servers=lambda _: None,
            against=BaselineChoice(baseline=baseline),
        )
