"""When a run with `abort` ends early: only if no later second could change what the outcome says."""

from __future__ import annotations

import pytest

from stallbench.run import abort
from stallbench.run.abort import Abort
from stallbench.run.live_figures import LiveFigures
from stallbench.scenario.file import read_scenario
from stallbench.verdicts import outcome


def make(name: str, scenario: str = "longtx", *changes: str) -> Abort:
    return Abort(read_scenario(scenario, overrides=[f'require=[{{outcome="{name}",abort=true}}]', *changes]))


def figures(rate: float, depth: int | None = 1, enqueued: float | None = None) -> LiveFigures:
    return LiveFigures(
        enqueued_rate=rate if enqueued is None else enqueued,
        completed_rate=rate,
        claim_ms_p95=None,
        times_claims=False,
        depth=depth,
        dead_tuples=None,
        history_list_length=None,
        deadlocks=None,
        oldest_transaction_s=None,
        oldest_job_s=None,
        holder=None,
    )


def look(asked: Abort, phase: str, from_s: int, to_s: int, rate: float, depth: int | None = 1, **facts: bool) -> str:
    for now_s in range(from_s, to_s):
        asked.look(phase, now_s, figures(rate, depth), is_disturbed=facts.get("is_disturbed", False), gone=())
    return asked.reason


def test_the_bounds_are_further_than_those_of_the_outcome() -> None:
    for name in ("STOPPED_S", "LONGER_STALL", "BACKLOG_S", "DEEPER"):
        assert getattr(abort, name) >= 2 * getattr(outcome, name)


def test_a_queue_that_has_stopped_is_no_longer_unaffected() -> None:
    asked = make("unaffected")
    assert not look(asked, "baseline", 0, 8, rate=100)
    assert not look(asked, "longtx", 8, 14, rate=0, depth=500, is_disturbed=True)
    assert look(asked, "longtx", 14, 16, rate=0, depth=500, is_disturbed=True) == (
        "no job was completed for 6 s in longtx, although jobs waited"
    )


def test_a_worker_that_polls_every_few_seconds_has_not_stopped() -> None:
    asked = make("unaffected")
    for second in range(12):
        look(asked, "baseline", second, second + 1, rate=100.0 * (second % 5 == 0), depth=50)
    assert not look(asked, "longtx", 20, 30, rate=0, depth=50, is_disturbed=True)


@pytest.mark.parametrize("depth", [0, None], ids=["the last sample", "no sample"])
def test_a_queue_that_producers_wait_for_too_has_stopped(depth: int | None) -> None:
    """A table that a migration waits for takes no job, gives none, and cannot be sampled; the depth is that of before, or unknown."""
    asked = make("unaffected", "ddl-blocked")
    look(asked, "baseline", 0, 8, rate=60)
    assert not look(asked, "migration", 8, 14, rate=0, depth=depth, is_disturbed=True)
    assert look(asked, "migration", 14, 16, rate=0, depth=depth, is_disturbed=True) == (
        "no job was completed for 6 s in migration, although jobs waited"
    )


def test_an_empty_queue_has_not_stopped() -> None:
    asked = make("unaffected", "ddl-blocked")
    look(asked, "baseline", 0, 8, rate=60)
    for second in range(8, 30):
        asked.look("migration", second, figures(0, 0, enqueued=1), is_disturbed=True, gone=())
    assert not asked.reason


def test_a_phase_in_which_nothing_is_enqueued_or_completed_is_no_recovery() -> None:
    asked = make("survives", "ddl-blocked")
    look(asked, "baseline", 0, 8, rate=60)
    look(asked, "migration", 8, 20, rate=0, depth=None, is_disturbed=True)
    asked.end_phase("migration")
    assert not look(asked, "recovery", 20, 30, rate=0, depth=None)
    asked.end_phase("recovery")
    assert asked.reason == "no job was completed in recovery, after migration, although jobs waited"


def test_one_completion_may_be_a_recovery() -> None:
    asked = make("survives", "ddl-blocked")
    look(asked, "baseline", 0, 8, rate=60)
    look(asked, "migration", 8, 20, rate=0, depth=None, is_disturbed=True)
    asked.end_phase("migration")
    look(asked, "recovery", 20, 29, rate=0, depth=None)
    look(asked, "recovery", 29, 30, rate=10, depth=None)
    asked.end_phase("recovery")
    assert not asked.reason


def test_a_pause_decides_nothing_about_survival() -> None:
    asked = make("survives")
    look(asked, "baseline", 0, 8, rate=100)
    assert not look(asked, "longtx", 8, 40, rate=0, depth=5000, is_disturbed=True)


def test_a_backlog_throughout_the_phase_that_follows_is_no_recovery() -> None:
    asked = make("survives")
    look(asked, "baseline", 0, 8, rate=100)
    look(asked, "longtx", 8, 20, rate=10, depth=2000, is_disturbed=True)
    asked.end_phase("longtx")
    assert not look(asked, "recovery", 20, 30, rate=10, depth=900)
    asked.end_phase("recovery")
    assert asked.reason == "at least 900 jobs waited throughout recovery, after longtx; at most 1 before"


def test_one_look_without_a_backlog_may_be_a_recovery() -> None:
    for depth in (150, None):
        asked = make("survives")
        look(asked, "baseline", 0, 8, rate=100)
        look(asked, "longtx", 8, 20, rate=10, depth=2000, is_disturbed=True)
        look(asked, "recovery", 20, 29, rate=10, depth=900)
        look(asked, "recovery", 29, 30, rate=10, depth=depth)
        asked.end_phase("recovery")
        assert not asked.reason


def test_a_worker_is_gone_if_no_fault_will_start_it_anew() -> None:
    asked = make("survives", "worker-crash")
    asked.look("crash", 1.0, figures(60), is_disturbed=True, gone=["worker-1"])
    before = asked.reason
    asked.look("recovery", 2.0, figures(60), is_disturbed=False, gone=["worker-1"])
    assert (before, asked.reason) == ("", "worker-1 exited unexpectedly, and nothing will take the place")


def test_without_abort_nothing_is_asked() -> None:
    assert not Abort(read_scenario("longtx", overrides=["require=survives"])).is_asked
    assert make("survives").is_asked
