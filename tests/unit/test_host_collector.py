"""The collector of the host says what each server uses of the processor."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from stallbench.engines.collectors.document import CollectorsDocument, WatchedQueue, WatchedServer
from stallbench.engines.collectors.host import HostCollector
from stallbench.records.endpoint import Endpoint


def use_processor(seconds: float) -> None:
    until_s = time.process_time() + seconds
    while time.process_time() < until_s:
        pass


def test_the_use_of_a_server_is_the_sum_over_its_processes_and_other_processes_have_none(tmp_path: Path) -> None:
    processes = [
        {"pid": os.getpid(), "name": "primary", "end_ns": None},
        {"pid": os.getppid(), "name": "worker-1", "end_ns": None},
    ]
    (tmp_path / "run.json").write_text(json.dumps({"processes": processes}))
    endpoint = Endpoint(engine="postgres", host="127.0.0.1", port=1, user="u", database="d")
    servers = tuple(WatchedServer(name=name, role="primary", endpoint=endpoint) for name in ("primary", "not-started-here"))
    queue = WatchedQueue(kind="que", tables=(), indexes=())
    collector = HostCollector(
        CollectorsDocument(name="collectors", run_folder=tmp_path, interval_s=1, servers=servers, queue=queue)
    )
    collector.sample()
    use_processor(0.1)
    used = {
        sample.source: sample.value
        for sample in collector.sample()
        if (sample.subject, sample.metric) == ("server", "cpu_percent")
    }
    assert list(used) == ["primary"]
    assert float(used["primary"]) > 0
