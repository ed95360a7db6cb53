"""The capacity of the workers is measured before the run: what remains if that is broken off, and the message if it fails.

`test_compare.py` shows what is measured.
"""

from __future__ import annotations

import signal

import pytest

from tests.end_to_end.conftest import Bench, assert_nothing_is_left, marked_with_folder, measured, scratch_folders
from tests.waiting import wait_for

pytestmark = pytest.mark.end_to_end


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
    running.communicate(timeout=600)
    assert running.returncode == 130
    assert not scratch_folders(running.pid)
    assert not list(bench.runs.iterdir())


def test_workers_that_complete_too_few_jobs_need_a_rate(bench: Bench) -> None:
    ended = bench.run("run", "longtx", *measured("workers.count=1", "workers.work=3s"))
    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert "what the workers can do could not be measured: " in ended.stderr
    assert "jobs after its first second; expected 5 or more: give a rate, like --set producers.rate=10" in ended.stderr
    assert f"its records: {bench.folder()}" in ended.stderr, "they are kept to be looked at"
    assert not (bench.runs / "latest").exists(), "the latest run is never a capacity measurement"
    assert "Traceback" not in ended.stderr
