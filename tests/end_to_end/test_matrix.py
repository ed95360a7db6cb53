"""`stallbench matrix` on two versions of PostgreSQL, in runs that are as short as they can be."""

from __future__ import annotations

import json
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


def test_a_scenario_runs_on_two_versions_and_one_round_decides_nothing(bench: Bench, tmp_path: Path) -> None:
    for major in (OLD, NEW):
        if major not in list_packaged_majors():
            pytest.skip(f"there is no package of PostgreSQL {major} for this machine")
        try:
            require_version(major, packaged=True)
        except MissingComponentError as error:
            pytest.skip(str(error))
    scenario = tmp_path / "little.toml"
    scenario.write_text(SCENARIO)
    versions = f"postgres:{OLD},postgres:{NEW}"
    ended = bench.run("matrix", str(scenario), "--versions", versions, "--repeat", "1")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    assert "1 round is not enough to decide whether an upgrade helps" in " ".join(ended.stdout.split())
    (path,) = bench.runs.glob("*-matrix-little")
    content = json.loads((path / "comparison.json").read_text())
    servers = {}
    for run in content["runs"]:
        folder = bench.runs / run["folder"]
        servers[run["variant"]] = json.loads((folder / "run.json").read_text())["servers"][0]["version"].split(".")[0]
        assert run["values"]["latency_ms.p95 in baseline"] > 0
        assert not marked_with_folder(folder)
    assert servers == {f"postgres:{major}": str(major) for major in (OLD, NEW)}
    assert (path / "report.html").is_file()
    assert_a_worse_version_is_seen(bench, path, scenario, versions)


def assert_a_worse_version_is_seen(bench: Bench, path: Path, scenario: Path, versions: str) -> None:
    """One version fails against a baseline in which it was quicker, and the other one passes."""
    file = bench.runs.parent / "matrix-baseline.json"
    written = bench.run("baseline", str(path), "--output", str(file))
    assert written.returncode == 0, written.stderr
    variants = (content := json.loads(file.read_text()))["variants"]
    metric = "latency_ms.p95 in baseline"
    variants[f"postgres:{OLD}"]["metrics"][metric]["values"] = [1e-6]
    variants[f"postgres:{NEW}"]["metrics"][metric]["values"] = [1e6]
    file.write_text(json.dumps(content))
    against = ("--against", str(file))
    ended = bench.run("matrix", str(scenario), "--versions", versions, "--repeat", "1", *against)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    (compared,) = [each for each in bench.runs.glob("*-matrix-little") if each != path]
    regressions = json.loads((compared / "comparison.json").read_text())["results"]["regressions"]
    assert {finding["subject"]: finding["result"] for finding in regressions} == {
        f"postgres:{OLD}: {metric} against the baseline": "fail",
        f"postgres:{NEW}: {metric} against the baseline": "pass",
    }
    refused = bench.run("matrix", str(scenario), "--versions", versions, *against, "--set", "workers.count=2")
    assert refused.returncode == 2
    assert "workers.count is 2, in the baseline 1" in refused.stderr


@pytest.mark.long
def test_three_rounds_on_two_engines_decide_whether_the_difference_is_significant(bench: Bench, tmp_path: Path) -> None:
    scenario = tmp_path / "little.toml"
    scenario.write_text(SCENARIO)
    changes = ("--set", "queue.kind=laravel", "--versions", "postgres:18,mariadb:10.11", "--repeat", "3")
    ended = bench.run("matrix", str(scenario), *changes)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (path,) = bench.runs.glob("*-matrix-little")
    content = json.loads((path / "comparison.json").read_text())
    assert [run["status"] for run in content["runs"]] == ["completed"] * 6
    engines = {
        run["variant"]: json.loads((bench.runs / run["folder"] / "run.json").read_text())["servers"][0]["engine"]
        for run in content["runs"]
    }
    assert engines == {"postgres:18": "postgres", "mariadb:10.11": "mariadb"}
    assert "is not enough" not in ended.stdout
    assert any(words in " ".join(ended.stdout.split()) for words in ("no significant difference", "helps", "makes it worse"))
