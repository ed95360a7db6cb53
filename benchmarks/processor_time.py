"""Measures the processor time of the client, proxy and server processes while they are under load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Seconds of processor time that each process has used so far, by the group that it belongs to and by its pid."""

    used_s: Mapping[str, Mapping[int, float]]

    def until(self, later: Snapshot) -> dict[str, float]:
        """Return the seconds that each group used until ``later``, by the processes that lived at both times."""
        return {
            group: sum(later.used_s[group][pid] - before_s for pid, before_s in used.items() if pid in later.used_s[group])
            for group, used in self.used_s.items()
        }


def take_snapshot(pids: Mapping[str, Iterable[int]]) -> Snapshot:
    """Read the processor time of groups of processes: of each given one and, for a server's connections, of its children."""
    used: dict[str, dict[int, float]] = {}
    for group, of_group in pids.items():
        used[group] = {}
        for pid in of_group:
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                for each in (process, *process.children(recursive=True)):
                    with suppress(psutil.NoSuchProcess):
                        times = each.cpu_times()
                        used[group][each.pid] = times.user + times.system
    return Snapshot(used)
