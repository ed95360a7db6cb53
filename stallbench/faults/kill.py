"""A process of the load is killed, once or again and again, and another takes its place or not."""

from __future__ import annotations

import time
from typing import Any

from pydantic import Field

from stallbench.errors import NotCarriedOutError
from stallbench.faults.fault import Fault, FaultOptions
from stallbench.processes.process import Process
from stallbench.scenario.duration import Duration


class KillOptions(FaultOptions):
    """Options of `Kill`."""

    every_s: Duration | None = Field(
        default=None,
        alias="every",
        gt=0,
        le=3600,
        description="kill one again each time that so much has passed; once if not given",
    )
    replace_after_s: Duration = Field(
        default=1.0, alias="replace_after", ge=0, le=3600, description="until another process takes its place"
    )
    replaced: bool = Field(default=True, description="whether another process takes its place at all")


class Kill(Fault[KillOptions]):
    """SIGKILL, as the kernel's out-of-memory killer and impatient orchestrators send it.

    Who has only just been started has nothing that could be lost: it is not killed before its first move. Where nobody else is left, a kill
    is left out.
    """

    kind = "kill"
    summary = (
        "kills a worker, a producer or the scheduler (SIGKILL), one by its name or one drawn at random, once or every so often"
    )
    source = "OOM killers, spot instances, orchestrators whose grace period is over; seed 003, of workers that die with a token"
    places = ("worker", "producer", "scheduler")
    options_type = KillOptions

    @property
    def is_momentary(self) -> bool:
        """One kill is."""
        return self.options.every_s is None

    def inject(self) -> dict[str, Any]:
        """Kill the first one."""
        self._killed: list[str] = []
        self._to_replace: list[tuple[float, Process]] = []
        self._next_s = time.monotonic()
        self._kill_one()
        return {"killed": self._killed}

    def keep_up(self) -> None:
        """Kill the next one, and replace those whose time has come."""
        now_s = time.monotonic()
        if self.options.every_s is not None and now_s >= self._next_s:
            self._kill_one()
        for item in [item for item in self._to_replace if item[0] <= now_s]:
            self._to_replace.remove(item)
            self.context.load.replace(item[1])

    def undo(self) -> dict[str, Any]:
        """Replace those that have not been replaced yet."""
        for _, process in self._to_replace:
            self.context.load.replace(process)
        self._to_replace = []
        return {}

    def _kill_one(self) -> None:
        candidates = self.context.load.at_work(self.on)
        if self.options.every_s is not None:
            self._next_s += self.options.every_s
        if not candidates:
            if self._killed:
                return
            raise NotCarriedOutError(f"{self.name}: there is no {self.on} to kill")
        process = self.context.random.choice(candidates)
        process.kill()
        self._killed.append(process.name)
        if self.options.replaced:
            self._to_replace.append((time.monotonic() + self.options.replace_after_s, process))
