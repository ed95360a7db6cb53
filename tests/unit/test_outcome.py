"""The outcome: effect, recovery, safety and workers, from small tables, and the sentences that are made of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stallbench.report import make_report
from stallbench.report.outcome_text import describe_outcome, describe_run, find_ending, find_help, list_tiles
from stallbench.verdicts import RunTables, judge
from stallbench.verdicts.outcome import OtherQueries, PhaseOutcome, find_outcome
from tests.unit.made_up_run import EMPTY, PHASES, START_NS, make_phases, make_process, make_record, make_run

pytestmark = pytest.mark.slow

BEGIN_S, END_S = 25, 55
"""Of the longrunner, in the phase from 20 s to 60 s; the run ends at 80 s."""
HOLDER = {"kind": "backend", "state": "idle in transaction"}


def make_longrunner(**changes: Any) -> dict[str, Any]:
    known = {"name": "idle_writer-1", "category": "longrunner", "kind": "idle_writer", "on": "primary", "phase": "longtx"}
    times = {
        "start_ns": START_NS + BEGIN_S * 10**9,
        "verified_ns": START_NS + BEGIN_S * 10**9,
        "active_to_end": True,
        "end_ns": START_NS + END_S * 10**9,
    }
    return {**known, **times, "evidence": HOLDER, **changes}


def make_disturbed(
    folder: Path,
    *,
    rate: int = 100,
    before_ms: float = 10.0,
    latency_ms: Callable[[int], float] = lambda _: 10.0,
    completed: Callable[[int], int] | None = None,
    depth: Callable[[int], float] | None = lambda _: 1.0,
    stalled: dict[str, float] | None = None,
    record: dict[str, Any] | None = None,
    **tables: pd.DataFrame,
) -> RunTables:
    """Return a run with a longrunner in `longtx`; each function gives the value of a second."""
    of_second = completed or (lambda _: rate)
    rows = [
        {
            "t_s": t_s,
            "t_ns": START_NS + t_s * 10**9,
            "phase": name,
            "enqueued": rate,
            "claimed": of_second(t_s),
            "completed": of_second(t_s),
            "latency_ms_p95": (before_ms if t_s < BEGIN_S else latency_ms(t_s)) if of_second(t_s) else None,
            "depth": depth(t_s) if depth else None,
            "notify_lock_waits": 0.0,
            "deadlocks_count": 0.0,
        }
        for name, from_s, to_s in PHASES
        for t_s in range(from_s, to_s)
    ]
    windows = pd.DataFrame(rows)
    values: dict[tuple[str, str], float] = {("run", "order_diff.max"): 3.0, ("run", "order_diff.p99"): 0.0}
    for name, from_s, to_s in PHASES:
        of_phase = windows[windows["phase"] == name]
        values[name, "completed.count"] = float(of_phase["completed"].sum())
        values[name, "completed.rate"] = float(of_phase["completed"].sum()) / (to_s - from_s)
        values[name, "enqueued.count"] = float(of_phase["enqueued"].sum())
        if of_phase["latency_ms_p95"].notna().any():
            values[name, "latency_ms.p95"] = float(of_phase["latency_ms_p95"].astype(float).quantile(0.95))
        values[name, "stalled_s.longest"] = (stalled or {}).get(name, 0.0)
        if depth:
            values[name, "depth.max"] = float(of_phase["depth"].max())
    injections = pd.DataFrame(
        [["idle_writer-1", "longrunner", "idle_writer", "primary", "longtx", BEGIN_S, END_S]], columns=EMPTY["injections"]
    )
    given = {"windows": windows, "phases": make_phases(values), "injections": injections, **tables}
    return make_run(folder, record or make_record(injections=[make_longrunner()]), **given)


def outcome_of(run: RunTables) -> PhaseOutcome:
    (phase,) = find_outcome(run).phases
    return phase


@pytest.mark.parametrize(("rate", "before_ms"), [(40, 200.0), (100, 10.0), (4000, 2.0), (4, 900.0)])
def test_the_same_scale_at_every_rate(tmp_path: Path, rate: int, before_ms: float) -> None:
    def run(name: str, **changes: Any) -> PhaseOutcome:
        (tmp_path / name).mkdir()
        return outcome_of(make_disturbed(tmp_path / name, rate=rate, before_ms=before_ms, **changes))

    slow_ms = 3 * before_ms + 50

    def slow(t_s: int) -> float:
        return slow_ms if t_s < 60 else before_ms

    assert run("as-before", latency_ms=lambda _: 2.5 * before_ms if before_ms > 40 else before_ms + 40).effect == "unaffected"
    assert run("slower", latency_ms=slow).effect == "slower"
    behind = run("behind", latency_ms=slow, depth=lambda t_s: max(0.0, t_s - BEGIN_S) * rate if t_s < 60 else 0.0)
    assert (behind.effect, behind.waiting) == ("falling behind", 34 * rate)
    assert run("stopped", completed=lambda t_s: 0 if 30 <= t_s < 40 else rate, stalled={"longtx": 10}).effect == "stopped"


def test_what_other_queries_felt_is_beside_what_happened_to_the_queue(tmp_path: Path) -> None:
    for name in ("without", "with"):
        (tmp_path / name).mkdir()
    run = make_disturbed(tmp_path / "without")
    assert outcome_of(run).other_queries is None
    assert [tile.label for tile in list_tiles(judge(run))][-1] == "jobs lost, repeated or stranded"
    figures = {("baseline", "p95"): 1.2, ("longtx", "p95"): 1900.0, ("recovered", "p95"): 1.3}
    phases = [
        run["phases"],
        make_phases({(phase, f"bystander_ms.{name}"): value for (phase, name), value in figures.items()}),
        make_phases({("longtx", "bystander_errors.count"): 3.0}),
    ]
    felt = make_disturbed(tmp_path / "with", phases=pd.concat(phases, ignore_index=True))
    assert outcome_of(felt).effect == "unaffected"
    assert outcome_of(felt).other_queries == OtherQueries(before_ms=1.2, meanwhile_ms=1900.0, after_ms=1.3, failed=3)
    verdict = judge(felt)
    assert "Other queries of the database: 95 of 100 within 1.9 s (before: 1.2 ms); 3 failed at first." in describe_outcome(
        felt.record, verdict
    )
    assert "1.2 ms → 1.9 s → 1.3 ms" in [tile.figure for tile in list_tiles(verdict)]


def test_a_worker_that_polls_every_few_seconds_is_not_stopped_by_its_poll(tmp_path: Path) -> None:
    every_five = {"completed": lambda t_s: 0 if t_s % 5 else 500, "depth": lambda t_s: 100.0 * (t_s % 5), "before_ms": 4800.0}
    phase = outcome_of(make_disturbed(tmp_path, latency_ms=lambda _: 4900.0, stalled={"baseline": 4, "longtx": 4}, **every_five))  # type: ignore[arg-type]
    assert (phase.effect, phase.recovery.kind) == ("unaffected", "not applicable")


def test_a_backlog_that_is_worked_off_within_the_phase_is_no_falling_behind(tmp_path: Path) -> None:
    def burst(t_s: int) -> float:
        return max(0.0, 1000 - 100 * abs(t_s - 35))

    assert outcome_of(make_disturbed(tmp_path, depth=burst, latency_ms=lambda _: 500.0)).effect == "slower"


def test_without_samples_the_jobs_that_were_not_completed_count(tmp_path: Path) -> None:
    phase = outcome_of(make_disturbed(tmp_path, depth=None, completed=lambda t_s: 50 if 25 <= t_s < 60 else 100))
    assert (phase.effect, phase.waiting) == ("falling behind", None)


def make_deserted(t_s: float) -> dict[str, Any]:
    """Return the record of a run whose workers had all exited at ``t_s``, which ended it."""
    end_ns = START_NS + round(t_s * 10**9)
    record = make_record(
        injections=[make_longrunner(end_ns=end_ns)],
        processes=[make_process("worker-1", end_ns=end_ns, intended="running", exit_code=1)],
    )
    for phase in record["phases"]:
        ran = phase["start_ns"] < end_ns
        phase |= {"start_ns": phase["start_ns"] if ran else None, "end_ns": min(phase["end_ns"], end_ns) if ran else None}
    return record


def test_a_queue_without_a_worker_has_stopped_and_needs_help(tmp_path: Path) -> None:
    record = make_deserted(40)
    left = pd.DataFrame([{"state": state, "jobs": jobs, "examples": []} for state, jobs in (("queued", 70), ("claimed", 1))])
    run = make_disturbed(tmp_path, record=record, conservation=left)
    phase = outcome_of(run)
    assert (phase.effect, phase.recovery.kind, phase.recovery.in_next_phase) == ("stopped", "needs help", False)
    assert describe_outcome(run.record, judge(run)) == (
        "While one transaction was idle for 15 s, every worker exited; no worker was left, so it needs help. "
        "Nothing lost, nothing repeated. worker-1 exited unexpectedly, and 71 jobs were left in the queue."
    )


def slow_until(t_s: int) -> Callable[[int], float]:
    return lambda each: 800.0 if each < t_s else 10.0


@pytest.mark.parametrize(
    ("latency_ms", "kind", "seconds", "in_next_phase"),
    [
        (slow_until(56), "at once", 1.0, True),
        (slow_until(63), "after", 8.0, True),
        (slow_until(80), "not in", 25.0, False),
        (lambda t_s: 800.0 if t_s < 63 or t_s == 65 else 10.0, "after", 8.0, True),
        (lambda t_s: 800.0 if t_s < 63 or t_s in (64, 65) else 10.0, "after", 11.0, True),
    ],
    ids=["at once", "after", "not in", "one slow second later is one of a busy machine", "two are not"],
)
def test_recovery_counts_from_the_end_of_the_longrunner(
    tmp_path: Path, latency_ms: Callable[[int], float], kind: str, seconds: float, in_next_phase: bool
) -> None:
    recovery = outcome_of(make_disturbed(tmp_path, latency_ms=latency_ms)).recovery
    assert (recovery.kind, recovery.seconds, recovery.in_next_phase) == (kind, seconds, in_next_phase)


def test_a_backlog_that_remains_is_no_recovery_even_if_the_jobs_that_are_done_are_quick(tmp_path: Path) -> None:
    phase = outcome_of(make_disturbed(tmp_path, depth=lambda t_s: 5000.0 if t_s > 40 else 1.0))
    assert (phase.effect, phase.recovery.kind) == ("falling behind", "not in")


def test_a_queue_that_completes_nothing_any_more_needs_help(tmp_path: Path) -> None:
    phase = outcome_of(make_disturbed(tmp_path, completed=lambda t_s: 100 if t_s < 30 else 0, stalled={"longtx": 30}))
    assert (phase.effect, phase.recovery.kind, phase.recovery.seconds) == ("stopped", "needs help", 25.0)


def test_what_the_data_cannot_decide_is_unknown(tmp_path: Path) -> None:
    def run(name: str, **changes: Any) -> PhaseOutcome:
        (tmp_path / name).mkdir()
        return outcome_of(make_disturbed(tmp_path / name, **changes))

    few = run("few", completed=lambda t_s: int(t_s % 2 == 0))
    assert (few.effect, few.recovery.kind) == ("unknown", "unknown")
    assert few.because == "only 10 jobs were completed in baseline; 20 are needed"
    behind_before = run("behind", depth=lambda t_s: 100.0 * t_s)
    assert (behind_before.effect, behind_before.because) == ("unknown", "the queue did not keep up in baseline")
    assert run("backlog", depth=lambda t_s: 400.0 - t_s).because.startswith("at least 381 jobs waited throughout baseline")
    first = run("first", record=make_record(injections=[make_longrunner()], phases=make_record()["phases"][1:]))
    assert (first.effect, first.because) == ("unknown", "no phase without a fault was measured before")


def test_a_run_without_a_fault_has_no_effect(tmp_path: Path) -> None:
    outcome = find_outcome(make_run(tmp_path))
    assert (outcome.effect, outcome.recovery, outcome.worst) == (None, None, None)


def test_jobs_are_counted_by_id(tmp_path: Path) -> None:
    conservation = pd.DataFrame(
        [{"state": "enqueued", "jobs": 10, "examples": []}, {"state": "lost", "jobs": 2, "examples": [7, 8]}]
    )
    duplicates = pd.DataFrame(
        [[3, 2, 2, "a, b", False, "why", "", None], [4, 2, 1, "a, b", True, "died", "", None]], columns=EMPTY["duplicates"]
    )
    overdue = pd.DataFrame(
        [
            {"kind": "held_for_the_dead", "jobs": 1, "examples": [5], "longest_s": 3.0},
            {"kind": "offered_again", "jobs": 1, "examples": [4], "longest_s": 2.5},
        ]
    )
    run = make_disturbed(tmp_path, conservation=conservation, duplicates=duplicates, overdue=overdue)
    safety = find_outcome(run).safety
    assert (safety.lost.count, safety.lost.examples) == (2, ("7", "8"))
    assert (safety.repeated.count, safety.repeated.examples, safety.re_executed) == (1, ("3",), 1)
    assert (safety.stranded.count, safety.rescued, safety.rescued_within_s) == (1, 1, 2.5)
    assert safety.is_broken


def make_library_record(**queue: Any) -> dict[str, Any]:
    record = make_record(injections=[make_longrunner()])
    return {**record, "queue": {**record["queue"], **queue}}


def test_a_rescue_that_is_declared_for_later_than_the_run_is_said_and_was_not_seen(tmp_path: Path) -> None:
    overdue = pd.DataFrame([{"kind": "not_yet_due", "jobs": 2, "examples": [5, 6], "longest_s": 3.0}])
    run = make_disturbed(tmp_path, overdue=overdue, record=make_library_record(expiry_s=3600.0, claims_survive_connection=True))
    safety = find_outcome(run).safety
    assert (safety.stranded.count, safety.awaiting.count, safety.rescue_s, safety.unknown) == (0, 2, 3600.0, ())
    said = describe_outcome(run.record, judge(run))
    assert "2 jobs (5, 6) stranded with a worker that had died, rescued after 60 min, as declared (not seen)." in said


def test_whether_an_undeclared_rescue_would_come_is_unknown(tmp_path: Path) -> None:
    overdue = pd.DataFrame([{"kind": "not_yet_due", "jobs": 2, "examples": [5, 6], "longest_s": 3.0}])
    run = make_disturbed(tmp_path, overdue=overdue, record=make_library_record(claims_survive_connection=True))
    assert find_outcome(run).safety.unknown == ("stranded",)


def test_a_worker_that_was_replaced_is_not_gone(tmp_path: Path) -> None:
    def exited(*processes: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        folder = tmp_path / str(len(processes))
        folder.mkdir()
        outcome = find_outcome(make_run(folder, make_record(processes=list(processes))))
        return outcome.exited, outcome.gone

    died = make_process("worker-1", intended="running", exit_code=-9)
    assert exited(died) == (("worker-1",), ("worker-1",))
    assert exited(died, make_process("worker-1", start_ns=START_NS + 5)) == (("worker-1",), ())


def test_the_headline_says_the_outcome_first(tmp_path: Path) -> None:
    def depth(t_s: int) -> float:
        return 100.0 * (t_s - BEGIN_S) if BEGIN_S < t_s < 60 else 1.0

    run = make_disturbed(tmp_path, latency_ms=lambda t_s: 8400.0 if t_s < 63 else 10.0, depth=depth)
    verdict = judge(run)
    assert describe_run(run.record, verdict) == (
        "While one transaction was idle for 30 s, 95 of 100 jobs took up to 8.4 s instead of 10 ms and 3,400 piled up; "
        "back to normal 8 s after it ended. Nothing lost, nothing repeated. Passed: the scenario has no expectations."
    )


def make_stay(application: str, longrunner: str | None) -> pd.DataFrame:
    """Return the table of one session that held the horizon during the fault."""
    row = [
        "primary",
        "77:1",
        "backend",
        77,
        application,
        "idle in transaction",
        "",
        False,
        25.0,
        55.0,
        30.0,
        900,
        30.0,
        longrunner,
    ]
    return pd.DataFrame([row], columns=EMPTY["holders"])


def test_who_did_it_and_what_ends_it_follow(tmp_path: Path) -> None:
    run = make_disturbed(tmp_path, latency_ms=lambda _: 900.0, holders=make_stay("psql", "idle_writer-1"))
    ending = find_ending(run.record, judge(run))
    assert ending
    assert ending.statement == "SELECT pg_terminate_backend(77);"
    assert (
        ending.sentence == "Who did it: idle_writer-1 (session 77 on primary) kept old rows from being removed from 25 s to 55 s."
    )
    page = make_report(run, judge(run)).read_text()
    assert page.index("<h1>") < page.index("Who did it: ") < page.index('class="tile"'), "on a narrow screen, too"


def test_what_may_help_is_a_command_that_fits_the_queue(tmp_path: Path) -> None:
    run = make_disturbed(tmp_path, latency_ms=lambda _: 900.0)
    offered = find_help(run.record, judge(run))
    assert offered
    assert offered.command == "stallbench compare longtx"
    own = make_record(injections=[make_longrunner()])
    own["scenario"]["changes"] = ["queue.kind=library:river"]
    (tmp_path / "own").mkdir()
    run = make_disturbed(tmp_path / "own", latency_ms=lambda _: 900.0, record=own)
    offered = find_help(run.record, judge(run))
    assert offered
    assert "skip_locked" not in offered.command, "it would replace the queue"
    assert offered.command.endswith("--set queue.kind=library:river")
    assert "watchdog" in offered.command


def test_nobody_is_blamed_if_the_queue_was_not_affected(tmp_path: Path) -> None:
    run = make_disturbed(tmp_path, holders=make_stay("psql", "idle_writer-1"))
    verdict = judge(run)
    assert (find_ending(run.record, verdict), find_help(run.record, verdict)) == (None, None)


def test_the_page_has_the_outcome_in_figures_and_folds_what_does_not_apply(tmp_path: Path) -> None:
    run = make_disturbed(tmp_path, latency_ms=lambda t_s: 8400.0 if t_s < 63 else 10.0)
    page = make_report(run, judge(run)).read_text()
    figures = re.findall(r'<p class="part">(.*?)</p>\s*<p class="figure"><strong>(.*?)</strong>', page)
    assert figures == [
        ("latency of 95 of 100 jobs, up to", "10 ms → 8.4 s"),
        ("jobs waiting, most", "1 → 1"),
        ("back to normal", "8 s"),
        ("jobs lost, repeated or stranded", "none"),
    ]
    folded = page[page.index("not apply to this run") :]
    assert '<span class="badge info">' in folded
    assert '<span class="badge info">' not in page[: page.index("not apply to this run")]
    assert "<th>" not in page, "each header cell says whether it is of a column or of a row"


def test_a_holder_that_nobody_injected_is_not_blamed(tmp_path: Path) -> None:
    """A worker whose connection a fault has cut holds the horizon as an effect of it."""
    run = make_disturbed(tmp_path, latency_ms=lambda _: 900.0, holders=make_stay("worker-1", None))
    verdict = judge(run)
    assert verdict.attribution.holders
    assert find_ending(run.record, verdict) is None
