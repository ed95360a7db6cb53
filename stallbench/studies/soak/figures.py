"""Reads the figures whose drift is measured: claim time, the size of the tables, and the memory of every process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pandas as pd
import psutil

from stallbench.records.reading import read_sample_frame
from stallbench.studies.soak.record import Figure
from stallbench.verdicts import RunTables

_IN_EACH_PHASE = ("claim_ms.p50", "claim_ms.p95")
_AT_FIRST = ("latency_ms.p95", "completed.rate", "cpu_percent.mean")
"""Of the first measured phase: the baseline."""
_AT_LAST = (
    "table_bytes.last",
    "index_bytes.last",
    "dead_tuples.last",
    "live_tuples.last",
    "history_list_length.last",
    "depth.last",
)
"""Figures at the end of the last measured phase, with which the next cycle starts."""
_MEMORY = {"memory_bytes": "memory", "private_bytes": "private memory"}
"""Labels by the collector's metric. Memory is the resident set; private memory excludes what is shared with other processes."""
_IN_EACH_CYCLE = ("bystander", "collectors", "scheduler")
"""Roles whose processes start anew in each cycle, under the same name."""
_REPLACEMENT = re.compile(r"^((?:worker|producer)-\d+)-\d+$")
_MIB = 1024 * 1024
BENCH = "stallbench"
"""The name of the bench's own process."""


def read_figures(run: RunTables) -> dict[str, Figure]:
    """Return the figures of a cycle whose tables exist, by name; figures without data are left out."""
    measured = [phase.name for phase in run.record.measured_phases]
    figures: dict[str, Figure] = {}
    if measured:
        wanted = [
            *((metric, phase) for phase in measured for metric in _IN_EACH_PHASE),
            *((metric, measured[0]) for metric in _AT_FIRST),
            *((metric, measured[-1]) for metric in _AT_LAST),
        ]
        for metric, phase in wanted:
            measure, _, statistic = metric.partition(".")
            value = run.metric(measure, statistic, phase)
            if value is not None:
                figures[f"{metric} in {phase}"] = Figure(value=value, metric=metric, phase=phase)
    return figures | dict(_read_memory(run))


def _read_memory(run: RunTables) -> Iterator[tuple[str, Figure]]:
    """Yield the median memory of each process in this cycle, in MiB; its subject is the pid, because another process is another segment."""
    pids = _find_pids(run)
    samples = read_sample_frame(run.folder / "samples" / "host.csv")
    samples = samples[samples["metric"].isin(_MEMORY) & samples["subject"].str.startswith("process:")]
    for subject, of_process in samples.groupby("subject"):
        name = str(subject).removeprefix("process:")
        for metric in _MEMORY:
            median = of_process.loc[of_process["metric"] == metric, "number"].median()
            if name in pids and pd.notna(median):
                yield _make_memory(metric, _name_position(name), float(median), pids[name])
    own = psutil.Process().memory_info()
    yield _make_memory("memory_bytes", BENCH, own.rss, str(os.getpid()))
    yield _make_memory("private_bytes", BENCH, own.rss - own.shared, str(os.getpid()))


def _make_memory(metric: str, process: str, memory_bytes: float, pid: str) -> tuple[str, Figure]:
    """Return the name of a figure, and the figure, which is in MiB."""
    return f"{_MEMORY[metric]} of {process}, MiB", Figure(value=memory_bytes / _MIB, metric=metric, process=process, subject=pid)


def _find_pids(run: RunTables) -> dict[str, str]:
    """Return the pids of the processes that run on in the next cycle, and of those that each cycle starts under the same names.

    The others have a name of their own in each cycle, like the longrunners, or were killed: each would be a figure of a single cycle.
    """
    return {
        process.name: str(process.pid)
        for process in run.record.processes
        if process.end_ns is None or process.role in _IN_EACH_CYCLE
    }


def _name_position(name: str) -> str:
    """Return the name of the process that this one and its predecessors have replaced: ``worker-3`` for ``worker-3-2``."""
    return _REPLACEMENT.sub(r"\1", name)
