"""Finds the point at which a job broke a promise: follows each job to the process that died or stopped with it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from stallbench.queues.crash_points import CrashPoint
from stallbench.records.events import Event, EventRecord
from stallbench.records.final_snapshot import END
from stallbench.records.injections import JOBS, KILLED, PAUSED, InjectionRecord
from stallbench.records.reading import read_events
from stallbench.run.folder import RunFolder
from stallbench.run.record import RunRecord

_MOST_DESCRIBED = 40
"""Events of a job that its description contains at most."""
_ENDS = (Event.COMPLETED, Event.FAILED, Event.EXPIRED, Event.ERROR)


class JobHistories:
    """The events of the jobs of one run, and what the faults did to the processes that had them."""

    def __init__(self, folder: RunFolder, record: RunRecord) -> None:
        """Read the event logs and the final snapshot: a run of this kind has a few thousand events."""
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
        self._held = _read_snapshot(folder)

    def list_phases(self, job_id: int) -> list[str]:
        """Return the phases whose fault hit a process that had the job, in their order: it died or stopped with it.

        Of a job that no process recorded to have claimed, or to have enqueued, it is the phase in which processes were hit inside such a call, if the job
        can be theirs.
        """
        phases = [str(fault.phase) for fault in self._faults if self._is_hit_with(fault, job_id)]
        return list(dict.fromkeys(phases or self._list_possible(job_id)))

    def _is_hit_with(self, fault: InjectionRecord, job_id: int) -> bool:
        processes = {event.process for event in self._of_job.get(job_id, ())}
        return any(
            job == job_id or (job is None and process in processes and self._has_open(process, job_id))
            for process, job in _list_hits(fault)
        )

    def _has_open(self, process: str, job_id: int) -> bool:
        """Whether the last that a process recorded of a job is not the end of its execution."""
        events = [event.event for event in self._of_job[job_id] if event.process == process]
        return events[-1] not in (*_ENDS, Event.ENQUEUED)

    def _list_possible(self, job_id: int) -> Iterator[str]:
        """Yield the phases in which a process was hit during a call that may have been one of this job."""
        known = {event.event for event in self._of_job.get(job_id, ())}
        enqueued_ns = next((event.t_ns for event in self._of_job.get(job_id, ()) if event.event is Event.ENQUEUED), None)
        for fault in self._faults:
            if not any(job is None for _, job in _list_hits(fault)):
                continue
            at = fault.options.get("at")
            is_unenqueued = enqueued_ns is None and self.find_phase_at_id(job_id) == fault.phase
            is_unclaimed = (
                Event.CLAIMED not in known and enqueued_ns is not None and enqueued_ns < (fault.end_ns or enqueued_ns + 1)
            )
            if (at == CrashPoint.BEFORE_ENQUEUE_ACKNOWLEDGED and is_unenqueued) or (
                at == CrashPoint.BEFORE_CLAIM_ACKNOWLEDGED and is_unclaimed
            ):
                yield str(fault.phase)

    def find_phase_at_id(self, job_id: int) -> str | None:
        """Return the phase of the first event of a job, or of its neighbour by id; none if it was before the first phase."""
        neighbour = bisect_right(self._known, job_id) - 1
        if neighbour < 0:
            return None
        t_ns = self._of_job[self._known[neighbour]][0].t_ns
        earlier = [phase.name for phase in self._phases if phase.start_ns is not None and phase.start_ns <= t_ns]
        return earlier[-1] if earlier else None

    def describe(self, job_id: int) -> str:
        """Return what happened to a job: its events in order with the attempts, where it is, and which processes died or stopped with it."""
        events = self._of_job.get(job_id, [])
        described = [_describe_event(event) for event in events[:_MOST_DESCRIBED]] or ["no process recorded it"]
        if not any(event.event is Event.CLAIMED for event in events):
            described.append("never claimed")
        if held := self._held.get(job_id):
            described.append(f"still {held}")
        hits = [
            f"{process} {'died' if 'killed' in fault.evidence else 'was paused'} at {fault.phase}"
            for fault in self._faults
            for process, hit_job in _list_hits(fault)
            if hit_job == job_id
        ]
        more = " ..." if len(events) > _MOST_DESCRIBED else ""
        return f"job {job_id}: {', '.join(described)}{more}{'; ' if hits else ''}{', '.join(hits)}"


def _describe_event(event: EventRecord) -> str:
    attempt = f" (attempt {event.attempt})" if event.event is Event.CLAIMED and event.attempt is not None else ""
    return f"{event.process} {event.event.replace('_', ' ')}{attempt}"


def _list_hits(fault: InjectionRecord) -> list[tuple[str, int | None]]:
    """Return the processes that the fault killed or paused, each with the job that it had; only crash points record jobs."""
    processes = fault.evidence.get(KILLED) or fault.evidence.get(PAUSED) or ()
    jobs = fault.evidence.get(JOBS) or [None] * len(processes)
    return list(zip(processes, jobs, strict=False))


def _read_snapshot(folder: RunFolder) -> dict[int, str]:
    """Return what the final snapshot says of each job that it has; nothing if there is none."""
    if not folder.final_snapshot.exists():
        return {}
    rows = (line.partition(",") for line in folder.final_snapshot.read_text().splitlines())
    return {int(key): word for key, _, word in rows if key != END}
