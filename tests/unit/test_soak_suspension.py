"""The end of a soak's cycle: the load is suspended when its workers have finished their jobs, however long a fault has made these."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stallbench.processes.supervisor import Supervisor
from stallbench.records.endpoint import Endpoint
from stallbench.run.folder import RunFolder
from stallbench.run.load import Load
from stallbench.run.recorder import describe_queue
from stallbench.scenario.file import read_scenario
from stallbench.studies.soak.cycle import Cycle

LONG_JOB_S = 120.0


def test_a_cycle_waits_for_the_longest_job_of_its_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited_s: list[float] = []
    worker = SimpleNamespace(require_ready=lambda _: None, signal=lambda _: None, wait_suspended=waited_s.append)
    scenario = read_scenario("baseline")
    endpoint = Endpoint(engine="postgres", host="", port=0, database="", user="")
    processes = Supervisor("none")
    load = Load(scenario, describe_queue(scenario), endpoint, processes=processes, folder=RunFolder(tmp_path))
    monkeypatch.setattr(load, "running", lambda role: [worker] if role == "worker" else [])

    cycle: Any = object.__new__(Cycle)
    records = [SimpleNamespace(longest_job_s=None), SimpleNamespace(longest_job_s=LONG_JOB_S)]
    cycle._injections = SimpleNamespace(end_all=lambda: None, records=lambda: records)
    cycle._load, cycle._processes, cycle.scenario = load, processes, scenario
    cycle.recorder = SimpleNamespace(write=lambda: None)
    monkeypatch.setattr(Cycle, "_check_processes", lambda _: None)
    cycle._suspend_load()
    assert len(waited_s) == 1
    assert waited_s[0] > LONG_JOB_S
