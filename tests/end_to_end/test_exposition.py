"""While a run goes on every process answers Prometheus, and its folder says where; an interrupt ends it, and its records are kept."""

from __future__ import annotations

import json
import signal
import socket
from typing import Any

import pytest
import requests
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from stallbench.run.observers.grafana import TOKEN_VARIABLE
from tests.end_to_end.conftest import Bench, assert_nothing_is_left, short
from tests.grafana_stand_in import TOKEN, grafana_stand_in
from tests.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.end_to_end


def targets(bench: Bench) -> dict[str, dict[str, Any]]:
    """Return the run's targets by the names of their processes."""
    content = json.loads((bench.runs / "targets" / f"{bench.folder().name}.json").read_text())
    return {target["labels"]["process"]: target for target in content}


def scrape(target: dict[str, Any]) -> dict[str, Metric]:
    answer = requests.get(f"http://{target['targets'][0]}/metrics", timeout=PATIENCE_S)
    answer.raise_for_status()
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


def value(families: dict[str, Metric], name: str, /, **labels: str) -> float:
    """Return the one sample of a name that has these labels."""
    (sample,) = [
        sample
        for family in families.values()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return float(sample.value)


def test_every_process_answers_prometheus_phases_reach_grafana_and_an_interrupted_run_is_kept(bench: Bench) -> None:
    with grafana_stand_in() as grafana, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = bench.start(
            *("run", "longtx", *short("phases.longtx.duration=600s"), "--expose", "127.0.0.1"),
            *("--watch-port", str(port), "--annotate", grafana.url),
            environment={TOKEN_VARIABLE: TOKEN},
        )
        try:
            bench.wait_for_phase("longtx")
            ask_every_process(bench)
        finally:
            run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=600)
    assert run.returncode == 130, out + err
    assert "interrupted; the records are kept: stallbench report" in err
    assert "Traceback" not in err
    assert not list((bench.runs / "targets").iterdir())
    assert f"--watch: the run continues without Prometheus: port {port} on 127.0.0.1 is in use; choose another" in out
    intervals = {one["text"]: one for one in grafana.annotations.values()}
    record = bench.record()
    assert record["status"] == "aborted"
    assert_nothing_is_left(bench, record["bench"]["pid"])
    assert set(intervals) == {
        "phase warmup (not measured)",
        "phase baseline",
        "phase longtx",
        "idle_writer-1 on primary",
    }
    phase = next(one for one in record["phases"] if one["name"] == "baseline")
    assert [intervals["phase baseline"][key] for key in ("time", "timeEnd")] == [
        phase[key] // 1_000_000 for key in ("start_ns", "end_ns")
    ]
    assert all(bench.folder().name in one["tags"] for one in intervals.values())
    for file in bench.folder().rglob("*"):
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes(), file


def ask_every_process(bench: Bench) -> None:
    """Be what Prometheus would be."""

    def find_targets() -> dict[str, Any] | None:
        found = targets(bench)
        return found if "idle_writer-1" in found and found["collectors"]["labels"]["phase"] == "longtx" else None

    found = wait_for(find_targets, lambda: f"the longrunner among {sorted(targets(bench))}", 120)
    assert {"bench", "bystander", "collectors", "producer-1", "worker-1", "worker-2", "idle_writer-1"} == set(found)
    assert found["worker-1"]["labels"] == {
        "scenario": "longtx",
        "variant": "control",
        "queue": "que",
        "engine": "postgres",
        "run": bench.folder().name,
        "phase": "longtx",
        "process": "worker-1",
    }

    # One figure is read after the other: a claim between the two is in one of them only.
    def find_consistent_figures() -> Any:
        worker = scrape(found["worker-1"])
        are_same = value(worker, "stallbench_claim_seconds_count") == value(worker, "stallbench_jobs_claimed_total")
        return worker if are_same else None

    worker = wait_for(find_consistent_figures, "the same number of claims that are counted and that are timed", 120, every_s=0)
    assert value(worker, "stallbench_jobs_completed_total") > 0
    assert value(scrape(found["producer-1"]), "stallbench_jobs_enqueued_total") > 0
    collectors = scrape(found["collectors"])
    assert value(collectors, "stallbench_queue_depth", server="primary") >= 0
    assert value(collectors, "stallbench_dead_tuples", server="primary", table="que_jobs") >= 0
    assert value(collectors, "stallbench_deadlocks_total", server="primary") == 0
    assert value(collectors, "stallbench_oldest_transaction_seconds", server="primary") >= 0
    holding = scrape(found["idle_writer-1"])
    assert value(holding, "stallbench_longrunner_holding", kind="idle_writer", server="primary") == 1
    of_the_run = scrape(found["bench"])
    assert value(of_the_run, "stallbench_phase", name="longtx") == 1
    assert value(of_the_run, "stallbench_injection_active", name="idle_writer-1", kind="idle_writer", on="primary") == 1
    for families in (worker, collectors, holding, of_the_run):
        assert all(family.startswith("stallbench_") for family in families)
        assert all(family.documentation for family in families.values())
