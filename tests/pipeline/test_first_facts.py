"""What is printed of a run before its tables are made is what the tables have."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from stallbench.pipeline.tables import TABLES
from stallbench.records.sealing import remove_event_logs
from stallbench.run.first_facts import FirstFacts, read_first_facts
from tests.pipeline.conftest import MakeTables, Tables
from tests.synthetic_run import SyntheticRun

SAMPLE_RUN = Path(__file__).resolve().parents[1] / "small_run"


def troubled_run(folder: Path) -> Path:
    """A killed bench; jobs that are completed twice, too late, before a phase, at its edge, without a recorded enqueue, or not at all."""
    run = SyntheticRun(folder, phases={"warmup": 2.0, "baseline": 10.0, "longtx": 10.0, "recovered": 5.0}, warm_up=["warmup"])
    for job in range(1, 200):
        run.enqueue(job, at_s=job / 10, intended_s=job / 10 - job % 7 / 1000)
        run.execute(job, at_s=job / 10 + (job * 37 % 101) / 20)
    run.complete(5, at_s=14, by="worker-2").complete(7, at_s=0.3, by="worker-2")
    run.execute(900, at_s=12.5).enqueue(901, at_s=3).enqueue(902, at_s=4)
    run.enqueue(903, at_s=11.0).complete(903, at_s=12.0)
    run.garble("events/worker-1.csv", b"1800000000,torn")
    run.record["phases"][2]["end_ns"] = run.record["phases"][3]["start_ns"] = run.record["phases"][3]["end_ns"] = None
    return run.write(final_snapshot={901: "queued", 902: "claimed"})


def sample_run(folder: Path) -> Path:
    """A recorded run."""
    return Path(shutil.copytree(SAMPLE_RUN, folder, ignore=shutil.ignore_patterns("tables", "sealed")))


def latencies_of(tables: Tables) -> dict[str, tuple[int, float | None, float | None]]:
    phases = tables("phases")
    found = phases[(phases["measure"] == "latency_ms") & phases["statistic"].isin(["p50", "p95"])]
    values: dict[str, pd.Series[float]] = {
        str(phase): of_it.set_index("statistic")["value"] for phase, of_it in found.groupby("phase")
    }
    counts = found.groupby("phase")["count"].first()
    return {phase: (int(counts[phase]), float(value["p50"]), float(value["p95"])) for phase, value in values.items()}


def shown(facts: FirstFacts) -> dict[str, tuple[int, float | None, float | None]]:
    return {each.phase: (each.jobs, each.p50_ms, each.p95_ms) for each in facts.latencies}


@pytest.mark.parametrize("prepare", [troubled_run, sample_run])
def test_the_first_facts_are_those_of_the_tables(prepare: object, tmp_path: Path, make: MakeTables) -> None:
    assert callable(prepare)
    folder: Path = prepare(tmp_path / "run")
    facts = read_first_facts(folder)
    tables = make(folder)
    found = latencies_of(tables)
    assert len(shown(facts)) > 1
    for phase, latency in shown(facts).items():
        assert latency == found.get(phase, (0, None, None))
    jobs = tables("conservation").set_index("state")["jobs"]
    assert facts.enqueued == jobs["enqueued"]
    assert facts.completed == jobs["completed"]
    assert facts.held == (tables("jobs")["state"].isin(["queued", "claimed"])).sum()


def test_the_tables_of_a_run_are_the_same_without_its_event_logs(tmp_path: Path, make: MakeTables) -> None:
    folder = sample_run(tmp_path / "run")
    read = make(folder)
    with_text = {name: read(name) for name in TABLES}
    facts = read_first_facts(folder)
    assert remove_event_logs(folder) > 0
    shutil.rmtree(folder / "tables")
    without = make(folder)
    assert list((folder / "events").iterdir()) == []
    for name, table in with_text.items():
        pd.testing.assert_frame_equal(without(name), table)
    assert read_first_facts(folder) == facts
