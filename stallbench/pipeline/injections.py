"""What went wrong on purpose: the longrunners and faults of ``run.json``, on the run's time."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from stallbench.pipeline.frames import make_rows
from stallbench.pipeline.run_facts import Disturbance, RunFacts
from stallbench.pipeline.tables import TABLES
from stallbench.pipeline.time_axis import NS_PER_S, TimeAxis


def make_faults(spark: SparkSession, facts: RunFacts, axis: TimeAxis) -> DataFrame:
    """Return a row for each longrunner and each fault.

    It lasts from when the server was first seen to name it (if it never was: from when it was asked for) until it was seen to be gone; if
    nobody wrote that down, until its phase or the run's records end.
    """
    planned_s = {phase.name: phase.planned_start_s for phase in facts.phases}
    phase_ends_ns = {phase.name: phase.end_ns for phase in axis.phases}

    def row(disturbance: Disturbance) -> dict[str, Any]:
        from_ns = disturbance.verified_ns or disturbance.start_ns
        to_ns = disturbance.verified_gone_ns or disturbance.end_ns or phase_ends_ns.get(disturbance.phase, axis.last_ns)
        return {
            "name": disturbance.name,
            "kind": disturbance.kind,
            "target": disturbance.on,
            "phase": disturbance.phase,
            "planned_start_s": planned_s.get(disturbance.phase)
            if disturbance.planned_start_s is None
            else disturbance.planned_start_s,
            "start_ns": disturbance.start_ns,
            "verified_ns": disturbance.verified_ns,
            "end_ns": disturbance.end_ns,
            "from_s": None if from_ns is None else (from_ns - axis.start_ns) / NS_PER_S,
            "to_s": None if from_ns is None else (to_ns - axis.start_ns) / NS_PER_S,
            "held": disturbance.held,
        }

    return make_rows(spark, [row(each) for each in (*facts.longrunners, *facts.faults)], TABLES["faults"])
