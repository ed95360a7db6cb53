"""Jobs that waited though it was their turn: every job of these runs has its own history, which the tests of that job describe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stallbench.pipeline.jobs_by_time import count_jobs
from stallbench.pipeline.overdue import WAITED_WHILE_BUSY, make_overdue
from stallbench.records.events import Event
from stallbench.run.record import parse_record
from tests.pipeline.conftest import Parts, ReadParts
from tests.synthetic_run import SyntheticRun, at_ns


@dataclass(frozen=True, slots=True)
class Overdue:
    """The overdue jobs of a run."""

    kinds: dict[int, str]
    """By job; a job that is not overdue is not there."""
    longest_s: dict[str, float]
    """By kind."""


Find = Callable[..., Overdue]
FindWith = Callable[..., Overdue]


@pytest.fixture(scope="module")
def find(spark: SparkSession, read_parts: ReadParts) -> Find:
    """Find the overdue jobs of a run with this final snapshot; runs with the same ``events`` differ in their record only, and are read once."""
    read: dict[str, Parts] = {}

    def find_overdue(run: SyntheticRun, final_snapshot: dict[int, str], *, events: str) -> Overdue:
        folder = run.write(final_snapshot=final_snapshot)
        if events not in read:
            read[events] = read_parts(folder)
        parts = replace(read[events], record=parse_record((folder / "run.json").read_text(), "run.json"))
        by_time = count_jobs(parts.jobs, parts.axis)
        table = make_overdue(by_time, parts.records.events, parts.jobs, parts.record, parts.axis)
        kinds = [(job, row["kind"]) for row in table for job in row["examples"] if row["kind"] != WAITED_WHILE_BUSY]
        assert len(dict(kinds)) == len(kinds), "a job is of one kind, beside that it waited to the end"
        assert all(row["jobs"] == len(row["examples"]) for row in table)
        waited = [(job, row["kind"]) for row in table for job in row["examples"] if row["kind"] == WAITED_WHILE_BUSY]
        return Overdue(dict(waited) | dict(kinds), {row["kind"]: row["longest_s"] for row in table})

    return find_overdue


JUST_BEFORE, JUST_AFTER, IN_TURN, AT_THE_SAME_TIME, SLOW_CLAIM, NEVER_CLAIMED, LAST = (100 * story for story in range(1, 8))


@pytest.fixture(scope="module")
def without_a_death(find: Find, tmp_path_factory: pytest.TempPathFactory) -> Overdue:
    """Several stories, one a minute; a job of a later story does not pass over one that was claimed before that story began."""
    run = SyntheticRun(tmp_path_factory.mktemp("waiting") / "run", phases={"only": 310})
    for job, claimed_at_s in ((JUST_BEFORE, 3.9), (JUST_AFTER, 64.2)):
        story_s = claimed_at_s // 60 * 60
        run.enqueue(job, at_s=story_s + 1).enqueue(job + 1, at_s=story_s + 2)
        run.execute(job + 1, at_s=story_s + 3).execute(job, at_s=claimed_at_s)
    for place in range(1, 6):
        run.enqueue(IN_TURN + place, at_s=120 + place / 2).execute(IN_TURN + place, at_s=120 + place * 3)
    run.enqueue(AT_THE_SAME_TIME, at_s=182).enqueue(AT_THE_SAME_TIME + 1, at_s=183, took_ms=1500)
    run.execute(AT_THE_SAME_TIME + 1, at_s=184).execute(AT_THE_SAME_TIME, at_s=189)
    run.enqueue(SLOW_CLAIM, at_s=241).enqueue(SLOW_CLAIM + 1, at_s=242).execute(SLOW_CLAIM + 1, at_s=243)
    run.claim(SLOW_CLAIM, at_s=249, took_ms=6500).work(SLOW_CLAIM, at_s=249.1).complete(SLOW_CLAIM, at_s=249.2)
    run.enqueue(NEVER_CLAIMED, at_s=301).enqueue(NEVER_CLAIMED + 1, at_s=302).execute(NEVER_CLAIMED + 1, at_s=303)
    run.enqueue(LAST, at_s=309)
    return find(run, {NEVER_CLAIMED: "queued", LAST: "queued"}, events="without a death")


@pytest.mark.parametrize(("job", "is_passed_over"), [(JUST_BEFORE, False), (JUST_AFTER, True)])
def test_a_job_is_passed_over_when_a_younger_one_was_claimed_a_second_before(
    without_a_death: Overdue, job: int, is_passed_over: bool
) -> None:
    assert without_a_death.kinds.get(job) == ("passed_over" if is_passed_over else None)


def test_one_that_is_never_claimed_is_passed_over_too(without_a_death: Overdue) -> None:
    assert without_a_death.kinds[NEVER_CLAIMED] == "passed_over"
    assert without_a_death.longest_s["passed_over"] == pytest.approx(8)


def test_a_job_in_its_turn_may_wait_for_as_long_as_it_takes(without_a_death: Overdue) -> None:
    assert not without_a_death.kinds.keys() & {*range(IN_TURN, AT_THE_SAME_TIME), LAST}


def test_jobs_that_were_enqueued_at_the_same_time_have_no_order(without_a_death: Overdue) -> None:
    assert AT_THE_SAME_TIME not in without_a_death.kinds


def test_a_claim_that_itself_takes_long_does_not_pass_its_job_over(without_a_death: Overdue) -> None:
    assert SLOW_CLAIM not in without_a_death.kinds


HELD, OFFERED, UNRECORDED, OF_THE_LIVING, ENDED, BY_ANOTHER, BY_A_REPLACEMENT, SECOND_ATTEMPT, YOUNGER, NEWEST = range(1, 11)
DIED_AT_S, LAST_S = 3, 12


@pytest.fixture(scope="module")
def with_a_death(find: Find, tmp_path_factory: pytest.TempPathFactory) -> FindWith:
    """Find the overdue jobs of a run in which a worker dies at 3 s; runs with the same queue and faults are one run.

    The worker has claimed jobs at 2 s. One comes at 8 s and is executed at once; the records end at 12 s. ``faults``: how many there are, one
    after the other from 2 s to ``faults_end_s``. With ``poll_s`` the queue is a library whose workers find expired claims when they claim;
    ``renews_claims``: by heartbeats.
    """

    @cache
    def find_overdue(
        *,
        faults: int = 0,
        faults_end_s: float = LAST_S,
        poll_s: float | None = None,
        renews_claims: bool = False,
        **queue: object,
    ) -> Overdue:
        run = SyntheticRun(tmp_path_factory.mktemp("death") / "run", phases={"only": LAST_S})
        run.record["queue"] |= {"claims_survive_connection": False, "expiry_s": None} | queue
        if poll_s is not None:
            settings = {"poll_interval": poll_s, "rescue_interval": "each claim"}
            library = {
                "title": "x",
                "version": "1",
                "language": "y",
                "completion": "z",
                "rescue": "a claim",
                "settings": settings,
            }
            run.record["queue"]["library"] = library | {"renews_claims": renews_claims}
        if queue.get("claims_survive_connection", False) is None:
            del run.record["queue"]["claims_survive_connection"]
        run.record["injections"] = follow_one_another(faults, faults_end_s)
        run.process("worker-2", exit_code=-9, end_s=DIED_AT_S, intended="killed")
        add_death(run)
        return find(
            run,
            {HELD: "claimed", OFFERED: "queued", UNRECORDED: "claimed", OF_THE_LIVING: "claimed"} | _OTHERS,
            events="with a death",
        )

    return find_overdue


_OTHERS = {SECOND_ATTEMPT: "queued", NEWEST: "queued"}


def add_death(run: SyntheticRun) -> None:
    for job in range(HELD, YOUNGER):
        run.enqueue(job, at_s=1)
    for job in (HELD, OFFERED, ENDED, BY_ANOTHER, BY_A_REPLACEMENT):
        run.claim(job, at_s=2, by="worker-2")
    run.claim(OF_THE_LIVING, at_s=2)
    run.claim(SECOND_ATTEMPT, at_s=1.5).event(Event.FAILED, at_s=1.6, by="worker-1", job=SECOND_ATTEMPT)
    run.claim(SECOND_ATTEMPT, at_s=2, by="worker-2")
    run.event(Event.FAILED, at_s=2.5, by="worker-2", job=ENDED).execute(ENDED, at_s=7)
    run.execute(BY_ANOTHER, at_s=11, by="worker-1").execute(BY_A_REPLACEMENT, at_s=11, by="worker-2")
    run.enqueue(YOUNGER, at_s=8).execute(YOUNGER, at_s=8.1)
    run.enqueue(NEWEST, at_s=LAST_S)


def follow_one_another(faults: int, end_s: float) -> list[dict[str, Any]]:
    """Return so many faults, the last one first; each of them begins when the previous one ends."""
    moments_ns = [at_ns(2 + (end_s - 2) * number / max(faults, 1)) for number in range(faults + 1)]
    described = [
        {"name": f"kill-{number}", "category": "fault", "kind": "kill", "on": "workers", "phase": "only"}
        | {"start_ns": begin_ns, "verified_ns": begin_ns, "end_ns": end_ns, "verified_gone_ns": end_ns}
        for number, (begin_ns, end_ns) in enumerate(pairwise(moments_ns), start=1)
    ]
    return described[::-1]


@pytest.mark.parametrize(("job", "kind"), [(HELD, "held_for_the_dead"), (OFFERED, "left_behind")])
def test_a_job_of_a_dead_worker_is_due_when_its_connection_is_gone(with_a_death: FindWith, job: int, kind: str) -> None:
    overdue = with_a_death()
    assert overdue.kinds[job] == kind
    assert overdue.longest_s[kind] == pytest.approx(8)


@pytest.mark.parametrize(
    ("job", "expiry_s", "kind", "longest_s"),
    [
        (HELD, 3, "held_for_the_dead", 6),
        (HELD, 30, "not_yet_due", 9),
        (HELD, None, "not_yet_due", 9),
        (OFFERED, 3, "left_behind", 6),
        (OFFERED, 30, "available_again", 9),
    ],
)
def test_a_claim_that_outlives_its_connection_is_due_when_its_time_is_over(
    with_a_death: FindWith, job: int, expiry_s: float | None, kind: str, longest_s: float
) -> None:
    overdue = with_a_death(claims_survive_connection=True, expiry_s=expiry_s)
    assert overdue.kinds[job] == kind
    assert overdue.longest_s[kind] == pytest.approx(longest_s)


@pytest.mark.parametrize(("poll_s", "kind"), [(0.5, "held_for_the_dead"), (3, "not_yet_due")])
def test_an_idle_worker_finds_an_expired_claim_when_it_looks_for_a_job(with_a_death: FindWith, poll_s: float, kind: str) -> None:
    """The claim has expired at 10 s; one second of patience is always allowed."""
    overdue = with_a_death(claims_survive_connection=True, expiry_s=8, poll_s=poll_s)
    assert (overdue.kinds[HELD], overdue.kinds[UNRECORDED]) == (kind, "not_yet_due")


@pytest.mark.parametrize(("renews_claims", "kind"), [(False, "held_for_the_dead"), (True, "not_yet_due")])
def test_a_claim_that_is_renewed_expires_after_the_death_of_the_worker(
    with_a_death: FindWith, renews_claims: bool, kind: str
) -> None:
    """The worker may have renewed at 3 s what it had claimed at 2 s."""
    overdue = with_a_death(claims_survive_connection=True, expiry_s=8.5, poll_s=0, renews_claims=renews_claims)
    assert overdue.kinds[HELD] == kind


@pytest.mark.parametrize(("expiry_s", "kind"), [(3, "held_for_the_dead"), (30, "not_yet_due")])
def test_a_job_whose_claim_the_dead_worker_did_not_record_counts_from_the_last_death(
    with_a_death: FindWith, expiry_s: float, kind: str
) -> None:
    assert with_a_death(claims_survive_connection=True, expiry_s=expiry_s).kinds[UNRECORDED] == kind


def test_a_job_that_a_living_worker_has_is_not_one_of_the_dead(with_a_death: FindWith) -> None:
    assert OF_THE_LIVING not in with_a_death(claims_survive_connection=True, expiry_s=30).kinds


def test_nothing_is_due_while_a_fault_is_active(with_a_death: FindWith) -> None:
    kinds = with_a_death(faults=1, faults_end_s=11.5).kinds
    assert kinds[HELD] == "not_yet_due"
    assert not {"held_for_the_dead", "left_behind"} & {*kinds.values()}


@pytest.mark.parametrize(("last_end_s", "is_due"), [(10.5, True), (11.5, False)])
def test_many_faults_that_follow_one_another_postpone_a_job_like_one(
    with_a_death: FindWith, last_end_s: float, is_due: bool
) -> None:
    """The worker dies at 3 s, during one of 40 faults."""
    kind = with_a_death(faults=40, faults_end_s=last_end_s).kinds[HELD]
    assert kind == ("held_for_the_dead" if is_due else "not_yet_due")


@pytest.mark.parametrize("job", [BY_ANOTHER, BY_A_REPLACEMENT], ids=["another worker", "a replacement of the same name"])
def test_a_job_of_a_dead_worker_that_was_re_executed_is_offered_again(with_a_death: FindWith, job: int) -> None:
    overdue = with_a_death()
    assert overdue.kinds[job] == "offered_again"
    assert overdue.longest_s["offered_again"] == pytest.approx(8)


def test_a_job_that_the_worker_had_ended_before_it_died_is_none_of_its_jobs(with_a_death: FindWith) -> None:
    assert ENDED not in with_a_death().kinds


def test_only_these_jobs_are_overdue(with_a_death: FindWith) -> None:
    assert with_a_death().kinds.keys() == {HELD, OFFERED, UNRECORDED, BY_ANOTHER, BY_A_REPLACEMENT, SECOND_ATTEMPT}


@pytest.mark.parametrize("job", [HELD, OFFERED], ids=["claimed", "queued"])
def test_a_queue_that_never_rescues_jobs_has_none_to_offer_again(with_a_death: FindWith, job: int) -> None:
    assert job not in with_a_death(rescues_jobs=False).kinds


@pytest.mark.parametrize(
    ("attempt_limit", "job", "kind"),
    [
        (None, SECOND_ATTEMPT, "left_behind"),
        (2, OFFERED, "left_behind"),
        (2, SECOND_ATTEMPT, "out_of_attempts"),
    ],
)
def test_a_job_that_has_reached_the_attempt_limit_is_not_left_behind(
    with_a_death: FindWith, attempt_limit: int | None, job: int, kind: str
) -> None:
    limit = {} if attempt_limit is None else {"attempt_limit": attempt_limit}
    assert with_a_death(**limit).kinds[job] == kind


def test_a_queue_that_promises_at_most_once_may_forget(with_a_death: FindWith) -> None:
    assert with_a_death(promise="at_most_once").kinds == {}


def test_without_the_end_of_claims_in_the_run_nothing_is_overdue(with_a_death: FindWith) -> None:
    """What was offered again is known without it."""
    assert {*with_a_death(claims_survive_connection=None).kinds.values()} == {"offered_again"}


STARVED, READY_LATE, CLAIMED_IN_TURN, RELEASED_WITH_ITS_WORKER = range(1, 5)


@pytest.mark.parametrize(
    ("workers", "never", "left"),
    [
        ("idle", "never_claimed", "left_while_idle"),
        ("working a backlog off", "waited_while_busy", "available_again"),
        ("busy", "waited_while_busy", "available_again"),
        ("idle, of a library", "never_claimed", "left_while_idle"),
        ("idle during a fault", None, "available_again"),
    ],
)
def test_a_ready_job_that_no_idle_worker_claims_is_starved(
    find: Find, tmp_path: Path, workers: str, never: str | None, left: str
) -> None:
    """The load ends after 10 s. The queue promises no order, and no younger job is claimed after the one that is starved."""
    run = SyntheticRun(tmp_path / "run", phases={"only": 10})
    run.record["queue"] |= {"claims_survive_connection": False, "ordered": False}
    run.process("worker-2", exit_code=-9, end_s=2, intended="killed")
    run.enqueue(RELEASED_WITH_ITS_WORKER, at_s=0.5).claim(RELEASED_WITH_ITS_WORKER, at_s=1, by="worker-2")
    run.enqueue(CLAIMED_IN_TURN, at_s=0.6).enqueue(STARVED, at_s=3).enqueue(READY_LATE, at_s=9.5)
    run.execute(CLAIMED_IN_TURN, at_s=8.5 if workers == "working a backlog off" else 1)
    if workers == "idle, of a library":
        run.record["queue"]["library"] = {"title": "x", "version": "1", "language": "y", "completion": "z", "rescue": "a claim"}
    elif workers != "busy":
        run.event(Event.EMPTY, at_s=9, by="worker-1")
    if workers == "idle during a fault":
        at = {"start_ns": at_ns(2.5), "verified_ns": at_ns(2.5), "end_ns": at_ns(9), "verified_gone_ns": at_ns(9)}
        run.record["injections"] = [
            {"name": "kill-1", "category": "fault", "kind": "kill", "on": "workers", "phase": "only"} | at
        ]
    kinds = find(run, dict.fromkeys((STARVED, READY_LATE, RELEASED_WITH_ITS_WORKER), "queued"), events=workers).kinds
    assert kinds.get(STARVED) == never
    assert kinds[RELEASED_WITH_ITS_WORKER] == left
    assert READY_LATE not in kinds
