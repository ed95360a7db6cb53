"""`stallbench limit`: workers that can do 20 jobs/s are found to do so, and that it is they who are exhausted."""

from __future__ import annotations

import json

import pytest

from tests.end_to_end.conftest import Bench

pytestmark = pytest.mark.end_to_end


def test_the_limit_of_workers_is_found_and_they_are_named(bench: Bench) -> None:
    changes = ("queue.kind=skip_locked", "workers.count=2", "workers.work=100ms")
    ended = bench.run(
        *("limit", "longtx", "--horizon", "free", "--slo", "latency_ms.p95 < 30s"),
        *("--start", "32", "--probe", "5s", "--precision", "1", "--no-confirm", "--within", "30m"),
        *(part for change in changes for part in ("--set", change)),
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (folder,) = bench.runs.glob("*-limit-longtx")
    (limit,) = json.loads((folder / "limit.json").read_text())["limits"]
    low, high = limit["interval"]["low"], limit["interval"]["high"]
    beyond, *others = limit["probes"]
    assert (beyond["rate"], beyond["is_sustained"]) == (32, False), "two workers of 100 ms do 20 jobs/s at most"
    assert "saturated after" in beyond["reason"], "the bound alone would accept that jobs pile up"
    assert {use["resource"] for use in beyond["uses"] if use["share"] >= use["threshold"]} & {"workers", "CPU"}
    assert low < high <= 32 and low <= others[0]["rate"] == 16
    assert f"between {low:g} and {high:g} jobs/s (latency_ms.p95 < 30s)" in ended.stdout
    assert f"First exhausted: {limit['first_exhausted']} (" in ended.stdout
    assert all((folder / probe["run"] / "tables").is_dir() for probe in limit["probes"])
