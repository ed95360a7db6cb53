"""The faults, longrunners and maintenance of ``run.json``, in seconds of the run."""

from __future__ import annotations

from typing import TypedDict

from stallbench.pipeline.time_axis import TimeAxis
from stallbench.records.injections import InjectionCategory, InjectionRecord
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.run.record import RunRecord


class InjectionRow(TypedDict):
    """A row of the table ``injections``. Each time is none if the injection never got that far."""

    name: str
    category: InjectionCategory
    kind: str
    target: str
    phase: str | None
    planned_start_s: float | None
    start_ns: int | None
    verified_ns: int | None
    end_ns: int | None
    from_s: float | None
    to_s: float | None
    active_to_end: bool | None


def make_injections(record: RunRecord, axis: TimeAxis) -> list[InjectionRow]:
    """Return a row for each injection.

    It lasts from when it was verified to be active (if it never was: from when it was begun) until it was verified to be gone. If that was
    not recorded, it lasts until the end of its phase, or else until the last record of the run.
    """
    planned_s = {phase.name: phase.planned_start_s for phase in record.phases}
    phase_ends_ns = {phase.name: phase.end_ns for phase in axis.phases}

    def row(injection: InjectionRecord) -> InjectionRow:
        phase = injection.phase or ""
        from_ns = injection.verified_ns or injection.start_ns
        to_ns = injection.verified_gone_ns or injection.end_ns or phase_ends_ns.get(phase, axis.last_ns)
        return {
            "name": injection.name,
            "category": injection.category,
            "kind": injection.kind,
            "target": injection.on,
            "phase": injection.phase,
            "planned_start_s": planned_s.get(phase) if injection.planned_start_s is None else injection.planned_start_s,
            "start_ns": injection.start_ns,
            "verified_ns": injection.verified_ns,
            "end_ns": injection.end_ns,
            "from_s": None if from_ns is None else (from_ns - axis.start_ns) / NS_PER_S,
            "to_s": None if from_ns is None else (to_ns - axis.start_ns) / NS_PER_S,
            "active_to_end": injection.active_to_end,
        }

    return [row(injection) for injection in record.injections]
