"""An observation that is going on: its readings, on whichever engine, and what is done with each.

What a single report does not need, such as the recording and the other family of engines, is loaded only when it is used: the report is asked for
while a queue is slow.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.observe.family import find_family
from stallbench.observe.observer import Observation, Observer, ServerGoneError, pause_after
from stallbench.observe.options import ObserveOptions

if TYPE_CHECKING:
    from stallbench.observe.postgres.load import LoadDiagnostic
    from stallbench.observe.postgres.queues import QueuesDiagnostic
    from stallbench.observe.sampling import Sampling

BETWEEN_READINGS_S = 2.0
"""Between the first two readings: rates and stuck clients need two."""


class ObservationSession:
    """An observation that is going on."""

    def __init__(self, options: ObserveOptions) -> None:
        """Read for the first time. Raises `NotCarriedOutError` if the server cannot be read, `BadInputError` if a queue is missing."""
        self.options = options
        self.queues: QueuesDiagnostic
        self.load: LoadDiagnostic | None
        """Records the load of the queue."""
        self.observer: Observer
        self.queues, self.load, self.observer = find_family(options.servers.primary.engine).prepare(options)
        self.sampling: Sampling | None = None
        self.lost = ""
        """Why the last reading could not read the server; empty if it could."""
        self.readings = self.missed = 0
        try:
            self.first = self.last = self.observer.read()
        except BadInputError:  # a server that is no replica of the observed one
            self.observer.close()
            raise
        if self.first.gone:
            self.observer.close()
            endpoint = options.servers.primary
            user = f"{endpoint.user}@" if endpoint.user else ""
            address = f"{user}{endpoint.host or 'local socket'}:{endpoint.port}/{endpoint.database}"
            raise NotCarriedOutError(f"{address} cannot be read: {self.first.gone}")
        try:
            self.queues.require_named()
            if self.load is not None:
                self.load.require_queue()
        except BadInputError:
            self.observer.close()
            raise

    def read(self, *, reads_everything: bool = False) -> Observation:
        """Read, and record what the collectors measure."""
        observation = self.observer.read(reads_everything=reads_everything)
        self.readings += 1
        self.lost = observation.gone
        self.last = self.last if observation.gone else observation
        if self.sampling is not None and not observation.gone:
            try:
                self.sampling.sample(self.queues.take_new_counts())
            except ServerGoneError as error:
                self.missed += 1
                self.lost = str(error)
        elif self.sampling is not None:
            self.sampling.miss()
        self.missed += bool(observation.gone)
        return observation

    def read_at_pace(self, show: Callable[[Observation, float], None], *, reads_everything: bool = False) -> float:
        """Read, and show it and the pause after it. Returns how long to wait until the next reading, in seconds, for what both have cost."""
        cpu_s, spent_s = time.process_time(), self.observer.spent_s
        observation = self.read(reads_everything=reads_everything)
        # A session that was opened in between has spent less than the former one.
        spent_s = max(self.observer.spent_s - spent_s, observation.spent_s)
        show(observation, pause_after(spent_s, 0.0, self.options.every_s))
        return pause_after(spent_s, time.process_time() - cpu_s, self.options.every_s)

    def continue_until(self, show: Callable[[Observation, float], None], until_s: float) -> None:
        """Read and show until ``until_s`` on the monotonic clock. ``show`` receives each reading and the pause after it, in seconds."""
        pause_s, is_second = BETWEEN_READINGS_S, True
        while time.monotonic() + pause_s <= until_s:
            time.sleep(pause_s)
            pause_s = self.read_at_pace(show, reads_everything=is_second)
            if is_second:
                # The first two readings read everything. Later ones leave out what is expensive, so they need not wait for it.
                pause_s, is_second = self.options.every_s, False
        time.sleep(max(0.0, until_s - time.monotonic()))
