"""Which sessions waited for their client to read, and from when to when?"""

from __future__ import annotations

import pandas as pd

from stallbench.pipeline.sampled import Samples
from stallbench.pipeline.time_axis import TimeAxis
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.run.record import RunRecord

SUBJECT = "client_write:"
_SESSION = ["server", "session"]


def make_stuck_clients(samples: Samples, record: RunRecord, axis: TimeAxis) -> pd.DataFrame:
    """Return a row for each session that was stuck in handing something over to its client, from the first sample that found it to the last."""
    found = samples.select(subject=SUBJECT)
    found = found.assign(server=found["source"], session=found["subject"].str.rsplit(":", n=2).str[-2:].str.join(":"))

    def last(metric: str, column: str) -> pd.Series:
        return found[found["metric"] == metric].groupby(_SESSION).tail(1).set_index(_SESSION)[column]

    stuck = found[found["metric"] == "stuck_s"]
    stuck = stuck.assign(from_ns=stuck["t_ns"] - stuck["number"] * NS_PER_S)
    made = pd.DataFrame(
        {
            "to_s": axis.t_s(found.groupby(_SESSION)["t_ns"].max()),
            "from_s": axis.t_s(stuck.groupby(_SESSION)["from_ns"].min()),
            "stuck_s": stuck.groupby(_SESSION)["number"].max(),
            "pid": last("pid", "number"),
            "application": last("application", "value"),
            "state": last("state", "value"),
        }
    ).reset_index()
    names = {longrunner.name for longrunner in record.longrunners}
    name = made["application"].fillna("").str.rpartition(":")[2]
    return made.assign(longrunner=name.where(name.isin(names), None))
