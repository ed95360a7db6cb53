"""What a scenario requires of the outcome: which layer of a scenario decides what is judged, each part of the outcome, and the words for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stallbench.report.outcome_text import describe_verdict
from stallbench.scenario.file import ScenarioError, read_scenario
from stallbench.verdicts import RunTables, Verdict, judge
from stallbench.verdicts.baseline.change import choose_compared
from stallbench.verdicts.baseline.compared_metric import choose_subjects
from tests.unit.made_up_run import EMPTY, START_NS, make_process, make_record
from tests.unit.test_outcome import make_disturbed, make_longrunner, slow_until

pytestmark = pytest.mark.slow

RATE = "producers.rate=10"
AT_END = "phases=[{name='baseline',duration='5s'},{name='crash',duration='5s',faults=[{kind='kill',on='workers'}]}]"
AT_BEGIN = "phases=[{name='crash',duration='5s',faults=[{kind='kill',on='workers'}]},{name='after',duration='5s'}]"


@pytest.mark.parametrize(
    ("variant", "changes", "expected", "required"),
    [
        (None, [], 7, []),
        (None, ["judge=survives"], 0, ["survives"]),
        (None, ["judge=survives", "require=safe"], 0, ["safe"]),
        (None, ["judge=reproduced", "require=safe"], 7, []),
        (None, ["require=safe"], 7, ["safe"]),
        (None, ["queue.kind=skip_locked"], 0, ["survives"]),
        (None, ["queue.kind=library:river"], 0, ["survives"]),
        (None, ["queue.kind=library:river", "expect=[]"], 0, []),
        (None, ["queue.kind=library:river", "judge=reproduced"], 7, []),
        (None, ["queue.kind=library:river", 'require=["safe", { outcome = "recovers" }]'], 0, ["safe", "recovers"]),
        (None, ["queue.kind=que", "queue.recheck=false"], 7, []),
        ("skip_locked", [], 2, []),
        ("skip_locked", ["queue.kind=library:river"], 0, ["survives"]),
    ],
)
def test_another_queue_is_not_judged_by_what_the_first_one_demonstrates(
    variant: str | None, changes: list[str], expected: int, required: list[str]
) -> None:
    scenario = read_scenario("longtx", variant=variant, overrides=[RATE, *changes])
    assert (len(scenario.expect), [each.outcome for each in scenario.require]) == (expected, required)


def test_what_is_expected_of_a_library_is_expected_of_each() -> None:
    scenario = read_scenario("cron-twice-library", overrides=['queue={kind="library:river", periodic=2}'])
    assert (bool(scenario.expect), scenario.require) == (True, ())


def test_against_a_baseline_another_queue_is_compared_by_what_variants_are_ranked_by() -> None:
    scenario = read_scenario("longtx", overrides=[RATE, "queue.kind=library:river"])
    compared = choose_compared(choose_subjects([scenario]), scenario)
    assert [each.key for each in compared] == ["latency_ms.p95 in longtx"]


def test_a_file_that_states_nothing_requires_its_queue_to_survive(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    stated = 'summary = "x"\nqueue.kind = "que"\nproducers.rate = 5\nphases = [{ name = "work", duration = "5s" }]\n'
    library = 'expect = [{ metric = "lost.count", at_most = 0 }]\n[variants.river]\nqueue.kind = "library:river"\n'
    path.write_text(stated)
    assert [each.outcome for each in read_scenario(str(path)).require] == ["survives"]
    path.write_text(stated + library)
    assert not read_scenario(str(path)).require
    chosen = read_scenario(str(path), variant="river")
    assert (chosen.expect, [each.outcome for each in chosen.require]) == ((), ["survives"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "require=survive",
            'require is "survive"; expected one of survives, unaffected, recovers, safe; did you mean "survives"?',
        ),
        ('require=["safe", "recover"]', 'require[1] is "recover"; expected one of'),
        ('require=[{outcome="survive"}]', 'require[0].outcome is "survive"; expected one of'),
        ("require=[{abort=true}]", 'require[0].outcome is missing; write it like outcome = "survives"'),
        ("require=3", 'require is 3; expected a name, like "survives", or an array of tables'),
        ("require=[3]", 'require[0] is 3; expected a table, like { outcome = "survives" }, or only the name'),
        ("judge=survive", 'judge is "survive"; expected "reproduced" or "survives"; did you mean "survives"?'),
        (
            'require=[{outcome="safe",abort=true}]',
            'require[0].abort is true, but "safe" is decided only at the end of a run; expected one of survives, unaffected, recovers',
        ),
    ],
)
def test_a_requirement_that_does_not_exist_is_refused(change: str, message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        read_scenario("longtx", overrides=[change])
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([AT_END, "require=survives"], 'require is "survives", but no phase follows "crash", the last with a fault; add one'),
        ([AT_END, "judge=survives"], 'judge is "survives", but no phase follows "crash"'),
        ([AT_BEGIN, "require=unaffected"], 'no phase is measured before "crash", the first with a fault; add one'),
        (
            ['require=[{outcome="recovers",abort=true}]', "collectors.enabled=false"],
            "collectors.enabled is false, so that nothing",
        ),
    ],
)
def test_a_requirement_that_no_run_could_meet_is_refused(changes: list[str], message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        read_scenario("worker-crash", overrides=["expect=[]", *changes])
    assert message in str(raised.value)


def judged(folder: Path, *required: str, record: dict[str, Any] | None = None, **disturbed: Any) -> tuple[RunTables, Verdict]:
    content = make_record(injections=[make_longrunner()], **(record or {}))
    content["scenario"]["require"] = [{"outcome": each} for each in required]
    run = make_disturbed(folder, record=content, **disturbed)
    return run, judge(run)


def words(folder: Path, *required: str, **disturbed: Any) -> str:
    run, verdict = judged(folder, *required, **disturbed)
    return describe_verdict(run.record, verdict)


def overdue(kind: str) -> pd.DataFrame:
    return pd.DataFrame([{"kind": kind, "jobs": 2, "examples": [5, 6], "longest_s": 3.0}])


def states(**jobs: int) -> pd.DataFrame:
    counted = {"enqueued": 10, **jobs}
    return pd.DataFrame([{"state": state, "jobs": count, "examples": [7][:count]} for state, count in counted.items()])


REPEATED = pd.DataFrame([[3, 2, 2, "a, b", False, "why", "", None]], columns=EMPTY["duplicates"])
PERMITTED = pd.DataFrame([[4, 2, 1, "a, b", True, "died", "", None]], columns=EMPTY["duplicates"])
DIED = make_process("worker-1", intended="running", exit_code=-9)
BACK = make_process("worker-1", start_ns=START_NS + 5)
OTHER = make_process("worker-2", end_ns=START_NS + 100 * 10**9)


@pytest.mark.parametrize(
    ("disturbed", "said"),
    [
        ({}, "Survived."),
        ({"latency_ms": slow_until(63)}, "Survived."),
        ({"duplicates": PERMITTED}, "Survived."),
        ({"record": {"processes": [DIED, BACK]}}, "Survived."),
        ({"conservation": states(lost=1)}, "Did not survive: 1 job (7) lost."),
        ({"conservation": states(unknown=1)}, "Unknown: it is not known which jobs were lost: there is no complete list"),
        (
            {"conservation": states(unexpected=1)},
            "Not passed: survived, but of 10 jobs enqueued: 1 in the queue although no",
        ),
        ({"duplicates": REPEATED}, "Did not survive: 1 job (3) re-executed with no failure that explains it."),
        ({"overdue": overdue("held_for_the_dead")}, "Did not survive: 2 jobs (5, 6) stranded with a worker that had died."),
        (
            {"overdue": overdue("not_yet_due")},
            "Unknown: 2 jobs (5, 6) still held by a worker that had died, and the queue does not",
        ),
        ({"record": {"processes": [DIED, OTHER]}}, "Did not survive: worker-1 exited unexpectedly, and nothing took the place."),
        ({"latency_ms": slow_until(80)}, "Did not survive: not back to normal in the 25 s after longtx."),
        (
            {"completed": lambda t_s: 100 if t_s < 30 else 0, "stalled": {"longtx": 30}},
            "Did not survive: not back to normal in the 25 s after longtx, and no job was completed.",
        ),
        (
            {"depth": lambda t_s: 100.0 * t_s},
            "Unknown: it is not known whether the queue was back to normal in the phase after longtx: the queue did not keep up",
        ),
        ({"conservation": states(lost=1), "latency_ms": slow_until(80)}, "Did not survive: 1 job (7) lost (and 1 more)."),
    ],
)
def test_a_queue_survives_if_every_part_of_the_outcome_is_as_it_must_be(
    tmp_path: Path, disturbed: dict[str, Any], said: str
) -> None:
    assert words(tmp_path, "survives", **disturbed).startswith(said)


def test_a_job_whose_rescue_is_declared_for_later_than_the_run_is_not_held_against_the_queue(tmp_path: Path) -> None:
    queue = {**make_record()["queue"], "expiry_s": 3600.0, "claims_survive_connection": True}
    run, verdict = judged(tmp_path, "survives", record={"queue": queue}, overdue=overdue("not_yet_due"))
    assert describe_verdict(run.record, verdict) == "Survived."
    said = {each.subject: each.reason for each in verdict.findings if each.check == "requirements" and each.result == "pass"}
    assert said["no job is stranded beyond the declared rescue"] == (
        "2 jobs (5, 6) stranded with a worker that had died, rescued after 60 min, as declared (not seen)"
    )
    assert {each.result for each in verdict.findings if each.check in ("conservation", "duplicates", "left behind")} == {"info"}


@pytest.mark.parametrize(
    ("required", "disturbed", "said"),
    [
        (["unaffected"], {}, "Was unaffected."),
        (
            ["unaffected"],
            {"latency_ms": slow_until(56)},
            "Was affected: slower in longtx: 95 of 100 jobs took up to 800 ms instead of 10 ms.",
        ),
        (
            ["unaffected"],
            {"depth": lambda t_s: 100.0 * t_s},
            "Unknown: it is not known how long jobs took in longtx: the queue did",
        ),
        (["recovers"], {"latency_ms": slow_until(63)}, "Recovered."),
        (["recovers"], {"latency_ms": slow_until(80)}, "Did not recover: not back to normal in the 25 s after longtx."),
        (["safe"], {"latency_ms": slow_until(80)}, "Kept every job safe."),
        (["safe"], {"conservation": states(lost=1)}, "Did not keep every job safe: 1 job (7) lost."),
        (["safe", "recovers"], {}, "Kept every job safe, recovered."),
        (["safe", "recovers"], {"conservation": states(lost=1)}, "Not as required: 1 job (7) lost."),
    ],
)
def test_each_name_requires_its_own_parts(tmp_path: Path, required: list[str], disturbed: dict[str, Any], said: str) -> None:
    assert words(tmp_path, *required, **disturbed).startswith(said)


def test_jobs_are_judged_by_the_checks_if_nothing_is_required_of_them(tmp_path: Path) -> None:
    _, verdict = judged(tmp_path, "recovers", conservation=states(lost=1))
    (of_jobs,) = (each for each in verdict.findings if each.check == "conservation")
    assert (of_jobs.result, verdict.verdict) == ("fail", "fail")


def test_a_run_that_was_ended_early_never_passes(tmp_path: Path) -> None:
    _, verdict = judged(tmp_path, "survives", record={"ended_early": "the queue had not recovered"})
    assert (verdict.verdict, verdict.reason) == (
        "unknown",
        "the run was ended early, because the queue had not recovered; its records do not confirm that",
    )


def test_without_a_fault_only_jobs_and_workers_are_judged(tmp_path: Path) -> None:
    run, verdict = judged(tmp_path, "survives", injections=pd.DataFrame(columns=EMPTY["injections"]))
    of_recovery = [each for each in verdict.findings if each.subject.startswith("back to normal")]
    assert [each.result for each in of_recovery] == ["info"]
    assert describe_verdict(run.record, verdict) == "Survived."
