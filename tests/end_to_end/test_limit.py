"""`stallbench limit`: workers that can do 20 jobs/s are found to do so, and that it is they who are exhausted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import Bench

pytestmark = pytest.mark.end_to_end


def read_limit(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what the only search in a folder found, and its probes."""
    record = json.loads((folder / "study.json").read_text())
    (limit,) = record["limits"]
    return limit, [run["probe"] for run in record["runs"]]


def limit_with(horizon: str) -> tuple[str, ...]:
    """Return the search for the limit of two workers whose jobs take 100 ms."""
    changes = ("queue.kind=skip_locked", "workers.count=2", "workers.work=100ms")
    return (
        *("limit", "longtx", "--horizon", horizon, "--slo", "latency_ms.p95 < 30s"),
        *("--probe", "5s", "--precision", "1", "--no-confirm", "--within", "30m"),
        *(part for change in changes for part in ("--set", change)),
    )


def test_the_limit_of_workers_is_found_and_they_are_named(bench: Bench) -> None:
    ended = bench.run(*limit_with("free"), "--start", "32")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (folder,) = bench.runs.glob("*-limit-longtx")
    limit, probes = read_limit(folder)
    low, high = limit["interval"]["low"], limit["interval"]["high"]
    beyond, *others = probes
    assert (beyond["rate"], beyond["is_sustained"]) == (32, False), "two workers of 100 ms do 20 jobs/s at most"
    assert "saturated after" in beyond["reason"], "the bound alone would accept that jobs pile up"
    assert {use["resource"] for use in beyond["uses"] if use["share"] >= use["threshold"]} & {"workers", "CPU"}
    assert low < high <= 32 and low <= others[0]["rate"] == 16
    assert f"between {low:g} and {high:g} jobs/s (latency_ms.p95 < 30s)" in ended.stdout
    assert f"First exhausted: {limit['first_exhausted']} (" in ended.stdout
    assert all((folder / probe["run"] / "tables").is_dir() for probe in probes)


@pytest.mark.long
def test_workers_fail_against_a_baseline_of_workers_that_did_four_times_as_much(bench: Bench) -> None:
    asked = limit_with("free")
    assert bench.run(*asked, "--start", "32").returncode == 0
    (folder,) = bench.runs.glob("*-limit-longtx")
    file = bench.runs.parent / "limit-baseline.json"
    written = bench.run("baseline", str(folder), "--output", str(file))
    assert written.returncode == 0, written.stderr
    assert written.stdout == f"{file}: 1 run of control, horizon free\n"
    metric = (content := json.loads(file.read_text()))["variants"]["control, horizon free"]["metrics"]["sustained_rate"]
    metric["values"] = [4 * value for value in metric["values"]]
    file.write_text(json.dumps(content))
    slower = bench.run(*asked, "--against", str(file))
    assert slower.returncode == 1, slower.stdout + slower.stderr
    assert "Worse than the baseline." in slower.stdout
    (against,) = [path for path in bench.runs.glob("*-limit-longtx") if path != folder]
    assert "<failure" in (against / "junit.xml").read_text()

    refused = bench.run(*asked, "--against", str(file), "--set", "workers.count=3")
    assert refused.returncode == 2
    assert "workers.count is 3, in the baseline 2" in refused.stderr
    assert len(list(bench.runs.glob("*-limit-longtx"))) == 2


@pytest.mark.long
def test_a_held_horizon_is_held_in_every_probe(bench: Bench) -> None:
    ended = bench.run(*limit_with("held"), "--start", "32")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "With the horizon held for 5 s the limit is between " in ended.stdout
    (folder,) = bench.runs.glob("*-limit-longtx")
    limit, probes = read_limit(folder)
    assert limit["horizon"] == "held"
    assert probes[0]["rate"] == 32
    for probe in probes:
        record = json.loads((folder / probe["run"] / "run.json").read_text())
        (holder,) = record["injections"]
        (phase,) = [phase for phase in record["phases"] if phase["name"] == holder["phase"]]
        assert (holder["kind"], holder["phase"], holder["active_to_end"]) == ("idle_writer", "probe", True)
        assert holder["evidence"]["holds_primary"]
        assert holder["verified_ns"] < phase["end_ns"] <= holder["end_ns"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("setting", "at_most"),
    [
        pytest.param("queue.kind=library:graphile_worker", 20, marks=pytest.mark.libraries),
        ("database.version=18", 20),
        ("workers.count=4", 40),
    ],
)
def test_the_limit_is_that_of_a_library_a_version_or_a_setting(bench: Bench, setting: str, at_most: float) -> None:
    ended = bench.run(*limit_with("free"), "--set", setting, "--start", "64")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (folder,) = bench.runs.glob("*-limit-longtx")
    limit, probes = read_limit(folder)
    assert limit["interval"]["low"] <= at_most * 1.3, "a worker executes one job at a time"
    assert limit["interval"]["high"] >= at_most / 8, "and not much less than it could, on a busy machine too"
    record = json.loads((folder / probes[0]["run"] / "run.json").read_text())
    assert setting in record["scenario"]["changes"]
