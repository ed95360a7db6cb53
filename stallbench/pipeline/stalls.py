"""How long was nothing completed although jobs waited? In whole seconds."""

from __future__ import annotations

import pandas as pd

from stallbench.measures import WHOLE_RUN
from stallbench.pipeline.phases import COLUMNS
from stallbench.pipeline.time_axis import TimeAxis


def make_stalls(windows: pd.DataFrame, changes: pd.DataFrame, axis: TimeAxis) -> pd.DataFrame:
    """Return the metrics of ``stalled_s`` as rows of ``phases``, from the table of seconds and the jobs' changes (`jobs_by_time.JobsByTime`).

    A second is stalled if nothing was completed in it although jobs waited: the queue's depth, as last sampled before its end, was not 0, or
    a job that the schedule had wanted before it was not claimed in it either. The latter needs no sample, which a server that is stuck or
    gone does not give, and counts what producers could not enqueue. ``total`` counts them, ``longest`` is the longest uninterrupted run of them.
    """
    seconds = windows.set_index("t_s")[["phase", "completed", "depth"]]
    seconds = seconds.reindex(sorted({*seconds.index, *changes.index}))
    waiting = changes["waiting"].reindex(seconds.index).fillna(0).cumsum()
    is_stalled = (seconds["completed"] == 0) & ((seconds["depth"].ffill().fillna(0) > 0) | (waiting > 0))
    is_stalled = is_stalled[seconds["phase"].notna()]
    phase = seconds["phase"].dropna()
    rows = []
    for interval in axis.intervals:
        of_interval = is_stalled if interval.name == WHOLE_RUN else is_stalled[phase == interval.name]
        if len(of_interval):
            rows += [
                (interval.name, "stalled_s", "total", float(of_interval.sum()), len(of_interval)),
                (interval.name, "stalled_s", "longest", float(_find_longest(of_interval)), len(of_interval)),
            ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _find_longest(is_stalled: pd.Series) -> int:
    """Return the length of the longest run of consecutive seconds that are stalled."""
    stalled = is_stalled.index[is_stalled].to_series()
    return int(stalled.groupby(stalled.diff().ne(1).cumsum()).size().max()) if len(stalled) else 0
