"""More jobs than usual for a while."""

from __future__ import annotations

from pydantic import Field

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.injection.faults.combination import Combination
from stallbench.injection.faults.fault import AddedLoad, Fault, FaultOptions, FaultPlace
from stallbench.libraries import find_libraries
from stallbench.queues import DEFAULT_QUEUE, list_queues_using
from stallbench.queues.load_bounds import LEAST_PAYLOAD_BYTES, MOST_AT_ONCE, MOST_PAYLOAD_BYTES, MOST_RATE
from stallbench.queues.second_queue import HasSecondQueue
from stallbench.records.injections import AT_ONCE, RATE, Evidence


class BurstOptions(FaultOptions):
    """Options of `Burst`."""

    rate: float = Field(default=0, ge=0, le=MOST_RATE, description="jobs per second, on top of the usual load")
    at_once: int = Field(default=0, ge=0, le=MOST_AT_ONCE, description="jobs enqueued at once when it begins")
    queue: str | None = Field(
        default=None, pattern=r"^[a-z][a-z0-9_]*$", description="queue, or tenant, of these jobs; the default one if not given"
    )
    payload_bytes: int | None = Field(
        default=None,
        ge=LEAST_PAYLOAD_BYTES,
        le=MOST_PAYLOAD_BYTES,
        description="size of the arguments of these jobs; none for that of the usual load",
    )


class Burst(Fault[BurstOptions]):
    """One more producer."""

    kind = "burst"
    meanwhile = "more jobs than usual were enqueued"
    summary = "one more producer enqueues jobs on top of the usual load: many at once, at a rate, or both"
    source = "campaigns, imports, a nightly job that enqueues one for each user; load beyond what workers can do"
    adds_load = True
    targets = ("producer",)
    combination = Combination(place="load", on="producers", options={"at_once": 500}, needs=frozenset({"server"}))
    options_type = BurstOptions

    @classmethod
    def find_issue(cls, options: BurstOptions, place: FaultPlace) -> tuple[str, str] | None:
        """Find a burst without jobs, and a queue, or tenant, to which the bench cannot enqueue."""
        if not options.at_once and not options.rate:
            return "at_once", " is 0, and so is rate: no job would be enqueued; expected at least one of them to be more"
        if options.queue is None or options.queue == DEFAULT_QUEUE:
            return None
        if "queue" not in place.queue.used_job_fields:
            alone = f"the bench enqueues all jobs in {place.queue.kind} in one queue"
            libraries = (f"{LIBRARY_PREFIX}{name}" for name, library in find_libraries().items() if library.second_queue)
            others = ", ".join([*list_queues_using("queue"), *libraries])
            return "queue", f' is "{options.queue}", but {alone}; leave it out, or set queue.kind to {others}'
        if issubclass(place.queue, HasSecondQueue) and (
            obstacle := place.queue.find_obstacle_to_second_queue(options.queue, place.queue_options)
        ):
            return "queue", f' is "{options.queue}", but {obstacle}'
        return None

    @classmethod
    def find_added_load(cls, options: BurstOptions) -> AddedLoad:
        """Return the options."""
        return AddedLoad(rate=options.rate, at_once=options.at_once)

    def inject(self) -> Evidence:
        """Start the producer, and wait until the jobs at once are in the queue and its schedule begins."""
        self._producer = self.context.load.start_extra_producer(
            rate=self.options.rate,
            backlog=self.options.at_once,
            queue=self.options.queue,
            payload_bytes=self.options.payload_bytes,
        )
        return {"producer": self._producer.name, RATE: self.options.rate, AT_ONCE: self.options.at_once}

    def why_inactive(self) -> str | None:
        """Check that the producer still runs."""
        return f"{self._producer.name} {self._producer.describe_end()}" if self._producer.poll() is not None else None

    def undo(self) -> Evidence:
        """Stop the producer."""
        if hasattr(self, "_producer"):
            self.context.load.end(self._producer)
        return {}
