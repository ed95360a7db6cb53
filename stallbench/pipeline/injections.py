"""The faults, longrunners and maintenance of ``run.json``, in seconds of the run."""

from __future__ import annotations

from typing import Any

from stallbench.injection.record import InjectionRecord
from stallbench.pipeline.time_axis import NS_PER_S, TimeAxis
from stallbench.run.record import RunRecord


def make_injections(record: RunRecord, axis: TimeAxis) -> list[dict[str, Any]]:
    """Return a row for each injection.

    It lasts from when it was verified to be active (if it never was: from when it was begun) until it was verified to be gone. If that was
    not recorded, it lasts until the end of its phase, or else until the last record of the run.
    """
    planned_s = {phase.name: phase.planned_start_s for phase in record.phases}
    phase_ends_ns = {phase.name: phase.end_ns for phase in axis.phases}

    def row(injection: InjectionRecord) -> dict[str, Any]:
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
