"""A process of the load is killed, once or repeatedly, and may be replaced."""

from __future__ import annotations

import time

from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.combination import Combination
from stallbench.injection.faults.fault import Fault, FaultOptions
from stallbench.processes.process import Process
from stallbench.records.injections import KILLED, Evidence


class KillOptions(FaultOptions):
    """Options of `Kill`."""

    every_s: Duration | None = Field(
        default=None,
        alias="every",
        gt=0,
        le=3600,
        description="time from one kill to the next; one kill only if not given",
    )
    replace_after_s: Duration = Field(
        default=1.0, alias="replace_after", ge=0, le=3600, description="from a kill until another process takes its place"
    )
    replaced: bool = Field(default=True, description="whether another process takes its place")


class Kill(Fault[KillOptions]):
    """SIGKILL, as the kernel's out-of-memory killer and orchestrators send it. A new process is not killed before its first operation, because it
    could not lose anything. A later kill is skipped if no process is left.
    """

    kind = "kill"
    meanwhile = "{on} {were} killed"
    summary = "kills a worker, a producer or the scheduler (SIGKILL), a named one or one drawn at random, once or repeatedly"
    source = "OOM killers, spot instances, orchestrators after their grace period; the Aerospike article"
    targets = ("worker", "producer", "scheduler")
    combination = Combination(place="clients", on="workers", options={"every": "2s"}, needs=frozenset({"server"}))
    options_type = KillOptions

    @property
    def is_momentary(self) -> bool:
        """Whether it kills only once."""
        return self.options.every_s is None

    def inject(self) -> Evidence:
        """Kill the first one."""
        self._killed: list[str] = []
        self._to_replace: list[tuple[float, Process]] = []
        self._next_s = time.monotonic()
        self._kill_one()
        return {KILLED: self._killed}

    def tick(self) -> None:
        """Kill the next process when it is due, and start the replacements that are due."""
        now_s = time.monotonic()
        if self.options.every_s is not None and now_s >= self._next_s:
            self._kill_one()
        for item in [item for item in self._to_replace if item[0] <= now_s]:
            self._to_replace.remove(item)
            self.context.load.replace(item[1])

    def undo(self) -> Evidence:
        """Start the replacements that are still missing."""
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
        process = self.random.choice(candidates)
        process.kill()
        self._killed.append(process.name)
        if self.options.replaced:
            self._to_replace.append((time.monotonic() + self.options.replace_after_s, process))
