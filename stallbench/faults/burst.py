"""More jobs than usual for a while."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from stallbench.faults.fault import Fault, FaultOptions


class BurstOptions(FaultOptions):
    """Options of `Burst`."""

    rate: float = Field(default=0, ge=0, le=1_000_000, description="jobs per second, on top of the usual load")
    at_once: int = Field(default=0, ge=0, le=1_000_000, description="jobs enqueued at once when it begins")


class Burst(Fault[BurstOptions]):
    """One more producer."""

    kind = "burst"
    summary = "one more producer enqueues jobs on top of the usual load: many at once, at a rate, or both"
    source = "campaigns, imports, a nightly job that enqueues one for each user; load beyond what workers can do"
    adds_load = True
    targets = ("producer",)
    options_type = BurstOptions

    def inject(self) -> dict[str, Any]:
        """Start the producer, and wait until the jobs at once are in the queue and its schedule begins."""
        self._producer = self.context.load.start_extra_producer(rate=self.options.rate, backlog=self.options.at_once)
        return {"producer": self._producer.name, "rate": self.options.rate, "at_once": self.options.at_once}

    def find_lapse(self) -> str | None:
        """Check that the producer still runs."""
        return f"{self._producer.name} {self._producer.describe_end()}" if self._producer.poll() is not None else None

    def undo(self) -> dict[str, Any]:
        """Stop the producer."""
        if hasattr(self, "_producer"):
            self.context.load.end(self._producer)
        return {}
