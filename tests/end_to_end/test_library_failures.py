"""Runs of adapters that fail: each ends with one message, keeps its records, and leaves no process behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.pipeline.tables import read_table
from stallbench.records.events import Event, read_events
from tests.end_to_end.conftest import Bench, assert_nothing_is_left, short
from tests.libraries.made_up import LEAVE_A_CHILD, find_processes, make_application

pytestmark = [pytest.mark.end_to_end, pytest.mark.libraries]

LOAD = ("producers.rate=20", "workers.count=2", "phases.longtx.longrunners=[]")
UNKNOWN_NUMBER = """
    write = Recorder.write
    Recorder.write = lambda self, event, job="", *rest, **more: write(self, event, job + 2**29 * (job % 50 == 7) if job else job, *rest, **more)
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


def test_workers_that_hang_at_their_end_leave_children_and_record_a_job_that_nobody_enqueued(
    bench: Bench, tmp_path: Path
) -> None:
    shop = make_application(tmp_path, work=f"{LEAVE_A_CHILD}\n{UNKNOWN_NUMBER}\n{HANG}")
    ended = bench.run("run", "longtx", *short(*LOAD, f"queue.kind=library:{shop}"))
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "worker-1 did not end within 15 s when it was asked to stop; it was ended by SIGKILL" in ended.stdout
    assert "in the queue although no producer enqueued them" in ended.stdout
    ends = {process["name"]: (process["intended"], process["exit_code"]) for process in bench.record()["processes"]}
    assert ends["worker-1"] == ends["worker-2"] == ("killed", -9)
    conservation = read_table(bench.folder(), "conservation").set_index("state")["jobs"]
    assert conservation["unexpected"] >= 1
    assert conservation["completed"] >= 100
    assert_nothing_is_left(bench, bench.record()["bench"]["pid"])
    assert not find_processes(shop)


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
    assert "UNKNOWN  the run was failed: the final snapshot of the queue failed: division by zero" in reported.stdout
