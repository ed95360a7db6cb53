"""What a soak keeps of a cycle for the next ones: a night has thousands of processes, and neither the bench nor the report may grow with them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from stallbench.processes.supervisor import Supervisor
from stallbench.studies.soak.disk import measure_bytes
from stallbench.studies.soak.figures import BENCH, read_figures
from tests.unit.made_up_run import START_NS, make_process, make_record, make_run

MEMORY = "private memory of {}, MiB"


def test_a_process_has_the_figure_of_the_one_it_replaced_and_one_that_ended_with_the_cycle_has_none(tmp_path: Path) -> None:
    runs_on = {"end_ns": None, "exit_code": None, "intended": "running"}
    processes = [
        make_process("primary", role="server", pid=1, **runs_on),
        make_process("worker-1", pid=2, exit_code=-9, intended="killed"),
        make_process("worker-1-37", pid=3, **runs_on),
        make_process("producer-1", pid=4, **runs_on),
        make_process("producer-9", pid=5),  # of a burst
        make_process("idle_writer-12", role="longrunner", pid=6),
        make_process("collectors", pid=7),
    ]
    run = make_run(tmp_path, make_record(processes=processes))
    lines = [f"{START_NS},host,process:{each['name']},private_bytes,{each['pid'] * 2**20}" for each in processes]
    (tmp_path / "samples" / "host.csv").write_text("\n".join([*lines, ""]))
    figures = {name: figure for name, figure in read_figures(run).items() if name.startswith("private memory of ")}
    assert set(figures) == {MEMORY.format(name) for name in ("primary", "worker-1", "producer-1", "collectors", BENCH)}
    worker = figures[MEMORY.format("worker-1")]
    assert (worker.value, worker.subject) == (3.0, "3"), "of the process that the next cycle has, too"


def test_the_bench_does_not_look_after_the_ended_processes_of_earlier_cycles(tmp_path: Path) -> None:
    processes = Supervisor("test-of-soak-figures")
    try:
        ended = processes.start("worker-1", "worker", [sys.executable, "-c", ""], log=tmp_path / "log")
        ended.stop(30)
        processes.start("worker-1-2", "worker", [sys.executable, "-c", "input()"], log=tmp_path / "log", document={}, ready=True)
        processes.forget_ended()
        assert [record.name for record in processes.records()] == ["worker-1-2"]
    finally:
        processes.stop_all(0.1)


def test_a_file_that_vanishes_while_the_folder_is_measured_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`stallbench report SOAK` replaces pages beside a running soak: a new page has another name until it is whole."""
    (tmp_path / "cycle").mkdir()
    (tmp_path / "report.html").write_bytes(bytes(10_000))
    (tmp_path / "cycle" / ".report.html.7").touch()
    lstat = Path.lstat

    def lstat_a_moment_later(path: Path) -> os.stat_result:
        if path.name.startswith("."):
            path.unlink()
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", lstat_a_moment_later)
    assert measure_bytes(tmp_path) >= 10_000
