"""Processes of the load are suspended and resumed later (SIGSTOP and SIGCONT). They do not notice the pause."""

from __future__ import annotations

import signal

from pydantic import Field

from stallbench.engines.error_kinds import ErrorKind
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.combination import Combination
from stallbench.injection.faults.fault import Fault, FaultOptions
from stallbench.processes.process import Process
from stallbench.records.injections import PAUSED, Evidence
from stallbench.waiting import wait_until

_VERIFIED_WITHIN_S = 10.0
_POLL_S = 0.002


class PauseOptions(FaultOptions):
    """Options of `Pause`."""

    count: int | None = Field(default=None, ge=1, description="how many processes, drawn at random; all if not given")


class Pause(Fault[PauseOptions]):
    """A worker that is resumed after its reservation has expired completes a job that another worker has claimed meanwhile."""

    kind = "pause"
    meanwhile = "{on} {were} suspended"
    summary = "suspends workers or producers (SIGSTOP), and resumes them at its end (SIGCONT)"
    source = "long garbage collections, frozen containers, live migration; Kleppmann, 'How to do distributed locking' (2016)"
    explains_errors = frozenset({ErrorKind.CONNECTION_LOST, ErrorKind.LOCK_TIMEOUT})
    targets = ("worker", "producer")
    combination = Combination(place="clients", on="workers", takes="workers")
    options_type = PauseOptions

    def inject(self) -> Evidence:
        """Suspend the processes, and wait until the kernel reports it."""
        self._paused: list[Process] = []
        candidates = self.context.load.named(self.on)
        if not candidates:
            raise NotCarriedOutError(f"there is no {self.on} to pause")
        count = min(self.options.count or len(candidates), len(candidates))
        for process in self.random.sample(candidates, count):
            self._paused.append(process)
            process.signal(signal.SIGSTOP)
        for process in self._paused:
            _wait_for_state(process, paused=True)
        return {PAUSED: [process.name for process in self._paused]}

    def why_inactive(self) -> str | None:
        """Check that all of them are still suspended."""
        resumed = [process.name for process in self._paused if not process.is_paused()]
        return f"no longer paused: {', '.join(resumed)}" if resumed else None

    def undo(self) -> Evidence:
        """Resume the processes that still exist, and wait until the kernel reports it."""
        for process in self._paused:
            process.signal(signal.SIGCONT)
        for process in self._paused:
            _wait_for_state(process, paused=False)
        return {}


def _wait_for_state(process: Process, *, paused: bool) -> None:
    if not wait_until(lambda: process.is_paused() == paused, within_s=_VERIFIED_WITHIN_S, every_s=_POLL_S):
        state = "suspended" if paused else "resumed"
        raise NotCarriedOutError(f"{process.name} was not {state} within {_VERIFIED_WITHIN_S:.0f} s")
