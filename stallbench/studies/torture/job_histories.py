"""Finds the point at which a job broke a promise: follows each job to the process that died or stopped with it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence

from stallbench.records.events import Event, EventRecord
from stallbench.records.injections import JOBS, KILLED, PAUSED, InjectionRecord
from stallbench.records.reading import read_events
from stallbench.run.folder import RunFolder
from stallbench.run.record import RunRecord

_MOST_DESCRIBED = 8
"""Events of a job that its description contains at most."""


class JobHistories:
    """The events of the jobs of one run, and what the faults did to the processes that had them."""

    def __init__(self, folder: RunFolder, record: RunRecord) -> None:
        """Read the event logs: a run of this kind has a few thousand events."""
        self._faults = record.faults
        self._phases = record.started_phases
        self._of_job: defaultdict[int, list[EventRecord]] = defaultdict(list)
        for path in sorted(folder.events.glob("*.csv")):
            for event in read_events(path):
                if event.job_id is not None:
                    self._of_job[event.job_id].append(event)
        for events in self._of_job.values():
            events.sort(key=lambda event: event.t_ns)
        self._known = sorted(self._of_job)

    def find_phase(self, job_id: int) -> str | None:
        """Return the phase whose fault hit a process that had the job; else the phase in which the job was enqueued, or its neighbour by id."""
        for fault in self._faults:
            if job_id in fault.evidence.get(JOBS, ()):
                return fault.phase
        by_process = {event.process for event in self._of_job.get(job_id, ()) if event.event is not Event.ENQUEUED}
        hit = [fault for fault in self._faults if by_process & set(_hit(fault))]
        if hit:
            last_ns = self._of_job[job_id][-1].t_ns
            return min(hit, key=lambda fault: abs(last_ns - (fault.start_ns or 0))).phase
        neighbour = bisect_right(self._known, job_id) - 1
        if neighbour < 0:
            return None
        return self.find_phase_at(self._of_job[self._known[neighbour]][0].t_ns)

    def find_phase_at(self, t_ns: int) -> str | None:
        """Return the phase at a time; none if it was before the first."""
        earlier = [phase.name for phase in self._phases if phase.start_ns is not None and phase.start_ns <= t_ns]
        return earlier[-1] if earlier else None

    def describe(self, job_id: int) -> str:
        """Return what happened to a job: its events in order, and which processes died or stopped with it."""
        events = self._of_job.get(job_id, [])
        if not events:
            return f"no process recorded job {job_id}"
        described = [f"{event.process} {event.event.replace('_', ' ')}" for event in events[:_MOST_DESCRIBED]]
        hits = [
            f"{process} {'died' if 'killed' in fault.evidence else 'was paused'} at {fault.phase}"
            for fault in self._faults
            for process, hit_job in zip(_hit(fault), fault.evidence.get(JOBS, ()), strict=False)  # only crash points record jobs
            if hit_job == job_id
        ]
        more = " ..." if len(events) > _MOST_DESCRIBED else ""
        return f"job {job_id}: {', '.join(described)}{more}{'; ' if hits else ''}{', '.join(hits)}"


def _hit(fault: InjectionRecord) -> Sequence[str]:
    """Return the processes that the fault killed or paused."""
    found: Sequence[str] = fault.evidence.get(KILLED) or fault.evidence.get(PAUSED) or ()
    return found
