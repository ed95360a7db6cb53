"""Processes of the load are stopped where they stand, and go on later as if no time had passed: SIGSTOP and SIGCONT."""

from __future__ import annotations

import signal
import time
from typing import Any

import psutil
from pydantic import Field

from stallbench.engines.error_kinds import ErrorKind
from stallbench.errors import NotCarriedOutError
from stallbench.faults.fault import Fault, FaultOptions
from stallbench.processes.process import Process

_SEEN_WITHIN_S = 10.0
_LOOK_AGAIN_S = 0.002


class PauseOptions(FaultOptions):
    """Options of `Pause`."""

    count: int | None = Field(default=None, ge=1, description="how many of them, drawn at random; all if not given")


class Pause(Fault[PauseOptions]):
    """A worker that comes back after its reservation has expired completes a job that is another's by now."""

    kind = "pause"
    summary = "stops workers or producers where they stand (SIGSTOP), and lets them go on at its end (SIGCONT)"
    source = "long garbage collections, frozen containers, live migration; Kleppmann, 'How to do distributed locking' (2016)"
    explains_errors = frozenset({ErrorKind.CONNECTION_LOST, ErrorKind.LOCK_TIMEOUT})
    places = ("worker", "producer")
    options_type = PauseOptions

    def inject(self) -> dict[str, Any]:
        """Stop them, and see in the kernel that they stand."""
        self._paused: list[Process] = []
        candidates = self.context.load.named(self.on)
        if not candidates:
            raise NotCarriedOutError(f"there is no {self.on} to pause")
        count = min(self.options.count or len(candidates), len(candidates))
        for process in self.context.random.sample(candidates, count):
            self._paused.append(process)
            process.signal(signal.SIGSTOP)
        for process in self._paused:
            _wait_until(process, paused=True)
        return {"paused": [process.name for process in self._paused]}

    def find_lapse(self) -> str | None:
        """Look whether all of them still stand."""
        moving = [process.name for process in self._paused if not _is_paused(process)]
        return f"no longer paused: {', '.join(moving)}" if moving else None

    def undo(self) -> dict[str, Any]:
        """Let those that are still there go on, and see that they do."""
        for process in self._paused:
            process.signal(signal.SIGCONT)
        for process in self._paused:
            _wait_until(process, paused=False)
        return {}


def _is_paused(process: Process) -> bool:
    """Whether the kernel says that it stands; one that has ended does not."""
    try:
        return process.poll() is None and psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return False


def _wait_until(process: Process, *, paused: bool) -> None:
    until_s = time.monotonic() + _SEEN_WITHIN_S
    while _is_paused(process) != paused:
        if time.monotonic() >= until_s:
            raise NotCarriedOutError(f"{process.name} should {'stand still' if paused else 'go on'}, but does not")
        time.sleep(_LOOK_AGAIN_S)
