"""kill -9, at random moments: nothing that was done is lost from the records, and nothing is left running."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path

import psutil
import pytest

from stallbench.pipeline.tables import read_table
from stallbench.processes.reaper import OWNER_FILE, SCRATCH_PREFIX
from tests.end_to_end.conftest import (
    BUSY,
    Bench,
    RunHere,
    assert_every_job_is_accounted_for,
    assert_nothing_is_left,
    kill_at_random_moments,
    short,
)
from tests.waiting import wait_for

pytestmark = pytest.mark.end_to_end


@pytest.mark.long  # test_external_processes kills them, too, by seed 0
@pytest.mark.parametrize("seed", range(1, 10))
def test_killed_processes_are_named_and_every_job_is_accounted_for(bench: Bench, seed: int) -> None:
    running = bench.start("run", "longtx", *short(BUSY, "producers.count=2", "workers.work=5ms"))
    record = bench.wait_for_phase("baseline")
    victims = kill_at_random_moments(record, ("worker", "producer"), seed)
    out, err = running.communicate(timeout=600)
    assert running.returncode == 1, out + err
    assert bench.record()["status"] == "completed"

    (found,) = [finding for finding in bench.verdict()["findings"] if finding["check"] == "processes"]
    assert all(f"{victim} (SIGKILL)" in found["reason"] for victim in victims)
    assert_every_job_is_accounted_for(bench)
    assert_nothing_is_left(bench, record["bench"]["pid"])


def test_a_killed_bench_leaves_nothing_but_records_that_can_be_reported(
    bench: Bench, run_here: RunHere, use_pipeline_service: None
) -> None:
    """Its record has the fault and what replaced its victims: without them, an error during the fault would have no explanation, and a
    repeated execution after a kill no reason. A worker that a fault had paused is gone, too.
    """
    faults = 'phases.longtx.faults=[{kind="kill",on="worker-1",every="1s",replace_after="100ms"},{kind="pause",on="worker-2"}]'
    running = bench.start("run", "longtx", *short(faults, "phases.longtx.longrunners=[]", "phases.longtx.duration=1h"))
    record = bench.wait_for_phase("longtx")
    (paused,) = [psutil.Process(process["pid"]) for process in record["processes"] if process["name"] == "worker-2"]

    def find_replacements() -> list[Path]:
        return list(bench.folder().glob("events/worker-1-*.csv"))

    replacements = wait_for(find_replacements, "a job of a replacement")
    wait_for(lambda: paused.status() == psutil.STATUS_STOPPED, "the pause")

    def find_recorded() -> bool:
        record = bench.record()
        is_verified = all(injection["verified_ns"] for injection in record["injections"])
        return is_verified and {path.stem for path in replacements} <= {process["name"] for process in record["processes"]}

    wait_for(find_recorded, "the faults and the replacement in the record, while the run goes on,")
    time.sleep(random.Random(0).uniform(0, 3))
    running.kill()
    running.communicate()
    assert running.returncode == -signal.SIGKILL
    assert_nothing_is_left(bench, record["bench"]["pid"])
    assert not paused.is_running() or paused.status() == psutil.STATUS_ZOMBIE
    kill, _ = bench.record()["injections"]
    assert kill["verified_ns"] is not None
    assert kill["evidence"]["killed"]
    assert {path.stem for path in replacements} <= {process["name"] for process in bench.record()["processes"]}
    assert_can_be_reported(bench, run_here)


def assert_can_be_reported(bench: Bench, run_here: RunHere) -> None:
    """The newest run, of a killed bench, has a report, and records of which no line is lost."""
    assert bench.record()["status"] == "aborted"
    ended = run_here("report", str(bench.folder()))
    assert ended.returncode == 130, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    assert bench.verdict()["verdict"] in ("unknown", "fail")
    assert (bench.folder() / "report.html").exists()
    torn = read_table(bench.folder(), "torn")
    assert torn["lines"].sum() > 0
    assert torn["torn_lines"].sum() == 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_a_bench_that_is_killed_at_a_random_moment_leaves_nothing_but_its_records(
    bench: Bench, run_here: RunHere, use_pipeline_service: None, seed: int
) -> None:
    running = bench.start("run", "longtx", *short(BUSY, "phases.recovered.duration=1h"))
    record = bench.wait_for_phase("baseline")
    time.sleep(random.Random(seed).uniform(0, 6))
    running.kill()
    running.communicate()
    assert_nothing_is_left(bench, record["bench"]["pid"])
    assert_can_be_reported(bench, run_here)


def test_what_a_bench_and_its_reaper_leave_when_both_are_killed_is_removed_by_clean(bench: Bench, own_tmp: Path) -> None:
    running = bench.start(
        "run", "longtx", *short("workers.count=1", "phases.baseline.duration=1h"), environment={"TMPDIR": str(own_tmp)}
    )
    record = bench.wait_for_phase("warmup")
    (reaper,) = [
        process for process in psutil.Process(running.pid).children() if "stallbench.processes.reaper" in process.cmdline()
    ]
    (owner,) = own_tmp.glob(f"{SCRATCH_PREFIX}*/{OWNER_FILE}")
    token = json.loads(owner.read_text())["token"]
    arguments = [argument for process in psutil.process_iter(["cmdline"]) for argument in process.info["cmdline"] or ()]
    assert not any(token in argument for argument in arguments), (
        "every user of the machine can read the arguments of all processes"
    )
    reaper.kill()
    running.kill()
    running.communicate()
    assert bench.record()["status"] == "running"
    (scratch,) = own_tmp.glob(f"{SCRATCH_PREFIX}*")

    cleaning = bench.start("clean", environment={"TMPDIR": str(own_tmp)})
    out, err = cleaning.communicate(timeout=600)
    assert cleaning.returncode == 0, out + err
    assert f"removed {scratch} and " in out
    assert f"{bench.folder().name}: marked as aborted" in out
    assert not scratch.exists()
    assert (bench.record()["status"], bench.record()["reason"]) == ("aborted", "the bench was killed")
    assert_nothing_is_left(bench, record["bench"]["pid"])
    again = bench.start("clean", environment={"TMPDIR": str(own_tmp)})
    assert again.communicate(timeout=600)[0] == "nothing was left behind\n"


@pytest.mark.long
def test_a_bench_that_is_terminated_during_a_pause_leaves_no_paused_worker(bench: Bench) -> None:
    pause = 'phases.longtx.faults=[{kind="pause", on="workers"}]'
    running = bench.start("run", "longtx", *short(pause, "phases.longtx.longrunners=[]", "phases.longtx.duration=1h"))
    record = bench.wait_for_phase("longtx")
    workers = [psutil.Process(process["pid"]) for process in record["processes"] if process["role"] == "worker"]
    wait_for(lambda: {worker.status() for worker in workers} == {psutil.STATUS_STOPPED}, "the beginning of the pause")
    running.terminate()
    running.communicate(timeout=600)
    assert running.returncode == 130
    assert_nothing_is_left(bench, record["bench"]["pid"])
    assert not any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers)


@pytest.mark.long  # test_exposition interrupts a run that others look at
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_taken_down_and_kept(bench: Bench, signum: signal.Signals) -> None:
    running = bench.start("run", "longtx", *short("phases.baseline.duration=1h"))
    record = bench.wait_for_phase("baseline")
    running.send_signal(signum)
    _, err = running.communicate(timeout=600)
    assert running.returncode == 130
    assert "interrupted; the records are kept: stallbench report" in err
    assert "Traceback" not in err
    assert bench.record()["status"] == "aborted"
    assert_nothing_is_left(bench, record["bench"]["pid"])


def test_a_server_that_dies_ends_the_run_as_not_carried_out(bench: Bench) -> None:
    running = bench.start("run", "longtx", *short("phases.baseline.duration=1h"))
    record = bench.wait_for_phase("baseline")
    primary = next(process for process in record["processes"] if process["role"] == "server")
    os.kill(primary["pid"], signal.SIGKILL)
    _, err = running.communicate(timeout=600)
    assert running.returncode == 3
    assert "server primary was ended by SIGKILL" in err
    assert "Traceback" not in err
    assert bench.record()["status"] == "failed"
    assert_nothing_is_left(bench, record["bench"]["pid"])
