"""Workers are replaced as a deployment replaces them: SIGTERM, a grace period, SIGKILL, and a new process before or after that."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.engines.error_kinds import ErrorKind
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.fault import Fault, FaultOptions, FaultPlace
from stallbench.injection.faults.replacement import Replacement, ReplacementPolicy, RestartPolicy
from stallbench.processes.process import Process
from stallbench.records.injections import KILLED, Evidence
from stallbench.waiting import wait_until

_END_S = 5.0
"""How long after its grace period a worker that was killed has ended."""
_POLL_S = 0.01


class DeployOptions(FaultOptions):
    """Options of `Deploy`."""

    times: int = Field(default=1, ge=1, le=100, description="how many deployments, one after the other")
    at_a_time: int = Field(default=1, ge=1, description="how many workers are being replaced at the same time")
    surge: int = Field(
        default=0,
        ge=0,
        description="how many new workers may run beside the old ones: a new one is ready before its predecessor is asked to stop; "
        "0: it starts when its predecessor has ended",
    )
    ready_for_s: Duration = Field(
        default=0.0,
        alias="ready_for",
        ge=0,
        le=600,
        description="with a surge: how long a new worker has been ready before its predecessor is asked to stop",
    )
    grace_s: Duration = Field(
        default=10.0, alias="grace", ge=0, le=600, description="from SIGTERM until a worker that still runs gets SIGKILL"
    )
    pause_s: Duration = Field(default=1.0, alias="pause", ge=0, le=600, description="from one deployment to the next")
    restart_after_s: Duration | None = Field(
        default=None,
        alias="restart_after",
        gt=0,
        le=600,
        description="delay until a new worker that could not start is started again; if not given, such a worker ends the run",
    )
    max_restart_after_s: Duration | None = Field(
        default=None,
        alias="max_restart_after",
        gt=0,
        le=600,
        description="backoff: the delay doubles with each further restart of the same worker, up to this; none: it stays the same",
    )
    restart_jitter: bool = Field(default=False, description="whether each delay is drawn between zero and the whole delay")


class Deploy(Fault[DeployOptions]):
    """A deployment, as orchestrators carry it out.

    A replacement starts when its predecessor has ended or, with a surge, before its predecessor is asked to stop. The check ``processes`` fails if a
    worker ends in another way than a clean shutdown, unless its grace period had passed, or it was started again because it could not start.
    """

    kind = "deploy"
    meanwhile = "a deployment replaced the workers"
    summary = "replaces the workers: SIGTERM, SIGKILL after a grace period, and a new process, after the old one or before it"
    source = (
        "Kubernetes, 'Pod Lifecycle' (termination of Pods, CrashLoopBackOff) and 'Deployments' (maxSurge, minReadySeconds); "
        "systemd's TimeoutStopSec; Heroku's dyno restarts; graphile/worker issue 564"
    )
    targets = ("worker",)
    options_type = DeployOptions

    @classmethod
    def list_explained_errors(cls, options: Mapping[str, Any]) -> frozenset[ErrorKind]:
        """A surge needs more connections than the fleet: the server may refuse the new workers' and other clients'."""
        return frozenset({ErrorKind.CANNOT_CONNECT}) if options.get("surge") else frozenset()

    @classmethod
    def find_issue(cls, options: DeployOptions, place: FaultPlace) -> tuple[str, str] | None:
        """Find an issue: an option that needs another one."""
        if options.ready_for_s and not options.surge:
            return "ready_for", " is given without a surge; expected surge = 1 or more beside it"
        if options.surge and options.at_a_time != 1:
            return "at_a_time", " is given beside a surge; expected one of the two"
        if options.restart_after_s is None and (options.max_restart_after_s is not None or options.restart_jitter):
            key = "restart_jitter" if options.max_restart_after_s is None else "max_restart_after"
            return key, " is given without restart_after; expected the delay before the first restart beside it"
        return None

    def inject(self) -> Evidence:
        """Begin to replace the first workers."""
        self._killed: list[str] = []
        self._replaced: list[str] = []
        self._slowest_stop_s = 0.0
        self._failures: list[str] = []
        self._deployments_s: list[float] = []
        self._active: list[Replacement] = []
        self._policy = self._make_policy()
        self._begin_at_s = self._begun_s = time.monotonic()
        self._waiting = self._find_workers()
        self._go_on()
        return self._evidence()

    def tick(self) -> None:
        """Kill the workers whose grace period has passed, start replacements, and stop the next workers."""
        self._go_on()

    def is_over(self) -> bool:
        """Whether all deployments are complete."""
        return len(self._deployments_s) == self.options.times

    def why_inactive(self) -> str | None:
        """Return that the phase was too short for all deployments, and how many were complete."""
        if self.is_over():
            return None
        last = f"; the last new worker that could not start {self._failures[-1]}" if self._failures else ""
        return f"only {len(self._deployments_s)} of {self.options.times} deployments were complete when its time was over{last}"

    def undo(self) -> Evidence:
        """Wait for the workers that are being stopped, and replace them."""
        if hasattr(self, "_active"):
            wait_until(self._are_all_wound_up, within_s=self.options.grace_s + _END_S, every_s=_POLL_S)
            return self._evidence()
        return {}

    def _evidence(self) -> Evidence:
        failures = {"could_not_start": len(self._failures), "first_failure": self._failures[0]} if self._failures else {}
        return {
            "deployments": len(self._deployments_s),
            "deployments_s": [round(took_s, 1) for took_s in self._deployments_s],
            "replaced": self._replaced,
            KILLED: self._killed,
            "slowest_stop_s": round(self._slowest_stop_s, 3),
            **failures,
        }

    def _make_policy(self) -> ReplacementPolicy:
        options, restarts = self.options, None
        if options.restart_after_s is not None:
            restarts = RestartPolicy(
                after_s=options.restart_after_s, max_after_s=options.max_restart_after_s, has_jitter=options.restart_jitter
            )
        return ReplacementPolicy(
            starts_first=options.surge > 0, grace_s=options.grace_s, ready_for_s=options.ready_for_s, restarts=restarts
        )

    def _find_workers(self) -> list[Process]:
        workers = self.context.load.named(self.on)
        if not workers:
            raise NotCarriedOutError(f"{self.name}: there is no {self.on} to replace")
        return workers

    def _go_on(self) -> None:
        now_s = time.monotonic()
        for replacement in list(self._active):
            replacement.go_on()
            self._note(replacement)
            if replacement.is_complete:
                self._active.remove(replacement)
        if not (self._waiting or self._active or self.is_over()):
            self._deployments_s.append(now_s - self._begun_s)
            self._begin_at_s = self._begun_s = now_s + self.options.pause_s
            self._waiting = [] if self.is_over() else self._find_workers()
        most = self.options.surge or self.options.at_a_time
        while self._waiting and now_s >= self._begin_at_s and len(self._active) < most:
            replacement = Replacement(self._waiting.pop(0), self._policy, self.context.load, self.random)
            self._active.append(replacement)
            replacement.go_on()

    def _are_all_wound_up(self) -> bool:
        for replacement in list(self._active):
            if replacement.wind_up():
                self._note(replacement)
                self._active.remove(replacement)
        return not self._active

    def _note(self, replacement: Replacement) -> None:
        """Record what has happened to a worker since the last call."""
        self._failures += replacement.take_failures()
        if replacement.stopped_after_s is not None and replacement.old.name not in self._replaced:
            self._slowest_stop_s = max(self._slowest_stop_s, replacement.stopped_after_s)
            self._replaced.append(replacement.old.name)
            if replacement.was_killed:
                self._killed.append(replacement.old.name)
