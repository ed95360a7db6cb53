"""Jobs with keys, and jobs of other queues: what is counted and measured of them."""

from __future__ import annotations

from pathlib import Path

from stallbench.records.events import Event
from tests.pipeline.conftest import MakeTables
from tests.synthetic_run import PRODUCER, SyntheticRun


def test_repeated_and_skipped_keys_are_counted_and_the_default_queue_has_a_latency_of_its_own(
    make: MakeTables, tmp_path: Path
) -> None:
    run = SyntheticRun(tmp_path / "run", phases={"baseline": 5, "leader": 5})
    for job, (at_s, key) in enumerate([(1, 10), (2, 11), (6, 14), (6.1, 14), (7, 14), (8, 11)], start=1):
        run.event(Event.ENQUEUED, at_s=at_s, by=PRODUCER, job=job, intended_s=at_s, detail=f"key:{key}")
        run.execute(job, at_s=at_s + 0.1)
    run.event(Event.ENQUEUED, at_s=1, by=PRODUCER, job=7, intended_s=1, detail="queue:noisy").execute(7, at_s=9)
    phases = make(run.write(final_snapshot={}))("phases").set_index(["phase", "measure", "statistic"]).value
    repeated = {phase: phases[phase, "repeated_keys", "count"] for phase in ("baseline", "leader", "run")}
    assert repeated == {"baseline": 0, "leader": 3, "run": 3}  # the second and third of key 14, the second of key 11
    skipped = {phase: phases[phase, "skipped_keys", "count"] for phase in ("baseline", "leader", "run")}
    assert skipped == {"baseline": 0, "leader": 2, "run": 2}  # 12 and 13
    assert phases["leader", "latency_ms", "max"] > 7_000
    assert phases["leader", "default_queue_latency_ms", "max"] < 2_000
