"""How much of the host's processor time was in use, and how much of that the run itself used."""

from __future__ import annotations

import pandas as pd

from stallbench.records.reading import read_sample_frame
from stallbench.verdicts.check import RunTables

BUSY_PERCENT = 95.0
"""From this use of all cores on, processes wait for each other: whatever is measured in time may be the host's doing."""


def describe_busy_host(run: RunTables) -> str:
    """Return a sentence if the host was busy in the first measured phase; empty if it was not, or if that was not measured.

    A run that uses all of the host by itself measures the host rather than the queue, and so does one beside other programs.
    """
    baseline = next((phase.name for phase in run.record.measured_phases), "")
    percent = run.metric("cpu_percent", "mean", baseline) if baseline else None
    if percent is None or percent < BUSY_PERCENT:
        return ""
    own = read_own_share(run, baseline)
    by_run = "" if own is None else f", {own:.0%} by this run"
    return f"The host was busy: {percent:.0f} % of its processor time was in use in {baseline}{by_run}. Times may be longer for that reason alone."


def read_own_share(run: RunTables, phase: str) -> float | None:
    """Return the mean share of all cores that the processes and servers of the run used; none if that was not sampled."""
    samples = read_samples_in(run, "host", phase)
    own = samples[(samples["metric"] == "cpu_percent") & samples["subject"].str.startswith("process:")]
    moments = own.groupby("t_ns")["number"].sum()
    return float(moments.mean() / 100 / run.record.host.cpus) if len(moments) else None


def read_samples_in(run: RunTables, collector: str, phase: str) -> pd.DataFrame:
    """Return the samples of a collector in a phase, with numbers; empty if there are none."""
    found = next((each for each in run.record.phases if each.name == phase), None)
    samples = read_sample_frame(run.folder / "samples" / f"{collector}.csv").dropna(subset=["number"])
    if found is None or not found.start_ns or not found.end_ns:
        return samples.iloc[:0]
    return samples[(samples["t_ns"] >= found.start_ns) & (samples["t_ns"] < found.end_ns)]
