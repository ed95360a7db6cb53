"""A whole comparison as a user starts it, of runs that are as short as they can be."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml

from tests.end_to_end.conftest import Bench, RunHere, marked_with_folder, measured, short

pytestmark = pytest.mark.end_to_end

SHORTER = (
    "phases.baseline.duration=2s",
    "phases.longtx.duration=2s",
    "phases.recovery.duration=1s",
    "phases.recovered.duration=1s",
)
INTERRUPTED = ("phases.baseline.duration=60s",)
"""So long that it cannot be over before the interrupt, however late that comes."""


def comparison(bench: Bench) -> tuple[Path, dict[str, Any]]:
    (path,) = bench.runs.glob("*-compare-longtx")
    return path, json.loads((path / "study.json").read_text())


ATTEMPTS = 3


def compare_at_a_measured_load(folder: Path, pipeline_service: Path | None) -> tuple[Bench, subprocess.CompletedProcess[str]]:
    """Compare two variants at half of what three workers of 50 ms a job can do, which is 60 jobs a second at the very most.

    No machine is so slow that they cannot do 40. One that stands still while it is measured can do less; but not each time.
    """
    for attempt in range(1, ATTEMPTS + 1):
        bench = Bench(folder / f"runs-{attempt}", pipeline_service)
        load = ("workers.count=3", "workers.work=50ms", "producers.capacity_share=0.5")
        ended = bench.run("compare", "longtx", "--variants", "control,skip_locked", "--repeat", "1", *measured(*SHORTER, *load))
        # Phases of two seconds may miss the intended rate.
        assert ended.returncode in (0, 1), ended.stdout + ended.stderr
        rate = bench.record()["scenario"]["producers"]["rate"]
        assert rate <= 30
        if rate >= 20:
            return bench, ended
    pytest.fail(f"the workers were measured too slow {ATTEMPTS} times, last for {rate:g} jobs/s")


def test_two_variants_in_one_round_at_half_of_what_the_workers_can_do(
    tmp_path: Path, pipeline_service: Path | None, run_here: RunHere
) -> None:
    bench, ended = compare_at_a_measured_load(tmp_path, pipeline_service)
    assert "1 round is not enough for a recommendation" in " ".join(ended.stdout.split())
    assert "Traceback" not in ended.stderr
    path, content = comparison(bench)
    assert {run["variant"] for run in content["runs"]} == {"control", "skip_locked"}
    folders = [bench.runs / run["folder"] for run in content["runs"]]
    records = [json.loads((folder / "run.json").read_text()) for folder in folders]
    (rate,) = {record["scenario"]["producers"]["rate"] for record in records}
    assert f"the load is 50% of that: producers.rate={rate:g}" in ended.stdout, "measured once, for both"
    for folder in folders:
        assert f"--set producers.rate={rate:g}" in (folder / "report.html").read_text(), (
            "the run can be repeated without measuring"
        )
    assert {record["status"] for record in records} == {"completed"}
    assert sorted(bench.runs.glob("*-longtx*")) == sorted([path, *folders]), "nothing is left of the measurement"
    assert all(run["values"]["claim_ms.p50 in baseline"] > 0 for run in content["runs"])
    assert (bench.runs / "latest").resolve() in [folder.resolve() for folder in folders]
    assert (path / "report.html").is_file()
    assert not any(marked_with_folder(folder) for folder in folders)

    again = run_here("report", str(path))
    assert again.returncode == ended.returncode, again.stdout + again.stderr
    assert comparison(bench)[1]["results"] == content["results"]


@pytest.mark.long
def test_after_an_interrupt_the_completed_runs_are_compared(bench: Bench) -> None:
    running = bench.start("compare", "longtx", "--variants", "control,skip_locked", "--repeat", "2", *short(*INTERRUPTED))
    bench.wait_for_phase("baseline")
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=600)
    assert running.returncode == 130, out + err
    assert "Traceback" not in err
    path, content = comparison(bench)
    assert [run["status"] for run in content["runs"]] == ["aborted", "planned", "planned", "planned"]
    assert (path / "summary.md").is_file()
    assert not marked_with_folder(bench.folder())


def test_bad_input_is_refused_before_a_server_is_started(run_here: RunHere, tmp_path: Path) -> None:
    ended = run_here("compare", "longtx", "--variants", "control,skip_lockd", "--runs", str(tmp_path / "runs"))
    assert ended.returncode == 2
    assert 'there is no variant "skip_lockd"' in ended.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "issue"),
    [
        (["--continue", "nothing"], "--continue nothing: there is no comparison of that name"),
        (
            ["longtx", "--seed", "0", "--tolerance", "5%", "--continue", "nothing"],
            "leave out SCENARIO and --seed and --tolerance",
        ),
        ([], "compare needs a SCENARIO, like longtx; only --continue works without one"),
    ],
)
def test_what_cannot_be_combined_is_refused(run_here: RunHere, tmp_path: Path, arguments: list[str], issue: str) -> None:
    ended = run_here("compare", *arguments, "--runs", str(tmp_path / "runs"))
    assert ended.returncode == 2
    assert issue in ended.stderr


LITTLE = """
summary = "Next to no load, for as long as a figure of it needs."
queue.kind = "skip_locked"
producers = { rate = 20, max_batch = 200 }
workers.count = 1
comparison = { metric = "latency_ms.p95", phase = "baseline", better = "lower" }
[[phases]]
name = "baseline"
duration = "2s"
[variants.two_workers]
summary = "One more worker."
workers.count = 2
"""


@pytest.mark.long
@pytest.mark.parametrize("command", [("run",), ("compare", "--repeat", "2")])
def test_a_regression_against_a_committed_baseline_fails_the_command(
    bench: Bench, tmp_path: Path, command: tuple[str, ...]
) -> None:
    scenario, file = tmp_path / "little.toml", tmp_path / "baseline.json"
    scenario.write_text(LITTLE)
    name, *options = command
    first = bench.run(name, str(scenario), *options)
    assert first.returncode == 0, first.stdout + first.stderr
    measured_in = "latest" if name == "run" else comparison_of_little(bench)[0].name
    written = bench.run("baseline", measured_in, "--output", str(file))
    assert written.returncode == 0, written.stderr
    content = json.loads(file.read_text())
    for variant in content["variants"].values():
        values = variant["metrics"]["latency_ms.p95 in baseline"]["values"]
        variant["metrics"]["latency_ms.p95 in baseline"]["values"] = [value / 100 for value in values]
    file.write_text(json.dumps(content))
    again = bench.run(name, str(scenario), *options, "--against", str(file))
    assert again.returncode == 1, again.stdout + again.stderr
    newest = (bench.runs / "latest").resolve() if name == "run" else comparison_of_little(bench)[-1]
    failed = [case for suite in JUnitXml.fromfile(str(newest / "junit.xml")) for case in suite if case.result]
    assert [case for case in failed if "latency_ms.p95 in baseline" in f"{case.name} {case.result[0].message}"]


def comparison_of_little(bench: Bench) -> list[Path]:
    return sorted(bench.runs.glob("*-compare-little"))
