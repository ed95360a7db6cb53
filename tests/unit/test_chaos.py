"""Combined faults: the schedule that a phase's `chaos` stands for, and what a user gets for one that cannot be planned."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from stallbench.errors import BadInputError
from stallbench.injection.choices import FaultChoice
from stallbench.injection.faults import find_faults
from stallbench.scenario.chaos import combination_of, list_possible_faults, with_seed
from stallbench.scenario.model import Scenario
from stallbench.studies.soak.plan import format_cycle_command, require_fit_for_soak
from tests.unit.scenario_text import SMALL, find_lines, read

EVERY_S, DURATION_S = 20, 90
SEEDS = 100
KINDS = '["latency", { kind = "kill", on = "worker-1", every = "1s" }, "timeout", "pause", "crash", "failing_jobs", "burst"]'
PHASE = '\n[[phases]]\nname = "storm"\nduration = "{duration}s"\nchaos = {{ {chaos} }}\n'
PATH = "phases[3].chaos"
COMBINED = [name for name, kind in find_faults().items() if kind.combination]


def text(chaos: str = f'kinds = {KINDS}, every = "{EVERY_S}s"', more: str = "", duration: int = DURATION_S) -> str:
    return SMALL + PHASE.format(chaos=chaos, duration=duration) + more


def pairs_of(scenario: Scenario) -> list[tuple[FaultChoice, FaultChoice]]:
    faults = scenario.phases[3].faults
    return list(zip(faults[::2], faults[1::2], strict=True))


def ends_s(fault: FaultChoice) -> float:
    assert fault.for_s is not None
    return fault.after_s + fault.for_s


def test_the_same_seed_gives_the_same_schedule(tmp_path: Path) -> None:
    once, again = (read(tmp_path, text()) for _ in range(2))
    assert once.phases == again.phases


@pytest.mark.parametrize("change", ["seed=2", "phases.storm.chaos.seed=2"])
def test_either_seed_gives_another_schedule_of_the_same_kinds(tmp_path: Path, change: str) -> None:
    before, after = read(tmp_path, text()), read(tmp_path, text(), overrides=[change])
    assert before.phases[3].faults != after.phases[3].faults
    assert before.phases[3].chaos is not None
    assert after.phases[3].chaos is not None
    assert before.phases[3].chaos.kinds == after.phases[3].chaos.kinds


def test_two_faults_overlap_in_each_interval_and_then_there_is_none(tmp_path: Path) -> None:
    scenario = read(tmp_path, text())
    for seed in range(SEEDS):
        pairs = pairs_of(with_seed(scenario, seed))
        assert len(pairs) == DURATION_S // EVERY_S
        for number, (first, second) in enumerate(pairs):
            begin_s = number * EVERY_S
            assert first.after_s == begin_s
            assert begin_s + EVERY_S / 10 <= second.after_s <= begin_s + EVERY_S / 5
            assert min(ends_s(first), ends_s(second)) - second.after_s >= EVERY_S / 10 - 0.2, "both are active for a while"
            assert max(ends_s(first), ends_s(second)) <= begin_s + EVERY_S / 2 + 0.2, "half of the interval is for recovery"


def test_two_faults_never_prevent_each_other(tmp_path: Path) -> None:
    scenario = read(tmp_path, text())
    for first, second in (pair for seed in range(SEEDS) for pair in pairs_of(with_seed(scenario, seed))):
        kinds = {first.kind, second.kind}
        assert len(kinds) == 2
        assert not kinds >= {"timeout", "crash"}, "both make the server unavailable"
        assert not kinds >= {"timeout", "kill"}, "the replacement could not connect"
        assert not kinds >= {"pause", "failing_jobs"}, "no worker would execute a job"
        assert not kinds >= {"pause", "kill"}, "a killed worker is no longer paused"
        assert first.kind != "crash", "the server is back soon: it would not overlap with the second fault"


def test_every_kind_comes_and_keeps_its_target_and_options(tmp_path: Path) -> None:
    scenario = read(tmp_path, text())
    faults = [fault for seed in range(SEEDS) for pair in pairs_of(with_seed(scenario, seed)) for fault in pair]
    found = {fault.kind: fault for fault in faults}
    assert set(found) == {"latency", "kill", "timeout", "pause", "crash", "failing_jobs", "burst"}
    assert (found["kill"].on, found["kill"].options) == ("worker-1", {"every": "1s"})
    assert (found["latency"].on, found["latency"].options) == ("primary", {})
    assert found["pause"].on == "workers"
    assert found["burst"].options["at_once"] > 0, "by default a burst has no jobs"


def test_the_schedule_is_one_that_a_scenario_could_have_as_faults(tmp_path: Path) -> None:
    def as_table(fault: FaultChoice) -> str:
        options = "".join(f", {key} = {json.dumps(value)}" for key, value in fault.options.items())
        times = f'after = "{fault.after_s:g}s", for = "{fault.for_s:g}s"'
        return f'{{ kind = "{fault.kind}", on = "{fault.on}", {times}{options} }}'

    planned = read(tmp_path, text()).phases[3].faults
    written = text().replace("chaos =", "ignored =").split("ignored =")[0] + f"faults = [{', '.join(map(as_table, planned))}]\n"
    assert read(tmp_path, written).phases[3].faults == planned


@pytest.mark.parametrize("kind", COMBINED)
def test_a_kind_that_can_be_combined_has_a_partner_and_lasts(kind: str) -> None:
    own = combination_of(kind)
    assert any(own.fits(combination_of(other)) for other in COMBINED)
    fault = find_faults()[kind]
    options = fault.options_type.model_validate(own.options)
    assert not fault(kind, own.on, options, None).is_momentary  # type: ignore[arg-type]
    assert not fault.needs_of_database


@pytest.mark.parametrize(
    ("chaos", "lines"),
    [
        (
            'kinds = ["latncy", "kill"]',
            [f'{PATH}.kinds[0].kind is "latncy"; expected one of {", ".join(COMBINED)}; did you mean "latency"?'],
        ),
        (
            'kinds = ["power_loss", "latency"]',
            [
                f'{PATH}.kinds[0].kind is "power_loss", which cannot be combined; expected one of {", ".join(COMBINED)}; did you mean "slow_close"?'
            ],
        ),
        (
            'kinds = ["kill", { kind = "latency", latenci = "1s" }]',
            [
                f"{PATH}.kinds[1].latenci: unknown key of latency; allowed are kind, on, stream, toxicity, latency, jitter;"
                ' did you mean "latency"?'
            ],
        ),
        (
            'kinds = ["kill", { kind = "latency", on = "replica-9" }]',
            [
                f'{PATH}.kinds[1].on is "replica-9"; expected one of primary, replica-1, replication-replica-1; did you mean "replica-1"?'
            ],
        ),
        (
            'kinds = ["kill", { kind = "latency", after = "3s" }]',
            [f"{PATH}.kinds[1].after is given, but the schedule decides when combined faults begin and end; leave it out"],
        ),
        ('kinds = ["latency"]', [f'{PATH}.kinds has 1; expected at least two, like kinds = ["latency", "kill"]']),
        ("kinds = []", [f'{PATH}.kinds has 0; expected at least two, like kinds = ["latency", "kill"]']),
        (
            'kinds = ["crash", "timeout", "pause"]',
            [],
        ),
        (
            'kinds = ["crash", "latency", "timeout"]',
            [
                f'{PATH}.kinds[2].kind is "timeout", which can be combined with none of the others; add one of pause, or leave it out'
            ],
        ),
        (
            'kinds = ["latency", "kill"], every = "91s"',
            [f"{PATH}.every is 91 s, but the phase ends after 90 s; expected at most that, or a longer phase"],
        ),
        ('kinds = ["latency", "kill"], every = "9s"', [f'{PATH}.every is "9s"; expected at least 10s']),
        (
            'kinds = ["latency", "kill"], evry = "20s"',
            [f'{PATH}.evry: unknown key; allowed are kinds, every, seed; did you mean "every"?'],
        ),
        (
            'kinds = ["latency", 3]',
            [f'{PATH}.kinds[1] is 3; expected a kind, like "latency", or a table, like {{ kind = "latency" }}'],
        ),
        ('every = "20s"', [f'{PATH}.kinds has 0; expected at least two, like kinds = ["latency", "kill"]']),
    ],
)
def test_each_issue_says_what_is_wrong_and_what_is_allowed(tmp_path: Path, chaos: str, lines: Sequence[str]) -> None:
    if lines:
        assert find_lines(tmp_path, text(chaos)) == lines
    else:
        assert len(pairs_of(read(tmp_path, text(chaos)))) == DURATION_S // 30


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ("faults = []", f"{PATH} is given beside faults; expected one of the two"),
        (
            'until = "caught_up"',
            'phases[3].until is "caught_up", but the combined faults are planned for the whole duration; leave it out',
        ),
    ],
)
def test_what_does_not_go_with_combined_faults_is_refused(tmp_path: Path, more: str, line: str) -> None:
    assert find_lines(tmp_path, text(more=more)) == [line]


def test_faults_of_a_variant_replace_the_combined_ones_and_the_reverse(tmp_path: Path) -> None:
    variants = """
[variants.calm]
phases.storm.faults = []
[variants.calm_then_not]
phases.longtx.chaos = { kinds = ["latency", "kill"], every = "10s" }
"""
    assert read(tmp_path, text(more=variants), variant="calm").phases[3].chaos is None
    assert len(read(tmp_path, text(more=variants), variant="calm_then_not").phases[2].faults) == 2


def test_a_soak_refuses_a_kind_that_ends_the_server_whether_or_not_it_is_drawn(tmp_path: Path) -> None:
    scenario = read(tmp_path, text('kinds = ["latency", "kill", "crash"], every = "80s"'))
    drawn = {fault.kind for fault in scenario.phases[3].faults}
    assert [path for path, _ in list_possible_faults(scenario.phases[3])] == [f"chaos.kinds[{number}]" for number in range(3)]
    with pytest.raises(BadInputError, match=r"phases\[3\]\.chaos\.kinds\[2\]: crash ends a server") as raised:
        require_fit_for_soak(with_seed(scenario, next(seed for seed in range(99) if not _draws_crash(scenario, seed))))
    assert len(str(raised.value).splitlines()) == 1, drawn


def _draws_crash(scenario: Scenario, seed: int) -> bool:
    return any(fault.kind == "crash" for fault in with_seed(scenario, seed).phases[3].faults)


def test_a_cycle_of_a_soak_has_its_own_schedule_which_its_command_repeats(tmp_path: Path) -> None:
    begun = read(tmp_path, text(), overrides=["workers.count=3"])
    cycle = with_seed(begun, begun.seed + 6)
    assert cycle.phases[3].faults != begun.phases[3].faults
    assert format_cycle_command(cycle) == f"stallbench run {begun.file} --set workers.count=3 --set seed=7"
    assert read(tmp_path, text(), overrides=["workers.count=3", "seed=7"]).phases == cycle.phases
