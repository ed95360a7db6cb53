"""What `stallbench observe --expose` serves between two readings, which may be minutes apart."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stallbench.observe.address import ObservedServers
from stallbench.observe.postgres.job_counts import JobCounts
from stallbench.observe.sampling import Sampling
from stallbench.processes.sample_figures import SampleFigures
from stallbench.records.endpoint import Endpoint
from stallbench.records.samples import Sample

DEPTH = Sample("primary", "queue", "depth", 7)
DEAD = Sample("primary", "table:jobs", "dead_tuples", 40)
WAIT = Sample("primary", "wait:Lock", "backends", 2)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock."""
    now_s = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    return now_s


def served(figures: SampleFigures) -> dict[str, float]:
    return {sample.name: sample.value for family in figures.collect() for sample in family.samples}


def test_a_figure_is_served_until_the_next_reading(clock: list[float]) -> None:
    figures = SampleFigures(60.0)
    figures.keep("backlog", [DEPTH])
    figures.keep("waits", [WAIT])
    clock[0] += 300
    assert served(figures) == {"stallbench_queue_depth": 7, "stallbench_active_backends": 2}


def test_what_a_reading_did_not_find_is_served_no_longer(clock: list[float]) -> None:
    figures = SampleFigures(5.0)
    figures.keep("backlog", [DEPTH])
    figures.keep("tables", [DEAD])
    figures.keep("backlog", [])
    assert served(figures) == {"stallbench_dead_tuples": 40}


def test_nothing_is_served_while_the_server_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    endpoint = Endpoint(engine="postgres", host="db.test", port=5432, database="app", user="reader")
    recording = Sampling(tmp_path, ObservedServers(primary=endpoint, replicas={}), (), dict, every_s=5.0)
    figures = SampleFigures(5.0)
    recording.observe = figures.keep
    recording.sample({"jobs": JobCounts(ready=7, oldest_s=0.5)})
    assert served(figures) == {"stallbench_queue_depth": 7, "stallbench_oldest_job_seconds": 0.5}
    recording.miss()
    assert not served(figures)
    recording.close()


def test_a_collector_of_a_run_that_no_longer_samples_is_not_believed(clock: list[float]) -> None:
    figures = SampleFigures(1.0)
    figures.observe([DEPTH, DEAD])
    clock[0] += 60
    assert not served(figures)
