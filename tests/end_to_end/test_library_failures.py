"""Runs of adapters that fail: each ends with one message, keeps its records, and leaves no process behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from stallbench.pipeline.tables import read_table
from stallbench.processes.reaper import TOKEN_VARIABLE
from stallbench.records.events import Event
from stallbench.records.reading import read_events
from tests.end_to_end.conftest import Bench, assert_nothing_is_left, marked_processes, measured, short
from tests.libraries.made_up import LEAVE_A_CHILD, find_processes, make_application
from tests.waiting import wait_for

pytestmark = [pytest.mark.end_to_end, pytest.mark.libraries]

LOAD = ("producers.rate=20", "workers.count=2", "phases.longtx.longrunners=[]")
UNKNOWN_NUMBER = """
    write = Recorder.write
    Recorder.write = lambda self, event, job="", *rest, **more: write(self, event, job + 2**29 * (job % 50 == 7) if job else job, *rest, **more)
"""
GARBAGE = """
    sys.stdout.buffer.write(b'no licence\\n{"ready":\\n[1]\\n"ready"\\n\\xff\\xfe\\n')
    sys.stdout.flush()
"""
HANG = """
    import time
    run_worker = shop.run_worker
    shop.run_worker = lambda: (run_worker(), time.sleep(1000))
"""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"work": f"{LEAVE_A_CHILD}\nprint('no licence')\nsys.exit(3)"},
            "worker-1 ended with exit code 3 before it was ready; it printed last:\n  no licence",
        ),
        ({"produce": "sys.exit(3)"}, "the producer of Shop has ended with exit code 3"),
    ],
    ids=["worker", "producer"],
)
def test_a_process_that_exits_immediately(bench: Bench, tmp_path: Path, changes: dict[str, str], message: str) -> None:
    shop = make_application(tmp_path, **changes)
    ended = bench.run("run", "longtx", *short(*LOAD, f"queue.kind=library:{shop}"))
    assert ended.returncode == 3
    assert ended.stderr.count(message) == 1
    assert "Traceback" not in ended.stderr
    assert bench.record()["status"] == "failed"
    assert_nothing_is_left(bench, bench.record()["bench"]["pid"])
    assert not find_processes(shop)


def test_workers_that_print_garbage_hang_at_their_end_leave_children_and_record_a_job_that_nobody_enqueued(
    bench: Bench, tmp_path: Path
) -> None:
    shop = make_application(tmp_path, work=f"{GARBAGE}\n{LEAVE_A_CHILD}\n{UNKNOWN_NUMBER}\n{HANG}")
    ended = bench.run("run", "longtx", *short(*LOAD, f"queue.kind=library:{shop}"))
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "worker-1 did not end within 15 s when it was asked to stop; it was ended by SIGKILL" in ended.stdout
    assert "in the queue although no producer enqueued them" in ended.stdout
    assert (bench.folder() / "logs" / "worker-1.log").read_bytes().startswith(b'no licence\n{"ready":\n[1]\n"ready"\n\xff\xfe\n')
    ends = {process["name"]: (process["intended"], process["exit_code"]) for process in bench.record()["processes"]}
    assert ends["worker-1"] == ends["worker-2"] == ("killed", -9)
    conservation = read_table(bench.folder(), "conservation").set_index("state")["jobs"]
    assert conservation["unexpected"] >= 1
    assert conservation["completed"] >= 100
    assert_nothing_is_left(bench, bench.record()["bench"]["pid"])
    assert not find_processes(shop)


def test_an_application_whose_workers_all_exit_did_not_survive(bench: Bench, tmp_path: Path) -> None:
    """The run ends then, with its tables, and says what became of the jobs."""
    shop = make_application(tmp_path)
    changes = ("judge=survives", "producers.rate=100", "phases.longtx.duration=60s")
    running = bench.start("run", "longtx", *short(*changes, f"queue.kind=library:{shop}"))
    record = bench.wait_for_phase("longtx")
    for process in record["processes"]:
        if process["role"] == "worker":
            os.kill(process["pid"], signal.SIGKILL)
    printed, told = running.communicate(timeout=600)
    assert running.returncode == 1, printed + told
    assert "the run ends early: every worker has exited: worker-1, worker-2" in printed
    assert "no worker was left, so it needs help." in printed
    assert "worker-1, worker-2 exited unexpectedly, and " in printed
    assert "Did not survive: " in printed
    assert bench.record()["status"] == "completed"
    assert_nothing_is_left(bench, record["bench"]["pid"])


def test_a_worker_that_ends_with_an_error_when_it_is_asked_to_stop_has_a_capacity_all_the_same(
    bench: Bench, tmp_path: Path
) -> None:
    """As that of django-tasks-db does if it is asked while it commits."""
    is_first = f"os.system('mkdir {tmp_path}/first 2>&-') or atexit.register(lambda: os._exit(1))"
    shop = make_application(tmp_path, work=f"import atexit\n{is_first}")
    load = ("producers.capacity_share=0.3", "workers.count=2", "phases.longtx.longrunners=[]")
    ended = bench.run("run", "longtx", *measured(*load, f"queue.kind=library:{shop}"))
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    assert (tmp_path / "first").is_dir()
    assert "they complete " in ended.stdout


@pytest.mark.parametrize("name", ["db_scheduler", "delayed_job", "graphile_worker", "laravel", "procrastinate", "river"])
@pytest.mark.parametrize("killed", ["the bench", "its workers"])
def test_what_the_processes_of_a_library_have_started_ends_with_them(bench: Bench, name: str, killed: str) -> None:
    """One library of each language: a Java virtual machine, Node.js, and PHP, whose adapter starts another process, are children of the bench."""
    running = bench.start("run", "longtx", *short(*LOAD, f"queue.kind=library:{name}", "phases.longtx.duration=60s"))
    record = bench.wait_for_phase("longtx")
    workers = [process["pid"] for process in record["processes"] if process["role"] == "worker"]
    token = psutil.Process(workers[0]).environ()[TOKEN_VARIABLE]
    assert set(workers) <= {process.pid for process in find_marked(token)}
    for pid in [record["bench"]["pid"]] if killed == "the bench" else workers:
        os.kill(pid, signal.SIGKILL)
    running.communicate(timeout=600)
    assert running.returncode == (-signal.SIGKILL if killed == "the bench" else 3)
    wait_for(lambda: not find_marked(token), lambda: f"the end of {find_marked(token)}", 60)
    assert_nothing_is_left(bench, record["bench"]["pid"])


def test_what_a_library_has_started_to_create_its_tables_ends_with_the_bench(bench: Bench, tmp_path: Path) -> None:
    shop = make_application(tmp_path, install=f"{LEAVE_A_CHILD}\nimport time\ntime.sleep(1000)")
    running = bench.start("run", "longtx", *short(*LOAD, f"queue.kind=library:{shop}"))
    wait_for(lambda: len(find_processes(shop)) == 2, "the adapter and its child", 60)
    running.kill()
    running.communicate(timeout=600)
    wait_for(lambda: not find_processes(shop), lambda: f"the end of {find_processes(shop)}", 30)
    assert_nothing_is_left(bench, running.pid)


def find_marked(token: str) -> list[psutil.Process]:
    """Return the processes of a run, and what they have started, by a variable that all of them inherit."""
    return [process for process in marked_processes() if (process.info["environ"] or {}).get(TOKEN_VARIABLE) == token]


def test_a_final_snapshot_that_fails(bench: Bench, tmp_path: Path) -> None:
    shop = make_application(tmp_path, snapshot="SELECT 1 / (1 - (last_value > 1)::int), false FROM mails_id_seq")
    ended = bench.run("run", "longtx", *short(*LOAD, f"queue.kind=library:{shop}"))
    assert ended.returncode == 3
    assert "the final snapshot of the queue failed: division by zero" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert_nothing_is_left(bench, bench.record()["bench"]["pid"])
    events = [event for name in ("worker-1", "worker-2") for event in read_events(bench.folder() / "events" / f"{name}.csv")]
    completed = sum(event.event is Event.COMPLETED for event in events)
    assert completed >= 100
    reported = bench.run("report", "latest")
    assert reported.returncode == 3, reported.stdout + reported.stderr
    assert f"{completed} completed" in reported.stdout
    assert "Not completed: the run was failed: the final snapshot of the queue failed: division by zero" in reported.stdout
