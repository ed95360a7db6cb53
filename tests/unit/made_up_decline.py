"""The seconds of a run whose queue follows a known cost model, for tests of the forecast: exact, or with noise.

There are as many processors as workers, so workers never wait for one; `tests/unit/test_forecast_capacity.py` tests the other case.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from stallbench.verdicts import RunTables
from tests.unit.made_up_run import START_NS, make_phases, make_record, make_run

CLAIM_S = 0.0005
DEAD_TUPLE_S = 0.1e-6
OTHER_S = 0.0004
WORK_S = 0.002
POLL_S = 0.02
RATE = 600.0
WORKERS = 3
KEPT_PER_JOB = 1.5
HELD_S = 60


def when_it_saturates(rate: float = RATE, workers: int = WORKERS, work_s: float = WORK_S) -> float:
    """Return the model's own answer, counted in steps: when more jobs wait than are enqueued in a second."""
    step_s, t_s, dead, depth = 0.01, 0.0, 0.0, 0.0
    while depth <= rate:
        capacity = workers / (work_s + OTHER_S + CLAIM_S + DEAD_TUPLE_S * dead)
        completed = min(rate * step_s + depth, capacity * step_s)
        depth += rate * step_s - completed
        dead += KEPT_PER_JOB * completed
        t_s += step_s
    return t_s


def make_seconds(*, dead_tuple_s: float = DEAD_TUPLE_S, noise: float = 0.0, held_s: int = HELD_S) -> pd.DataFrame:
    """Return ``held_s`` windows from `START_NS` on, in all of which the horizon is held; ``noise``: relative, of claim times and completions."""
    random = np.random.default_rng(1)
    done, depth, rows = 0.0, 0.0, []
    for t_s in range(held_s):
        luck, completed = float(random.lognormal(sigma=noise)), RATE
        for _ in range(3):  # A second's claims meet, on average, half of its own dead tuples.
            claim_s = luck * (CLAIM_S + dead_tuple_s * KEPT_PER_JOB * (done + completed / 2))
            job_s = WORK_S + OTHER_S + claim_s
            completed = min(RATE + depth, WORKERS / job_s)
        empty = round(max(WORKERS - completed * job_s, 0.0) / (POLL_S + claim_s), 6)
        depth = max(depth + RATE - completed, 0.0)
        done += completed
        rows.append(
            {
                "t_s": t_s,
                "t_ns": START_NS + t_s * 10**9,
                "phase": "longtx",
                "enqueued": RATE,
                "claimed": completed,
                "completed": completed,
                "empty": empty,
                "lost_race": 0,
                "claim_ms_p50": claim_s * 1e3,
                "depth": depth,
                "dead_tuples": 400 + KEPT_PER_JOB * done,
            }
        )
    return pd.DataFrame(rows)


def make_declining_run(
    folder: Path, seconds: pd.DataFrame | None = None, *, cpu_percent: float = 50.0, **changes: Any
) -> RunTables:
    """Write a run in which ``seconds`` (or those of `make_seconds`) were held by one idle writer.

    ``cpu_percent``: of the machine in the baseline. ``changes`` are of its run.json.
    """
    seconds = make_seconds() if seconds is None else seconds
    record = make_record()
    record["scenario"]["producers"]["rate"] = RATE
    record["scenario"]["workers"] |= {"count": WORKERS, "work_s": WORK_S, "poll_s": POLL_S}
    record["host"]["cpus"] = WORKERS
    record["injections"] = [make_hold(to_s=len(seconds))]
    baseline = {("baseline", "claim_ms.p50"): CLAIM_S * 1e3, ("baseline", "cpu_percent.mean"): cpu_percent}
    folder.mkdir(exist_ok=True)
    return make_run(folder, record | changes, windows=seconds, phases=make_phases(baseline))


def make_hold(*, to_s: int, active_to_end: bool = True) -> dict[str, Any]:
    """Return the record of an idle writer from the run's start ``to_s``."""
    end_ns = START_NS + to_s * 10**9
    return {
        "name": "idle_writer-1",
        "category": "longrunner",
        "kind": "idle_writer",
        "on": "primary",
        "phase": "longtx",
        "options": {},
        "start_ns": START_NS,
        "verified_ns": START_NS,
        "end_ns": end_ns,
        "verified_gone_ns": end_ns,
        "evidence": {},
        "active_to_end": active_to_end,
        "may_be_ended": False,
        "why_ended": "",
    }
