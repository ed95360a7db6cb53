"""What the contract modules record while the fault `clock_skew` changes the wall clock of their process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stallbench.injection.job_faults import JobFault, end_job_fault, start_job_fault
from stallbench.injection.worker_clocks import NOTICED_AFTER_S, WorkerClocks
from tests.libraries.probes import PROBES, ProbeCommand
from tests.libraries.test_contract import LANGUAGES, PATIENCE_S, Probe, make_job, started

pytestmark = pytest.mark.libraries

AHEAD = JobFault(on="worker-1", clock_offset_s=3600)


@pytest.fixture(scope="module", params=[language for language in LANGUAGES if language != "go"])
def command(request: pytest.FixtureRequest) -> ProbeCommand:
    return PROBES[request.param]()


@pytest.fixture
def clocks(tmp_path: Path) -> WorkerClocks:
    return WorkerClocks(tmp_path / "clocks", tmp_path / "job_faults")


@pytest.fixture
def probe(command: ProbeCommand, clocks: WorkerClocks, tmp_path: Path) -> Iterator[Probe]:
    environment, about_clock = clocks.prepare("worker-1")
    shifted = replace(command, environment={**command.environment, **environment})
    with started(shifted, tmp_path, **about_clock) as probe:
        assert "ready" in probe.read_message("ready")
        yield probe


def execute_until_met(probe: Probe, name: str) -> int:
    """Execute a job every tenth of a second until the worker reports a job fault; returns how many."""
    for number in range(1, int(PATIENCE_S * 10)):
        assert probe.execute(make_job(number)) == {"ok": True}
        if {"met": name} in probe.messages:
            return number
        time.sleep(0.1)
    raise AssertionError(f"the worker has not met {name} within {PATIENCE_S:.0f} s")


def test_events_have_the_bench_s_time_and_the_worker_reports_that_its_clock_is_off(probe: Probe, clocks: WorkerClocks) -> None:
    before_ns = time.time_ns()
    start_job_fault(probe.job_faults, "skew-1", AHEAD)
    clocks.set("worker-1")
    executed = execute_until_met(probe, "skew-1")
    times_ns = [event.t_ns for event in probe.events()]
    assert before_ns - 10**6 <= min(times_ns) <= max(times_ns) <= time.time_ns() + 10**6
    assert len(times_ns) == 3 * executed


def test_a_worker_whose_clock_is_right_does_not_report_the_fault(probe: Probe, clocks: WorkerClocks) -> None:
    start_job_fault(probe.job_faults, "skew-1", AHEAD)
    clocks.set("worker-1")
    execute_until_met(probe, "skew-1")
    end_job_fault(probe.job_faults, "skew-1")
    clocks.set("worker-1")
    time.sleep(2 * NOTICED_AFTER_S)
    start_job_fault(probe.job_faults, "skew-2", AHEAD)  # but its clock is not set
    assert probe.execute(make_job(10_000)) == {"ok": True}
    assert {"met": "skew-2"} not in probe.messages


def test_a_worker_that_is_killed_leaves_no_shared_memory_behind(probe: Probe) -> None:
    assert probe.execute(make_job(1)) == {"ok": True}
    probe.process.kill()
    probe.process.wait()
    assert not [path.name for path in Path("/dev/shm").glob(f"*faketime*_{probe.process.pid}")]
