"""Reads what a report shows directly from the samples: autovacuum, deadlocks, plans of claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stallbench.base.storage.address import AnyPath
from stallbench.engines.deadlocks.deadlock import Deadlock
from stallbench.engines.deadlocks.groups import DeadlockGroup, group_deadlocks
from stallbench.records.reading import read_sample_frame


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumRow:
    """What autovacuum did with a table. A figure is none if it was not sampled."""

    table: str
    runs: float | None
    removed: float | None
    """The most dead tuples that one vacuum removed."""
    kept: float | None
    """The most dead tuples that one vacuum could not remove."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A plan by which a claim found its job."""

    plan: str
    times: int
    """How often it was seen."""


def read_vacuum(path: AnyPath) -> list[VacuumRow]:
    """Return for each table how often autovacuum ran, and the most dead tuples that one vacuum removed and could not remove."""
    rows = []
    for subject, of_table in read_sample_frame(path).groupby("subject"):
        most = of_table.groupby("metric")["number"].max()
        rows.append(
            VacuumRow(
                table=str(subject).removeprefix("table:"),
                runs=most.get("autovacuum_count"),
                removed=most.get("removed_tuples"),
                kept=most.get("not_removable_tuples"),
            )
        )
    return rows


def read_deadlocks(*paths: AnyPath) -> Sequence[DeadlockGroup]:
    """Return the deadlocks whose listings were read, by kind; one that is torn is left out. ``paths``: the files of the engines' collectors."""
    deadlocks = []
    for path in paths:
        samples = read_sample_frame(path)
        for value in samples.loc[samples["metric"] == "listing", "value"]:
            try:
                deadlocks.append(Deadlock.from_sample_value(str(value)))
            except ValueError:
                continue
    # On the bench's own MariaDB and MySQL every process logs in with its own name as user name; on PostgreSQL it is the application name.
    names = {
        one.thread_id: name
        for deadlock in deadlocks
        for one in deadlock.transactions
        if one.thread_id and (name := one.application.removeprefix("stallbench:") or one.user)
    }
    return group_deadlocks(deadlocks, names)


def find_unread_logs(path: AnyPath) -> Sequence[str]:
    """Return the servers whose log the bench could not read, so that the deadlocks in it are not known; ``path``: samples of `deadlocks`."""
    samples = read_sample_frame(path)
    unread = samples[(samples["metric"] == "deadlock_log_read") & (samples["number"] == 0)]
    return sorted(set(unread["source"]))


def read_plans(path: AnyPath) -> list[PlanRow]:
    """Return each plan by which a claim found its job, without estimates of rows and times, and how often it was seen."""
    plans = read_sample_frame(path)["value"].fillna("").str.replace(r"[;,] \d+ rows", "", regex=True)
    plans = plans.str.replace(r"\b\d{10}\b", "?", regex=True)
    return [PlanRow(str(plan), int(times)) for plan, times in plans.value_counts().items()]
