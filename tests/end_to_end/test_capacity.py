"""The capacity of the workers is measured before the run: what remains of the measurement, and the message if it fails."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Bench, assert_nothing_is_left, marked_with_folder, measured, scratch_folders
from tests.waiting import wait_for

pytestmark = pytest.mark.end_to_end
ATTEMPTS = 3


@pytest.mark.long
def test_a_bench_that_is_killed_while_it_measures_leaves_nothing_but_its_records(bench: Bench) -> None:
    running = bench.start("run", "longtx", *measured())
    bench.wait_for_phase("full")
    assert marked_with_folder(bench.folder())
    running.kill()
    running.communicate()
    assert_nothing_is_left(bench, running.pid)
    wait_for(lambda: bench.record()["status"] != "running", "the end of the run in its record")
    assert (bench.record()["status"], bench.folder().name.endswith("-longtx-measuring")) == ("aborted", True)


@pytest.mark.long
def test_an_interrupt_while_it_is_measured_leaves_no_folder_and_no_run_to_be_taken_for_the_latest(bench: Bench) -> None:
    running = bench.start("run", "longtx", *measured())
    bench.wait_for_phase("full")
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=120)
    assert running.returncode == 130
    assert not scratch_folders(running.pid)
    assert not list(bench.runs.iterdir())


def test_workers_that_complete_too_few_jobs_need_a_rate(bench: Bench) -> None:
    ended = bench.run("run", "longtx", *measured("workers.work=3s"))
    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert "what the workers can do could not be measured: " in ended.stderr
    assert "jobs after its first second; expected 5 or more: give a rate, like --set producers.rate=10" in ended.stderr
    assert f"its records: {bench.folder()}" in ended.stderr, "they are kept to be looked at"
    assert not (bench.runs / "latest").exists(), "the latest run is never a capacity measurement"
    assert "Traceback" not in ended.stderr


def test_what_is_measured_is_what_the_workers_can_do_and_nothing_is_left_of_it(
    tmp_path: Path, pipeline_service: Path | None
) -> None:
    """Three workers of 50 ms a job can do 60 jobs a second at the very most, and no machine is so slow that they cannot do 40.

    One that stands still while it is measured can do less; but not each time.
    """
    for attempt in range(1, ATTEMPTS + 1):
        bench = Bench(tmp_path / f"runs-{attempt}", pipeline_service)
        ended = bench.run("run", "longtx", *measured("workers.count=3", "workers.work=50ms", "producers.capacity_share=0.5"))
        assert ended.returncode == 0, ended.stdout + ended.stderr
        rate = bench.record()["scenario"]["producers"]["rate"]
        assert rate <= 30
        if rate >= 20:
            break
    else:
        pytest.fail(f"the workers were measured too slow {ATTEMPTS} times, last for {rate:g} jobs/s")
    assert f"the load is 50% of that: producers.rate={rate:g}" in ended.stdout
    assert f"--set producers.rate={rate:g}" in (bench.folder() / "report.html").read_text()
    assert [json.loads(record.read_text())["status"] for record in bench.runs.glob("*-longtx*/run.json")] == ["completed"]
    assert (bench.runs / "latest").readlink().name == bench.folder().name
