"""What did each SQL statement cost its server in each phase?"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import pandas as pd

from stallbench.pipeline.sampled import Samples
from stallbench.pipeline.time_axis import TimeAxis

SUBJECT = "statement:"
_MICROSECONDS = Decimal("0.001")


def make_statements(samples: Samples, axis: TimeAxis) -> pd.DataFrame:
    """Return a row for each statement and phase in which it was executed: ``calls, total_ms, row_count, buffers``, of all servers together.

    Counts are the growth from one sample to the next; one that has become smaller was restarted at 0. The first sample of a statement shows no
    growth.
    """
    counts = samples.select(subject=SUBJECT).dropna(subset=["number"])
    before = counts.groupby(["source", "subject", "metric"])["number"].shift()
    grown = counts["number"].where(counts["number"] < before, counts["number"] - before)
    counts = counts.assign(grown=grown, phase=axis.phase_of(counts["t_ns"]), statement=counts["subject"].str.rpartition(":")[2])
    summed = counts.dropna(subset=["phase"]).groupby(["phase", "statement", "metric"])["grown"].sum(min_count=1).unstack("metric")
    made = summed.reindex(columns=["calls", "total_ms", "rows", "buffers"]).rename(columns={"rows": "row_count"})
    made["total_ms"] = made["total_ms"].map(_round_ms, na_action="ignore")
    return made[made["calls"] > 0].reset_index()


def _round_ms(total_ms: float) -> float:
    return float(Decimal(repr(total_ms)).quantize(_MICROSECONDS, ROUND_HALF_UP))
