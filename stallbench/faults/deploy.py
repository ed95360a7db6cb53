"""Workers are replaced as a deployment replaces them: SIGTERM, a grace period, SIGKILL, a new process."""

from __future__ import annotations

import time

from pydantic import Field

from stallbench.errors import NotCarriedOutError
from stallbench.faults.fault import Fault, FaultOptions
from stallbench.injection.record import Evidence
from stallbench.processes.process import Process
from stallbench.scenario.duration import Duration
from stallbench.waiting import wait_until

_READY_S = 30.0
_END_S = 5.0
"""How long after its grace period a worker that was killed has ended."""
_POLL_S = 0.01


class DeployOptions(FaultOptions):
    """Options of `Deploy`."""

    times: int = Field(default=1, ge=1, le=100, description="how many deployments, one after the other")
    at_a_time: int = Field(default=1, ge=1, description="how many workers are being replaced at the same time")
    grace_s: Duration = Field(
        default=10.0, alias="grace", ge=0, le=600, description="from SIGTERM until a worker that still runs gets SIGKILL"
    )
    pause_s: Duration = Field(default=1.0, alias="pause", ge=0, le=600, description="from one deployment to the next")


class Deploy(Fault[DeployOptions]):
    """A rolling deployment, as orchestrators carry it out. A replacement starts when its predecessor has ended.

    A worker that ends in another way than a clean shutdown makes the check ``processes`` fail, unless its grace period had passed.
    """

    kind = "deploy"
    summary = "replaces the workers one after the other: SIGTERM, SIGKILL after a grace period, and a new process"
    source = "Kubernetes, 'Pod Lifecycle', section 'Termination of Pods'; systemd's TimeoutStopSec; Heroku's dyno restarts"
    targets = ("worker",)
    options_type = DeployOptions

    def inject(self) -> Evidence:
        """Ask the first workers to stop."""
        self._killed: list[str] = []
        self._replaced: list[str] = []
        self._slowest_stop_s = 0.0
        self._completed = 0
        self._stopping: dict[Process, float] = {}
        """When each worker was asked to stop (monotonic)."""
        self._starting: dict[Process, float] = {}
        """When each replacement was started (monotonic)."""
        self._next_s = time.monotonic()
        self._waiting = self._find_workers()
        self._go_on()
        return self._evidence()

    def keep_up(self) -> None:
        """Go on: kill those whose grace period has passed, start replacements, stop the next ones."""
        self._go_on()

    def is_over(self) -> bool:
        """Whether all deployments are complete."""
        return self._completed == self.options.times

    def find_lapse(self) -> str | None:
        """Return how many deployments its phase was too short for."""
        if self.is_over():
            return None
        return f"only {self._completed} of {self.options.times} deployments were complete when its time was over"

    def undo(self) -> Evidence:
        """Wait for the workers that are being stopped, and replace them."""
        wait_until(self._are_all_replaced, within_s=self.options.grace_s + _END_S, every_s=_POLL_S)
        return self._evidence()

    def _evidence(self) -> Evidence:
        return {
            "deployments": self._completed,
            "replaced": self._replaced,
            "killed": self._killed,
            "slowest_stop_s": round(self._slowest_stop_s, 3),
        }

    def _find_workers(self) -> list[Process]:
        workers = self.context.load.named(self.on)
        if not workers:
            raise NotCarriedOutError(f"{self.name}: there is no {self.on} to replace")
        return workers

    def _go_on(self) -> None:
        now_s = time.monotonic()
        self._replace_ended()
        for process, began_s in list(self._starting.items()):
            if process.is_ready:
                del self._starting[process]
            elif process.poll() is not None or now_s > began_s + _READY_S:
                raise NotCarriedOutError(f"{self.name}: {process.name} did not get ready{process.tail_log()}")
        if not (self._waiting or self._stopping or self._starting) and not self.is_over():
            self._completed += 1
            self._next_s = now_s + self.options.pause_s
            self._waiting = [] if self.is_over() else self._find_workers()
        while self._waiting and now_s >= self._next_s and len(self._stopping) + len(self._starting) < self.options.at_a_time:
            process = self._waiting.pop(0)
            process.ask_to_stop()
            self._stopping[process] = now_s

    def _are_all_replaced(self) -> bool:
        self._replace_ended()
        return not self._stopping

    def _replace_ended(self) -> None:
        for process, asked_s in list(self._stopping.items()):
            stopping_s = time.monotonic() - asked_s
            if process.poll() is None and stopping_s > self.options.grace_s:
                process.kill()
                self._killed.append(process.name)
            if process.poll() is not None:
                del self._stopping[process]
                self._slowest_stop_s = max(self._slowest_stop_s, stopping_s)
                self._replaced.append(process.name)
                replacement = self.context.load.replace(process)
                self._starting[replacement] = time.monotonic()
