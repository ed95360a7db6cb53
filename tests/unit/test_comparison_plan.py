"""What a comparison runs, in which order, from which seeds; and what it refuses before anything is started."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.libraries import find_libraries
from stallbench.scenario.file import ScenarioError
from stallbench.studies.comparison.plan import Load, interleave, make_plan
from stallbench.verdicts.baseline.compared_metric import choose_subjects
from tests.unit.made_up_comparison import make_scenario
from tests.unit.scenario_text import SMALL, write

NAMES = ["control", "a", "b", "c"]
VARIED = f"""{SMALL}
[variants.skip_locked]
summary = "Another queue."
queue.kind = "skip_locked"
[variants.reader]
workers.count = 3
also_expect = [{{ metric = "depth.max", phase = "longtx", at_most = 10 }}]
"""


def test_every_round_has_every_variant_once_and_is_done_before_the_next() -> None:
    runs = list(interleave(NAMES, rounds=5, seed=1))
    assert [run.number for run in runs] == list(range(1, 21))
    assert [run.round for run in runs] == [round_ for round_ in range(1, 6) for _ in NAMES]
    for round_ in range(1, 6):
        assert sorted(run.variant for run in runs if run.round == round_) == sorted(NAMES)


def test_no_variant_has_a_fixed_position_in_the_rounds() -> None:
    runs = list(interleave(NAMES, rounds=400, seed=1))
    first = Counter(run.variant for run in runs if run.number % len(NAMES) == 1)
    assert all(70 < first[name] < 130 for name in NAMES)


def test_the_order_and_the_seeds_come_from_the_seed() -> None:
    assert list(interleave(NAMES, 5, seed=7)) == list(interleave(NAMES, 5, seed=7))
    assert [run.variant for run in interleave(NAMES, 5, seed=7)] != [run.variant for run in interleave(NAMES, 5, seed=8)]


def test_a_round_has_one_seed_and_the_next_another() -> None:
    seeds: dict[int, set[int]] = {}
    for run in interleave(NAMES, 5, seed=1):
        seeds.setdefault(run.round, set()).add(run.seed)
    assert all(len(of_round) == 1 for of_round in seeds.values())
    assert len(set.union(*seeds.values())) == 5


def test_no_phase_of_a_comparison_ends_because_its_workers_fell_behind(tmp_path: Path) -> None:
    text = VARIED.replace('name = "longtx"', 'name = "longtx"\nuntil = "fallen_behind"')
    plan = make_plan(str(write(tmp_path, text)), variants=None, rounds=1, seed=1)
    for scenario in plan.chosen.values():
        (phase,) = [phase for phase in scenario.phases if phase.name == "longtx"]
        assert phase.until == "duration"
        assert "phases.longtx.until=duration" in scenario.changes, "the command that repeats a run has it, too"


def test_without_names_mitigations_are_compared_if_there_are_any(tmp_path: Path) -> None:
    text = VARIED.replace('summary = "Another queue."', 'summary = "Another queue."\nmitigation = "a book"')
    plan = make_plan(str(write(tmp_path, text)), variants=None, rounds=2, seed=None)
    assert list(plan.chosen) == ["control", "skip_locked"]
    assert {run.variant for run in plan.runs} == {"control", "skip_locked"}


def test_without_names_all_variants_are_compared_and_control_is_the_reference(tmp_path: Path) -> None:
    plan = make_plan(str(write(tmp_path, VARIED)), variants=None, rounds=2, seed=None)
    assert list(plan.chosen) == ["control", "skip_locked", "reader"]
    assert (plan.reference, plan.seed, len(plan.runs)) == ("control", 1, 6)
    assert plan.sum_durations_s(plan.runs) == 6 * 16


def test_control_is_compared_only_if_named_and_is_the_reference_whatever_its_position(tmp_path: Path) -> None:
    path = str(write(tmp_path, VARIED))
    assert list(make_plan(path, variants="reader, control", rounds=1, seed=1).chosen) == ["control", "reader"]
    assert list(make_plan(path, variants="reader,skip_locked", rounds=1, seed=1).chosen) == ["reader", "skip_locked"]


def test_a_run_carries_its_seed_and_the_changes_so_that_it_can_be_repeated(tmp_path: Path) -> None:
    plan = make_plan(str(write(tmp_path, VARIED)), variants=None, rounds=1, seed=5, overrides=["workers.count=4"])
    run = next(run for run in plan.runs if run.variant == "skip_locked")
    scenario = plan.scenario_of(run)
    assert (scenario.seed, scenario.queue.kind, scenario.workers.count) == (run.seed, "skip_locked", 4)
    assert scenario.changes == ("workers.count=4", f"seed={run.seed}")


@pytest.mark.parametrize(
    ("variants", "line"),
    [
        (
            "skip_lock,reader",
            '--variants "skip_lock,reader": there is no variant "skip_lock"; did you mean "skip_locked"?'
            " Expected one of control, skip_locked, reader",
        ),
        ("reader,reader", '--variants "reader,reader": "reader" is named twice'),
        (
            "reader",
            '--variants "reader": names only one; a comparison needs two or more; control is the scenario without a variant',
        ),
        ("", '--variants "": there is no variant ""; expected one of control, skip_locked, reader'),
    ],
)
def test_invalid_names_are_refused(variants: str, line: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError) as raised:
        make_plan(str(write(tmp_path, VARIED)), variants=variants, rounds=1, seed=1)
    assert str(raised.value) == line
    assert raised.value.exit_code == 2


def test_a_scenario_without_variants_has_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="has no variants; a comparison needs two or more"):
        make_plan(str(write(tmp_path, SMALL)), variants=None, rounds=1, seed=1)


REFERRING = f"""{VARIED}
[variants.other]
workers.count = 4
[variants.cure]
mitigation = "a book"
workers.count = 5
judged_by = {{ metric = "latency_ms.p95", phase = "longtx", better = "lower", reference = "reader" }}
"""


def test_what_a_mitigation_is_compared_with_takes_part_by_default(tmp_path: Path) -> None:
    plan = make_plan(str(write(tmp_path, REFERRING)), variants=None, rounds=1, seed=1)
    assert list(plan.chosen) == ["control", "reader", "cure"]


def test_a_variant_is_not_compared_without_its_own_reference(tmp_path: Path) -> None:
    with pytest.raises(BadInputError) as refused:
        make_plan(str(write(tmp_path, REFERRING)), variants="control,cure", rounds=1, seed=1)
    assert str(refused.value) == (
        '--variants "control,cure": cure is compared with reader, which takes no part; expected reader, too'
    )


def test_a_variant_whose_own_reference_cannot_be_run_is_left_out(tmp_path: Path) -> None:
    plan = make_plan(str(write(tmp_path, REFERRING)), variants="control,skip_locked,reader,cure", rounds=1, seed=1)
    assert plan.without({"reader": "too new"}).left_out == {
        "reader": "too new",
        "cure": "it is compared with reader, which is left out",
    }


def test_an_issue_in_any_variant_is_reported_before_the_first_run(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"variants\.reader\.workers\.count is -1"):
        make_plan(str(write(tmp_path, VARIED.replace("count = 3", "count = -1"))), variants=None, rounds=1, seed=1)


def test_by_default_the_latency_in_the_disturbed_phase_is_ranked() -> None:
    disturbed = [
        {"name": "baseline", "duration": "20s"},
        {"name": "longtx", "duration": "40s", "longrunners": [{"kind": "idle_writer", "on": "primary"}]},
        {"name": "recovered", "duration": "20s"},
    ]
    ranked = choose_subjects([make_scenario(phases=disturbed)])[0]
    assert (ranked.key, ranked.better, ranked.role) == ("latency_ms.p95 in longtx", "lower", "ranked")


def test_the_ranked_metric_is_that_of_the_section_else_of_the_first_expectation() -> None:
    said = {"metric": "completed.rate", "phase": "longtx", "better": "higher"}
    ranked = choose_subjects([make_scenario(comparison=said)])[0]
    assert (ranked.key, ranked.better, ranked.role) == ("completed.rate in longtx", "higher", "ranked")
    ranked = choose_subjects([make_scenario()])[0]
    assert (ranked.key, ranked.better) == ("claim_ms.p95 in longtx / baseline", "lower")


def test_a_metric_of_which_neither_direction_is_better_ranks_nothing() -> None:
    """More connections are not worse by themselves, so a variant with more of them must not be called worse."""
    connections = {"metric": "connections.max", "phase": "longtx", "at_most": 50}
    completed = {"metric": "completed.rate", "phase": "longtx", "at_least": 50}
    assert choose_subjects([make_scenario(expect=[connections, completed])])[0].key == "completed.rate in longtx"
    assert choose_subjects([make_scenario(expect=[connections])])[0].key == "latency_ms.p95"
    assert choose_subjects([make_scenario(expect=[])])[0].key == "latency_ms.p95"


def test_metrics_of_all_expectations_are_compared_once_and_costs_after_them() -> None:
    more = [
        {"metric": "depth.max", "phase": "longtx", "at_most": 9},
        {"metric": "depth.last", "phase": "recovered", "at_most": 1},
    ]
    subjects = choose_subjects([make_scenario(), make_scenario(variant="other", expect=more)])
    assert [subject.key for subject in subjects] == [
        "claim_ms.p95 in longtx / baseline",
        "depth.last in recovered",
        "depth.max in longtx",
        "time_to_saturation_s in longtx",
        "completed.rate in baseline",
        "claim_ms.p50 in baseline",
        "wal_bytes.rate in baseline",
        "re_executed.count",
        "lost.count",
        "refused_in_all.count",
        "executions.per_job",
        "order_diff.p99",
    ]


def test_an_absolute_metric_is_compared_with_its_own_baseline() -> None:
    said = {"metric": "claim_ms.p50", "phase": "longtx", "better": "lower"}
    subjects = choose_subjects([make_scenario(comparison=said)])
    assert [(subject.key, subject.role) for subject in subjects if subject.key == "claim_ms.p50 in baseline"] == [
        ("claim_ms.p50 in baseline", "baseline"),
        ("claim_ms.p50 in baseline", "cost"),
    ]


def test_what_cannot_be_run_is_left_out_and_the_others_are_interleaved_again(tmp_path: Path) -> None:
    plan = make_plan(str(write(tmp_path, VARIED)), variants=None, rounds=2, seed=None).without({"reader": "too new"})
    assert list(plan.chosen) == ["control", "skip_locked"]
    assert plan.left_out == {"reader": "too new"}
    assert [run.number for run in plan.runs] == [1, 2, 3, 4]
    assert "depth.max in longtx" not in [subject.key for subject in plan.subjects]


def test_with_nothing_left_to_compare_it_cannot_be_carried_out(tmp_path: Path) -> None:
    plan = make_plan(str(write(tmp_path, VARIED)), variants="control,reader", rounds=2, seed=None)
    with pytest.raises(NotCarriedOutError, match="reader is left out: too new"):
        plan.without({"reader": "too new"})


def test_libraries_take_the_place_of_the_queue_and_are_the_only_ones_unless_variants_are_named(tmp_path: Path) -> None:
    path = str(write(tmp_path, VARIED))
    plan = make_plan(path, variants=None, libraries="pgqueuer, procrastinate", rounds=1, seed=1)
    assert [(name, scenario.queue.kind) for name, scenario in plan.chosen.items()] == [
        ("library:pgqueuer", "library:pgqueuer"),
        ("library:procrastinate", "library:procrastinate"),
    ]
    with_control = make_plan(path, variants="control", libraries="procrastinate", rounds=1, seed=1)
    assert list(with_control.chosen) == ["control", "library:procrastinate"]
    assert with_control.reference == "control"


def test_all_libraries_are_those_that_can_run_the_scenario_and_the_others_are_left_out_with_a_reason(tmp_path: Path) -> None:
    every_kind = {LIBRARY_PREFIX + name for name in find_libraries()}
    on_postgres = make_plan(str(write(tmp_path, VARIED)), variants=None, libraries="all", rounds=1, seed=1)
    assert set(on_postgres.chosen) | set(on_postgres.left_out) == every_kind
    on_mariadb = make_plan("laravel-deadlock", variants="control,delete_mark", libraries="all", rounds=1, seed=1)
    assert "runs on postgres, not on mariadb" in on_mariadb.left_out["library:procrastinate"]


@pytest.mark.parametrize(
    ("libraries", "line"),
    [
        ("nosuch,pgqueuer", "there is no library 'nosuch'"),
        ("pgqueuer,pgqueuer", '"pgqueuer" is named twice'),
        ("pgqueuer", "a comparison needs two libraries or variants"),
    ],
)
def test_invalid_libraries_are_refused(libraries: str, line: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=line):
        make_plan(str(write(tmp_path, VARIED)), variants=None, libraries=libraries, rounds=1, seed=1)


def test_libraries_share_the_load_that_the_slowest_can_hold_or_each_has_its_own(tmp_path: Path) -> None:
    text = VARIED.replace("rate = 500", "capacity_share = 0.5", 1)
    path = str(write(tmp_path, text))
    capacities = {"library:pgqueuer": 100.0, "library:procrastinate": 400.0}
    loads = {}
    for load in get_args(Load):
        plan = make_plan(path, variants=None, libraries="pgqueuer,procrastinate", load=load, rounds=1, seed=1)
        loads[load] = [one.producers.rate for one in plan.with_capacities(capacities).chosen.values()]
    assert loads == {"common": [50, 50], "own": [50, 200]}


def test_a_load_of_their_own_is_for_libraries(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="--load own needs --libraries"):
        make_plan(str(write(tmp_path, VARIED)), variants=None, load="own", rounds=1, seed=1)
