"""The scenarios of public reports, each in its shortest form that still shows what was reported.

A scenario's expectations are its own; only phases, and what the machine must do before them, are shortened. ``make test-scenarios`` runs these tests.
"""

from __future__ import annotations

import pytest

from stallbench.scenario.file import read_scenario
from stallbench.scenario.model import Scenario
from tests.end_to_end.conftest import Bench, assert_nothing_is_left

SHORTENED = {
    "deep-backlog": [
        "phases.warmup.duration=2s",
        "phases.baseline.duration=5s",
        "phases.backlog.duration=25s",
        'phases.backlog.faults=[{kind="other_jobs", on="primary", count=200_000, state="ready"}]',
    ],
    "claim-deadlock": ["phases.drain.duration=12s"],
    "unique-race": ["phases.warmup.duration=2s", "phases.race.duration=10s"],
    "noisy-neighbour": ["phases.warmup.duration=2s", "phases.baseline.duration=4s"],
    "cron-twice": [
        "phases.one_leader.duration=5s",
        "phases.first_pause.duration=8s",
        'phases.first_pause.faults=[{kind="pause", on="producer-1", after="1s", for="5s"}]',
        "phases.second_pause.duration=8s",
        'phases.second_pause.faults=[{kind="pause", on="producer-2", after="1s", for="5s"}]',
        "phases.after.duration=6s",
    ],
    "analytics-overlap": [
        "phases.warmup.duration=2s",
        "phases.baseline.duration=8s",
        "phases.analytics.duration=36s",
        'phases.analytics.longrunners=[{kind="overlapping_readers", on="primary", readers=3, each="12s"}]',
        "phases.recovery.duration=3s",
    ],
    "retention": [
        "queue.retained=100_000",
        "phases.warmup.duration=2s",
        "phases.retained.duration=5s",
        "phases.deletion.duration=10s",
        "phases.deleted.duration=5s",
    ],
    "index-bloat": ["phases.warmup.duration=3s", "phases.churn.duration=25s"],
    "large-payload": ["phases.warmup.duration=2s", "phases.small.duration=6s", "phases.large.duration=10s"],
    "idle-cost": ["phases.warmup.duration=2s", "phases.idle.duration=15s"],
    "listener-herd": ["phases.warmup.duration=2s", "phases.herd.duration=15s"],
    "connection-storm": [
        "phases.warmup.duration=2s",
        "phases.baseline.duration=5s",
        "phases.storm.duration=30s",
        "phases.recovery.duration=4s",
    ],
    "slru": [
        "phases.warmup.duration=2s",
        "phases.baseline.duration=4s",
        "phases.key_share.duration=8s",
        "phases.between.duration=2s",
        "phases.savepoints.duration=12s",
    ],
    "slot-fills-disk": ["phases.warmup.duration=2s", "phases.baseline.duration=5s", "phases.recovery.duration=10s"],
    "sqlite-reader": [
        "phases.warmup.duration=2s",
        "phases.baseline.duration=5s",
        "phases.reader.duration=18s",
        "phases.recovery.duration=5s",
    ],
    "clock-skew": [
        "phases.warmup.duration=2s",
        "phases.baseline.duration=4s",
        "phases.late.duration=8s",
        "phases.recovery.duration=10s",
    ],
    "live-migration": [
        "producers.backlog=100_000",
        "phases.warmup.duration=2s",
        "phases.baseline.duration=5s",
        "phases.migration.duration=25s",
        "phases.recovery.duration=5s",
    ],
    "wraparound": [
        "database.xids_left=2_000",
        "phases.warmup.duration=2s",
        "phases.baseline.duration=5s",
        "phases.out_of_ids.duration=50s",
        "phases.recovery.duration=8s",
    ],
    "dashboard-counts": [
        "queue.retained=500_000",
        "phases.warmup.duration=2s",
        "phases.baseline.duration=6s",
        "phases.dashboard.duration=15s",
        "phases.recovered.duration=3s",
    ],
    "due-at-once": ["phases.warmup.duration=2s", "phases.baseline.duration=10s", "phases.due.duration=38s"],
    "concurrency-limit --variant once": [
        "phases.warmup.duration=2s",
        "phases.baseline.duration=3s",
        "phases.trouble.duration=14s",
        "phases.after.duration=14s",
    ],
    "unique-race --variant staged": ["phases.warmup.duration=2s"],  # the second producer takes seconds to start
    "listener-herd --variant batches": ["phases.warmup.duration=2s", "phases.herd.duration=15s"],
    "sqlite-reader --variant busy_timeout": [
        "phases.warmup.duration=2s",
        "phases.baseline.duration=5s",
        "phases.reader.duration=18s",
        "phases.recovery.duration=5s",
    ],
    "analytics-overlap --variant workload_cap": [
        "phases.warmup.duration=2s",
        "phases.baseline.duration=3s",
        "phases.analytics.duration=45s",  # in a shorter one the horizon's mean age meets the bound without a cap, too
        "phases.recovery.duration=3s",
    ],
}
"""By scenario, or one of its variants: what makes it short."""


def read(named: str, *overrides: str) -> Scenario:
    name, _, variant = named.partition(" --variant ")
    return read_scenario(name, variant=variant or None, overrides=overrides)


@pytest.mark.end_to_end
@pytest.mark.long  # whole runs, of which each shows one report; the mechanisms are tested in tests/integration
@pytest.mark.parametrize("named", SHORTENED)
def test_a_scenario_shows_what_was_reported(named: str, bench: Bench) -> None:
    ended = bench.run("run", *named.split(), *(part for change in SHORTENED[named] for part in ("--set", change)))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    expected = [finding for finding in bench.verdict()["findings"] if finding["check"] == "expectations"]
    assert len(expected) == len(read(named).expect)
    assert {finding["result"] for finding in expected} == {"pass"}
    assert_nothing_is_left(bench, bench.record()["bench"]["pid"])


@pytest.mark.parametrize("named", SHORTENED)
def test_a_shortened_scenario_keeps_its_expectations(named: str) -> None:
    whole, shortened = read(named), read(named, *SHORTENED[named])
    assert shortened.expect == whole.expect
    assert shortened.duration_s < whole.duration_s
