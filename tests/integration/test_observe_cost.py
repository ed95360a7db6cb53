"""`stallbench observe` on a server with ten thousand tables and hundreds of sessions: what it costs. `python -m benchmarks.observing` prints the figures."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from benchmarks.observing import OPTIONS, CrowdedServer, open_crowded_server
from stallbench.observe.observer import GREATEST_SHARE
from tests.integration.observed import innodb_observer_of, observer_of, section_of

pytestmark = [pytest.mark.integration, pytest.mark.long]

FOR_S = 60.0
FIRST_REPORT_S = 10.0


@pytest.fixture(scope="module", params=["postgres", "mariadb"])
def crowded(request: pytest.FixtureRequest) -> Iterator[CrowdedServer]:
    """A server with many tables, each with a row, and many sessions, which do nothing."""
    with open_crowded_server(request.param) as server:
        yield server


@pytest.mark.timeout(1800)
def test_the_first_report_sees_everything_within_ten_seconds(crowded: CrowdedServer) -> None:
    endpoint = crowded.endpoint
    began_s = time.monotonic()
    with observer_of(endpoint) if endpoint.engine == "postgres" else innodb_observer_of(endpoint) as observer:
        observation = observer.read()
    took_s = time.monotonic() - began_s
    assert not observation.not_visible, "no query met its time limit"
    assert took_s < FIRST_REPORT_S, f"{took_s:.1f} s"
    (depth,) = [row for row in section_of(observation, "Queues").rows if "jobs" in " ".join(row)]
    assert "50" in " ".join(depth)


@pytest.fixture(scope="module")
def idle(crowded: CrowdedServer) -> float:
    """What the server uses without an observation."""
    return crowded.measure_idle(FOR_S)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_it_uses_less_than_a_hundredth_of_a_core(crowded: CrowdedServer, idle: float, options: tuple[str, ...]) -> None:
    cost = crowded.measure(options, FOR_S, idle)
    assert max(cost.server, cost.client) < GREATEST_SHARE, cost
