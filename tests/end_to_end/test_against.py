"""A run that is compared with a baseline made of itself passes; with one that was quicker, it fails."""

from __future__ import annotations

import json
import shutil

import pytest

from stallbench import PROJECT
from tests.end_to_end.conftest import Bench

pytestmark = pytest.mark.end_to_end

METRIC = "latency_ms.p95 in longtx"


def test_a_run_is_compared_with_a_baseline(bench: Bench) -> None:
    run = bench.runs / "20300101T000000Z-longtx"
    shutil.copytree(PROJECT / "reports" / "sample", run)
    file = bench.runs / "baseline.json"
    written = bench.run("baseline", run.name, "--output", str(file))
    assert written.returncode == 0, written.stderr
    assert written.stdout == f"{file}: 1 run of control\n"

    alike = bench.run("report", run.name, "--against", str(file))
    assert alike.returncode == 0, alike.stdout + alike.stderr
    verdict = json.loads((run / "verdict.json").read_text())
    results = {finding["subject"]: finding["result"] for finding in verdict["findings"] if finding["check"] == "regression"}
    assert results[f"{METRIC} against the baseline"] == "pass"
    assert set(results.values()) == {"pass"}

    content = json.loads(file.read_text())
    values = content["variants"]["control"]["metrics"][METRIC]["values"]
    content["variants"]["control"]["metrics"][METRIC]["values"] = [value / 2 for value in values]
    file.write_text(json.dumps(content))
    slower = bench.run("report", run.name, "--against", str(file))
    assert slower.returncode == 1, slower.stdout + slower.stderr
    assert f"{METRIC} is" in slower.stdout
    assert "worse by 100.0%" in slower.stdout
    assert "worse by 100.0%" in (run / "report.html").read_text()
    assert "<failure" in (run / "junit.xml").read_text()

    file.write_text("{")
    damaged = bench.run("report", run.name, "--against", str(file))
    assert damaged.returncode == 2
    assert f"{file}: not a baseline" in damaged.stderr
    assert json.loads((run / "verdict.json").read_text())["verdict"] == "fail", "what was judged before is left as it was"
