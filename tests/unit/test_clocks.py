"""Clocks of hosts of external processes are compared with the bench's, by way of the primary's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stallbench.processes.record import ClockOffset
from stallbench.verdicts import RunTables
from stallbench.verdicts.clocks import Clocks, measure_ahead
from tests.unit.made_up_run import make_process, make_record, make_run

MS = 1_000_000


def run_with(folder: Path, *, has_written: bool = True, **clocks: Any) -> RunTables:
    """Return a run with one external worker on the host ``far``."""
    far = make_process("worker-far", host="far", external=True, **clocks)
    run = make_run(folder, make_record(processes=[make_process("worker-1"), far]))
    (folder / "events").mkdir()
    (folder / "events" / "worker-far.csv").write_text("what it has done" if has_written else "")
    return run


def clock(offset_ms: float, error_ms: float = 0.2) -> dict[str, int]:
    return {"offset_ns": int(offset_ms * MS), "error_ns": int(error_ms * MS)}


def test_a_clock_to_which_less_has_to_be_added_is_ahead() -> None:
    there, here = ClockOffset(offset_ns=-30, error_ns=2), ClockOffset(offset_ns=100, error_ns=3)
    assert measure_ahead(there, here) == (130, 5)


@pytest.mark.parametrize(
    ("there", "result", "said"),
    [
        (clock(40_000.5), "pass", "the clocks of 1 external processes are within 0.5 ms of the bench's"),
        (clock(39_880), "fail", "worker-far on far: 120.0 ms ahead of the bench's"),
        (clock(40_120), "fail", "worker-far on far: 120.0 ms behind the bench's"),
        (clock(40_120, error_ms=200), "pass", "within 120.0 ms"),
        (None, "unknown", "could not be compared with the primary's: worker-far"),
    ],
)
def test_it_is_the_difference_that_counts_and_not_the_primarys_own_clock(
    there: dict[str, int] | None, result: str, said: str, tmp_path: Path
) -> None:
    (finding,) = Clocks().judge(run_with(tmp_path, clock=there, bench_clock=clock(40_000)))
    assert finding.result == result
    assert said in finding.reason


def test_without_external_processes_the_check_does_not_apply(tmp_path: Path) -> None:
    (finding,) = Clocks().judge(make_run(tmp_path, make_record(processes=[make_process("worker-1")])))
    assert (finding.result, finding.reason) == ("info", "no external process recorded times")


def test_a_process_that_was_killed_before_it_recorded_anything_has_no_times_to_compare(tmp_path: Path) -> None:
    (finding,) = Clocks().judge(run_with(tmp_path, has_written=False))
    assert finding.result == "info"
