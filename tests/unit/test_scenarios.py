"""Every shipped scenario and variant is valid and says what it shows."""

from __future__ import annotations

import pytest

from stallbench.scenario.file import find_scenarios, read_scenario, read_variants

pytestmark = pytest.mark.slow

SHIPPED = [(name, variant) for name, path in find_scenarios().items() for variant in (None, *read_variants(path))]


@pytest.mark.parametrize(("name", "variant"), SHIPPED)
def test_a_shipped_scenario_is_valid(name: str, variant: str | None) -> None:
    scenario = read_scenario(name, variant=variant)
    assert (scenario.name, scenario.variant) == (name, variant)


@pytest.mark.parametrize(("name", "variant"), SHIPPED)
def test_a_shipped_scenario_has_expectations_with_reasons(name: str, variant: str | None) -> None:
    scenario = read_scenario(name, variant=variant)
    assert scenario.summary
    assert scenario.expect
    assert all(expectation.because for expectation in scenario.expect)


@pytest.mark.parametrize("name", find_scenarios())
def test_every_variant_has_a_summary(name: str) -> None:
    assert all(read_variants(find_scenarios()[name]).values())


def test_a_variant_with_a_queue_of_its_own_inherits_no_options_of_the_other() -> None:
    scenario = read_scenario("longtx", variant="skip_locked", overrides=["producers.rate=10"])
    assert scenario.queue.kind == "skip_locked"
    assert scenario.queue.options == {}
    assert scenario.producers.rate == 10


def test_a_change_addresses_a_phase_by_its_name() -> None:
    scenario = read_scenario("longtx", overrides=["phases.longtx.duration=3s"])
    assert {phase.name: phase.duration_s for phase in scenario.phases}["longtx"] == 3
    assert read_scenario("longtx").phases[2].duration_s != 3


def test_changes_are_applied_after_the_variant() -> None:
    scenario = read_scenario("longtx", variant="no_recheck", overrides=["queue.recheck=true"])
    assert scenario.queue.options == {"recheck": True}


def test_a_text_need_not_be_quoted_in_a_change() -> None:
    assert read_scenario("longtx", overrides=["workers.work=20ms"]).workers.work_s == pytest.approx(0.02)


@pytest.mark.parametrize(("name", "variant"), SHIPPED)
def test_a_scenario_that_expects_losses_or_errors_says_how_many_at_most_or_which(name: str, variant: str | None) -> None:
    expected = read_scenario(name, variant=variant).expect
    for metric in ("lost.count", "re_completed.count"):
        bounds = [one for one in expected if one.metric == metric]
        assert not bounds or any(one.limits(metric) for one in bounds), metric
    explained_by_a_fault = {("pgbouncer", "prepared"), ("pool-exhaustion", None), ("pool-exhaustion", "mariadb")}
    without = [one for one in expected if one.metric == "errors.count" and one.at_most is None and not one.codes]
    assert not without or (name, variant) in explained_by_a_fault
