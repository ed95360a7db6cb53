"""What the workers can do is measured before the run: what is left of that, and what is said if it cannot be."""

from __future__ import annotations

import time

import pytest

from tests.end_to_end.conftest import Bench, marked_processes, measured, scratch_folders

pytestmark = pytest.mark.end_to_end


def test_a_bench_that_is_killed_while_it_measures_leaves_nothing(bench: Bench) -> None:
    running = bench.start("run", "longtx", *measured())
    until_s = time.monotonic() + 60
    while not any((scratch / "runs").is_dir() for scratch in scratch_folders(running.pid)):
        assert time.monotonic() < until_s
        time.sleep(0.05)
    time.sleep(3)
    assert marked_processes()
    running.kill()
    running.communicate()
    while scratch_folders(running.pid) or any(process.ppid() == 1 for process in marked_processes()):
        assert time.monotonic() < until_s
        time.sleep(0.1)
    assert not bench.runs.exists(), "no run had begun"


def test_workers_that_complete_too_few_jobs_need_a_rate(bench: Bench) -> None:
    ended = bench.run("run", "longtx", *measured("workers.work=3s"))
    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert "too few to say what they can do; give a rate, like --set producers.rate=10" in ended.stderr
    assert "Traceback" not in ended.stderr
