"""A server that ends connections more slowly than they are due does not stop the run."""

from __future__ import annotations

import random

import pytest

from stallbench.engines.postgres.sessions import PostgresSessions
from stallbench.engines.sessions import ClientSession
from stallbench.injection.faults import terminate_backends
from stallbench.injection.faults.terminate_backends import TerminateBackends, TerminateBackendsOptions

EVERY_S = 0.1
A_TERMINATION_S = 3 * EVERY_S


class Clock:
    """A clock that only goes on while the server works."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(terminate_backends, "time", clock)
    return clock


@pytest.fixture
def ended(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The connections that a made-up server has ended, each of which takes it longer than the interval."""
    ended: list[int] = []

    class MadeUpSessions(PostgresSessions):
        def find_clients(self, connection: object) -> list[ClientSession]:
            return [ClientSession(7, "worker-1")]

        def end_and_wait(self, connection: object, session: int, within_s: float) -> bool:
            clock.now_s += A_TERMINATION_S
            ended.append(len(ended))
            return True

    monkeypatch.setattr(TerminateBackends, "_sessions", MadeUpSessions(), raising=False)
    monkeypatch.setattr(TerminateBackends, "_connection", None, raising=False)
    return ended


def test_each_call_ends_only_the_connections_that_were_due_when_it_began(clock: Clock, ended: list[int]) -> None:
    fault = object.__new__(TerminateBackends)
    fault.options = TerminateBackendsOptions(every=f"{EVERY_S}s", of="workers")  # type: ignore[arg-type] # as in a scenario
    fault.on, fault.random = "primary", random.Random(1)
    fault._terminated, fault._next_s = {}, clock.now_s
    counts = []
    for _ in range(3):
        fault.tick()
        counts.append(len(ended))
        clock.now_s += EVERY_S
    assert counts[0] == 1
    assert counts[2] <= 6
