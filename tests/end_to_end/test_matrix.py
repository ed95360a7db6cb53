"""`stallbench matrix` on two versions of PostgreSQL, in runs that are as short as they can be."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stallbench.setup.components import MissingComponentError
from stallbench.setup.postgres_packages import list_packaged_majors, require_version
from tests.end_to_end.conftest import Bench, marked_with_folder

pytestmark = pytest.mark.end_to_end

OLD, NEW = 14, 18
SCENARIO = """
summary = "Next to no load, for as long as a figure of it needs."
[queue]
kind = "skip_locked"
[producers]
rate = 20
max_batch = 200
[workers]
count = 1
[[phases]]
name = "baseline"
duration = "2s"
[comparison]
metric = "latency_ms.p95"
phase = "baseline"
better = "lower"
"""


@pytest.fixture
def matrix(tmp_path: Path) -> tuple[str, ...]:
    """The arguments of one round on both versions."""
    for major in (OLD, NEW):
        if major not in list_packaged_majors():
            pytest.skip(f"there is no package of PostgreSQL {major} for this machine")
        try:
            require_version(major, packaged=True)
        except MissingComponentError as error:
            pytest.skip(str(error))
    scenario = tmp_path / "little.toml"
    scenario.write_text(SCENARIO)
    return "matrix", str(scenario), "--versions", f"postgres:{OLD},postgres:{NEW}", "--repeat", "1"


@pytest.mark.long
def test_a_scenario_runs_on_two_versions_and_one_round_decides_nothing(bench: Bench, matrix: tuple[str, ...]) -> None:
    ended = bench.run(*matrix)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    assert "1 round is not enough to decide whether an upgrade helps" in " ".join(ended.stdout.split())
    (path,) = bench.runs.glob("*-matrix-little")
    content = json.loads((path / "study.json").read_text())
    servers = {}
    for run in content["runs"]:
        folder = bench.runs / run["folder"]
        servers[run["variant"]] = json.loads((folder / "run.json").read_text())["servers"][0]["version"].split(".")[0]
        assert run["values"]["latency_ms.p95 in baseline"] > 0
        assert not marked_with_folder(folder)
    assert servers == {f"postgres:{major}": str(major) for major in (OLD, NEW)}
    assert (path / "report.html").is_file()


@pytest.mark.long
def test_a_version_fails_against_a_baseline_in_which_it_was_quicker(bench: Bench, matrix: tuple[str, ...]) -> None:
    assert bench.run(*matrix).returncode == 0
    (path,) = bench.runs.glob("*-matrix-little")
    file = bench.runs.parent / "matrix-baseline.json"
    written = bench.run("baseline", str(path), "--output", str(file))
    assert written.returncode == 0, written.stderr
    variants = (content := json.loads(file.read_text()))["variants"]
    metric = "latency_ms.p95 in baseline"
    variants[f"postgres:{OLD}"]["metrics"][metric]["values"] = [1e-6]
    variants[f"postgres:{NEW}"]["metrics"][metric]["values"] = [1e6]
    file.write_text(json.dumps(content))
    against = ("--against", str(file))
    ended = bench.run(*matrix, *against)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    (compared,) = [each for each in bench.runs.glob("*-matrix-little") if each != path]
    regressions = json.loads((compared / "study.json").read_text())["regressions"]
    assert {finding["subject"]: finding["result"] for finding in regressions} == {
        f"postgres:{OLD}: {metric} against the baseline": "fail",
        f"postgres:{NEW}: {metric} against the baseline": "pass",
    }
    refused = bench.run(*matrix, *against, "--set", "workers.count=2")
    assert refused.returncode == 2
    assert "workers.count is 2, in the baseline 1" in refused.stderr


@pytest.mark.long
def test_three_rounds_decide_whether_an_upgrade_helps_and_another_engine_takes_part(bench: Bench, tmp_path: Path) -> None:
    scenario = tmp_path / "little.toml"
    scenario.write_text(SCENARIO)
    versions = (f"postgres:{OLD}", f"postgres:{NEW}", "mariadb:10.11")
    changes = ("--set", "queue.kind=laravel", "--versions", ",".join(versions), "--repeat", "3")
    ended = bench.run("matrix", str(scenario), *changes)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (path,) = bench.runs.glob("*-matrix-little")
    content = json.loads((path / "study.json").read_text())
    assert [run["status"] for run in content["runs"]] == ["completed"] * 9
    records = {run["variant"]: json.loads((bench.runs / run["folder"] / "run.json").read_text()) for run in content["runs"]}
    assert {name: record["servers"][0]["engine"] for name, record in records.items()} == {
        name: name.partition(":")[0] for name in versions
    }
    answers = r"The upgrade from PostgreSQL 14 to 18 (makes no significant difference|helps|makes it worse)"
    assert re.search(answers, " ".join(ended.stdout.split()))
