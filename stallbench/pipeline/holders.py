"""Which transactions, slots and replicas held the horizon, from when to when, and which was the oldest?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from stallbench.pipeline.sampled import Samples
from stallbench.pipeline.time_axis import TimeAxis
from stallbench.records.nanoseconds import NS_PER_S
from stallbench.run.record import RunRecord

SUBJECT = "holder:"
_SUBJECT = r"^holder:([^:]*):(.*)$"
_TEXTS = ("application", "state", "via")
_NUMBERS = ("rank", "pid", "age_s", "age_xids", "catalog_only")
_HOLDER = ["server", "kind", "holder"]
_CLOCK_SLACK_S = 0.5
"""By how much the beginning of the same transaction, computed from its age, may differ between two samples."""


def make_holders(samples: Samples, record: RunRecord, axis: TimeAxis) -> pd.DataFrame:
    """Return a row for each stay of a holder: consecutive samples of the horizon that find it in the same transaction.

    A stay begins when its transaction began, by its age when it was first seen; a slot has no age, so its stay begins when it was first
    seen. It ends when it was last seen. From each sample that ranks it first to the next sample, it is the oldest; a holder that holds
    back only catalog tables never is.
    """
    seen = _find_holders(samples).merge(_find_polls(samples), on="t_ns").sort_values([*_HOLDER, "t_ns"], ignore_index=True)
    same = seen.groupby(_HOLDER, sort=False)
    began_s = seen["t_ns"] / NS_PER_S - seen["age_s"]
    missed = same["poll"].diff() > 1
    is_another = began_s > began_s.groupby([seen[name] for name in _HOLDER]).shift() + _CLOCK_SLACK_S
    seen["stay"] = (missed | is_another).groupby([seen[name] for name in _HOLDER]).cumsum()
    seen["oldest_ns"] = seen["until_next_ns"].where((seen["rank"] == 0) & (seen["catalog_only"] == 0))
    stays = seen.groupby([*_HOLDER, "stay"])
    # A group's own `first` and `last` would pass over what is missing.
    first, last = stays.head(1).set_index([*_HOLDER, "stay"]), stays.tail(1).set_index([*_HOLDER, "stay"])
    made = last[[*_TEXTS, "pid"]].assign(
        catalog_only=(catalog_only := stays["catalog_only"].max()).gt(0).astype("object").where(catalog_only.notna(), None),
        from_ns=first["t_ns"] - (first["age_s"].fillna(0) * NS_PER_S).astype("int64"),
        to_ns=last["t_ns"],
        max_age_s=stays["age_s"].max(),
        max_age_xids=stays["age_xids"].max(),
        oldest_s=stays["oldest_ns"].sum() / NS_PER_S,
    )
    made = made.reset_index()
    return made.assign(
        from_s=axis.t_s(made["from_ns"]),
        to_s=axis.t_s(made["to_ns"]),
        longrunner=pd.Series([_name_longrunner(record, row) for row in made.itertuples()], dtype="object"),
    )


def _find_polls(samples: Samples) -> pd.DataFrame:
    """Return ``t_ns, poll, until_next_ns``: when the horizon was sampled, numbered, and how long after each the next one came."""
    polls = samples.select(subject="server", metrics=("holders",))
    t_ns = polls.loc[polls["subject"] == "server", "t_ns"].drop_duplicates().sort_values(ignore_index=True)
    return pd.DataFrame({"t_ns": t_ns, "poll": np.arange(len(t_ns)), "until_next_ns": -t_ns.diff(-1)})


def _find_holders(samples: Samples) -> pd.DataFrame:
    """Put the samples of one holder at one moment into one row."""
    found = samples.select(subject=SUBJECT)
    named = found["subject"].str.extract(_SUBJECT)
    found = found.assign(server=found["source"], kind=named[0], holder=named[1]).dropna(subset=["holder"])
    keys = [*_HOLDER, "t_ns"]
    rows = found[keys].drop_duplicates().set_index(keys)
    for name in (*_TEXTS, *_NUMBERS):
        of_metric = found[found["metric"] == name].groupby(keys)
        rows[name] = of_metric["value"].max() if name in _TEXTS else of_metric["number"].max()
    return rows.fillna(dict.fromkeys(_TEXTS, "")).reset_index()


def _name_longrunner(record: RunRecord, holder: object) -> str | None:
    """Return the name of the longrunner, if a holder is one: by its application name, or by the key of the holder in the longrunner's evidence."""
    name = None
    for longrunner in record.longrunners:
        kind, key = longrunner.evidence.get("kind"), longrunner.evidence.get("key")
        is_key = bool(kind and key) and (holder.kind, holder.holder) == (kind, key)  # type: ignore[attr-defined]
        if is_key or holder.application.rpartition(":")[2] == longrunner.name:  # type: ignore[attr-defined]
            name = longrunner.name
    return name
