"""Samples an observed server by the bench's own collectors, through the observation's one session."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from stallbench.engines import loaded_errors
from stallbench.engines.collectors.collector import Collector
from stallbench.engines.collectors.connections import NotMeasuredError
from stallbench.engines.collectors.document import CollectorsDocument, WatchedQueue, WatchedServer
from stallbench.observe.address import PRIMARY, ObservedServers
from stallbench.observe.job_samples import JobSamples
from stallbench.observe.observer import ServerGoneError
from stallbench.observe.postgres.job_counts import JobCounts
from stallbench.observe.postgres.recognition import QueueTable
from stallbench.records.samples import Sample, SampleLog
from stallbench.run.sampling import collectors_for

QUEUE_KIND = "observed"
"""Kind of the queue in the record of an observation."""
_BACKLOG = "backlog"


class _OwnSessions:
    """Stands in for a collector's connections: every collector reads through the session of the observation."""

    def __init__(self, sessions: Callable[[], Mapping[str, Any]]) -> None:
        self._sessions = sessions

    def to(self, server: WatchedServer) -> Any:
        try:
            return self._sessions()[server.name]
        except KeyError:
            raise NotMeasuredError(f"{server.name} cannot be reached") from None


class Sampling:
    """The samples of one observation."""

    def __init__(
        self,
        folder: Path,
        servers: ObservedServers,
        tables: Sequence[QueueTable],
        sessions: Callable[[], Mapping[str, Any]],
        *,
        every_s: float,
        log: Path | None = None,
    ) -> None:
        """Open the files in ``folder``, which has a folder ``samples``."""
        endpoints = {PRIMARY: servers.primary, **servers.replicas}
        document = CollectorsDocument(
            name="observe",
            run_folder=folder,
            interval_s=every_s,
            servers=tuple(
                WatchedServer(
                    name=name,
                    role="primary" if name == PRIMARY else "replica",
                    endpoint=endpoint,
                    log=log if name == PRIMARY else None,
                    log_bytes_before=_measure_size(log) if name == PRIMARY else 0,
                )
                for name, endpoint in endpoints.items()
            ),
            queue=self.describe(tables),
            hides_values=True,
        )
        self._collectors = [kind(document) for kind in collectors_for(servers.primary.engine).values() if kind.is_of_servers]
        for collector in self._collectors:
            collector.connections = _OwnSessions(sessions)  # type: ignore[assignment]
        names = (*(collector.name for collector in self._collectors), _BACKLOG)
        self._logs = {name: SampleLog(folder / "samples" / f"{name}.csv", partial(self._hand_on, name)) for name in names}
        self.observe: Callable[[str, Sequence[Sample]], None] | None = None
        """Receives what is written, and the name of the collector."""
        self.jobs = JobSamples()
        """The samples of jobs, and which metrics of them are uncertain."""
        self.why_not: dict[str, str] = {}
        """By collector: why its last sample was not wholly measured."""

    def sample(self, counts: Mapping[str, JobCounts] | None) -> None:
        """Let each collector take one sample. ``counts``: the jobs of each queue, by its title; none if this reading did not count them.

        Raises `ServerGoneError` if the server is gone.
        """
        if counts is not None:
            self._logs[_BACKLOG].write(time.time_ns(), self.jobs.take(counts))
        for collector in self._collectors:
            t_ns = time.time_ns()
            self._logs[collector.name].write(t_ns, self._take(collector))

    @staticmethod
    def describe(tables: Sequence[QueueTable]) -> WatchedQueue:
        """Return the queue as the collectors know it: the tables with its rows, and the pattern of its claim statements."""
        return _describe_watched(tables)

    def close(self) -> None:
        """Close the files."""
        for log in self._logs.values():
            log.close()

    def miss(self) -> None:
        """Note a reading at which the server could not be read: its last figures are no longer handed on."""
        self.jobs.miss()
        for name in self._logs:
            self._hand_on(name, [])

    def _hand_on(self, collector: str, samples: Sequence[Sample]) -> None:
        if self.observe is not None:
            self.observe(collector, samples)

    def _take(self, collector: Collector) -> list[Sample]:
        samples: list[Sample] = []
        self.why_not.pop(collector.name, None)
        try:
            for sample in collector.sample():
                samples.append(sample)
        except ServerGoneError as error:
            if error.name == PRIMARY:
                raise
            self.why_not[collector.name] = str(error)
        except Exception as error:
            if not isinstance(error, (NotMeasuredError, OSError, *loaded_errors())):
                raise
            self.why_not[collector.name] = str(error)
        return samples


def _describe_watched(tables: Sequence[QueueTable]) -> WatchedQueue:
    patterns = [pattern.pattern for table in tables if table.known and (pattern := table.known.claim_pattern)]
    patterns += [
        rf"\b{re.escape(table.plain_name)}\b.* for (no key )?update"
        for table in tables
        if not (table.known and table.known.claim_pattern)
    ]
    return WatchedQueue(
        kind=QUEUE_KIND,
        tables=tuple(name for table in tables for name in table.leaf_names),
        indexes=(),
        claim_pattern="|".join(f"(?:{pattern})" for pattern in patterns),
    )


def _measure_size(log: Path | None) -> int:
    """Return the size in bytes of the log; 0 if there is none, or at this moment none: one that is created from now on is read whole."""
    try:
        return log.stat().st_size if log is not None else 0
    except OSError:
        return 0
