"""Every two kinds of faults that can be combined, on real servers: both become active, are verified, end, and leave a queue that works."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import pytest

from stallbench.injection.choices import ChaosKind, FaultChoice
from stallbench.injection.faults import find_faults
from stallbench.records.injections import InjectionRecord
from stallbench.scenario.chaos import combination_of, make_fault
from stallbench.scenario.sections import Phase
from tests.integration.faulty_run import FaultyRun, faulty_run

pytestmark = pytest.mark.integration

COMBINED = [name for name, kind in find_faults().items() if kind.combination]
PAIRS = [
    (first, second)
    for first, second in permutations(COMBINED, 2)
    if combination_of(first).fits(combination_of(second)) and not combination_of(first).ends_early
]
"""In the order in which the two faults begin."""
OF_EACH_PLACE = [("timeout", "pause"), ("latency", "crash"), ("failing_jobs", "kill"), ("burst", "terminate_backends")]

TRIES = 5
"""Of two faults that have to overlap: where the machine stood still, the first may be over when the second begins."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyRun]:
    """One run for all tests of this file; each test ends its faults."""
    with faulty_run(tmp_path_factory.mktemp("combined"), workers=4) as running:
        yield running


def carry_out(run: FaultyRun, phase: Phase) -> list[InjectionRecord]:
    """Carry out the two faults of a phase until both have ended; returns their records."""
    run.injections.prepare_phase("only", 0, faults=phase.faults)
    run.injections.begin_phase("only")
    names = {record.name for record in run.faults()[-2:]}
    run.wait_until(
        lambda: all(record.verified_gone_ns for record in run.faults() if record.name in names),
        f"the end of {' and '.join(names)}",
    )
    return run.faults()[-2:]


@pytest.mark.parametrize(
    "pair", [pytest.param(pair, marks=() if pair in OF_EACH_PLACE else pytest.mark.long, id="+".join(pair)) for pair in PAIRS]
)
def test_two_faults_are_active_together_and_the_queue_works_afterwards(run: FaultyRun, pair: tuple[str, str]) -> None:
    run.wait_until_jobs_complete(5)
    faults = [
        make_fault(ChaosKind(kind=kind), after_s=0.4 * number, for_s=1.2 if pair in OF_EACH_PLACE else 3)
        for number, kind in enumerate(pair)
    ]
    phase = Phase.model_validate({"name": "only", "duration": "1h"}).model_copy(update={"faults": tuple(faults)})
    for _ in range(TRIES):
        first, second = carry_out(run, phase)
        assert (first.kind, second.kind) == pair
        assert (first.active_to_end, second.active_to_end) == (True, True), f"{first.why_ended} {second.why_ended}"
        assert first.end_ns is not None
        assert second.verified_ns is not None
        if are_together := second.verified_ns < first.end_ns:
            break
    assert are_together
    assert run.cluster.toxiproxy.toxics("primary") == {}
    assert run.cluster.toxiproxy.is_enabled("primary")
    run.wait_until_jobs_complete(20)


@pytest.mark.parametrize("kind", ["kill", "pause"])
def test_a_fault_of_the_producers_leaves_the_one_of_a_burst_alone(run: FaultyRun, kind: str) -> None:
    """It is a fault itself: killed, it would be no burst to its end, and its replacement would enqueue the same jobs again and go on."""
    options = {"every": "100ms", "replace_after": "0s"} if kind == "kill" else {}
    faults = [{"kind": "burst", "on": "producers", "rate": 20}, {"kind": kind, "on": "producers", "after": "0.1s", **options}]
    run.wait_until_jobs_complete(5)
    run.injections.prepare_phase("only", 0, faults=[FaultChoice.model_validate(fault) for fault in faults])
    run.injections.begin_phase("only")
    key = "killed" if kind == "kill" else "paused"
    run.wait_until(lambda: run.faults()[-1].evidence.get(key), "a producer that is hit")
    run.go_on_for(1)
    run.end_faults()
    burst, other = run.faults()[-2:]
    assert (burst.active_to_end, other.active_to_end) == (True, True), f"{burst.why_ended} {other.why_ended}"
    hit = set(other.evidence[key])
    assert burst.evidence["producer"] not in hit
    (left,) = run.load.running("producer")
    assert left.name.startswith("producer-1")
    run.wait_until_jobs_complete(20)
