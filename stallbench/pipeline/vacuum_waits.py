"""How long did the queue's tables wait for a vacuum, and was an autovacuum worker free?"""

from __future__ import annotations

import pandas as pd

from stallbench.pipeline.sampled import Samples
from stallbench.pipeline.time_axis import TimeAxis
from stallbench.records.nanoseconds import NS_PER_S

_SLACK_S = 0.5
"""By how much the beginning of the same wait may differ between two samples."""
_WORKERS = ("autovacuum_workers_busy", "autovacuum_workers_free", "doing")


def make_vacuum_waits(samples: Samples, axis: TimeAxis) -> pd.DataFrame:
    """Return a row for each time that a table was due for a vacuum and got none, from when it was due to the last sample that found it so.

    ``starved_s`` is how much of it lay between samples that found every worker busy.
    """
    overdue = samples.select(metrics=("vacuum_overdue_s",))
    overdue = overdue[overdue["number"] > 0].assign(table=overdue["subject"].str.rpartition(":")[2])
    overdue = overdue[["table", "t_ns", "number"]].rename(columns={"number": "overdue_s"}).sort_values(["table", "t_ns"])
    began_s = overdue["t_ns"] / NS_PER_S - overdue["overdue_s"]
    since_last_s = began_s.groupby(overdue["table"]).diff()
    overdue["wait"] = (~(since_last_s <= _SLACK_S)).groupby(overdue["table"]).cumsum()
    between_s = overdue.groupby(["table", "wait"])["t_ns"].diff() / NS_PER_S
    overdue["since_last_s"] = between_s.fillna(overdue["overdue_s"])
    polls = overdue.merge(_find_workers(samples), on="t_ns")
    is_starved = polls["free"] == 0
    polls = polls.assign(
        starved_s=polls["since_last_s"].where(is_starved),
        workers=polls["workers"].where(is_starved),
        doing=polls["doing"].where(is_starved),
        from_ns=polls["t_ns"] - (polls["overdue_s"] * NS_PER_S).astype("int64"),
    )
    waits = polls.groupby(["table", "wait"])
    made = pd.DataFrame(
        {
            "from_s": axis.t_s(waits["from_ns"].min()),
            "to_s": axis.t_s(waits["t_ns"].max()),
            "waited_s": waits["overdue_s"].max(),
            "starved_s": waits["starved_s"].sum(),
            "workers": waits["workers"].max(),
            "busy_with": waits["doing"].agg(_join),
        }
    )
    return made.reset_index().drop(columns="wait")


def _join(doing: pd.Series) -> str:
    return ", ".join(sorted({one for lists in doing.dropna() for one in lists}))


def _find_workers(samples: Samples) -> pd.DataFrame:
    """Return ``t_ns, workers, free, doing`` of each sample of the autovacuum workers: how many are busy and free, and what they do."""
    found = samples.select(metrics=_WORKERS)
    made = pd.DataFrame({"t_ns": found["t_ns"].drop_duplicates()}).set_index("t_ns")
    for name, metric in (("workers", "autovacuum_workers_busy"), ("free", "autovacuum_workers_free")):
        made[name] = found[found["metric"] == metric].groupby("t_ns")["number"].max()
    doing = found[(found["metric"] == "doing") & found["value"].notna()].groupby("t_ns")["value"].agg(list)
    made["doing"] = [doing.get(t_ns, []) for t_ns in made.index]
    return made.reset_index()
