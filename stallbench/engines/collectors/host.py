"""Is the machine itself the bottleneck, and which process uses most of it?"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from stallbench.engines.collectors.collector import Collector, samples_of
from stallbench.engines.collectors.document import CollectorsDocument
from stallbench.records.samples import Sample

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Usage(NamedTuple):
    """What a process uses, as proc(5) has it. psutil gives the same, in four times the time: it asks for each figure separately."""

    started: int
    """When it was started, in clock ticks: distinguishes it from an earlier process with the same id."""
    cpu_s: float
    memory_bytes: int
    """Resident."""
    private_bytes: int
    """What of that is not shared with other processes."""


def read_usage(pid: int) -> Usage:
    """Read what a process has used so far. Raises `OSError` if there is no such process."""
    _, _, after_name = _read(f"/proc/{pid}/stat").rpartition(b") ")
    fields = after_name.split()  # from the third one on: the state
    _, resident, shared, *_ = (int(pages) for pages in _read(f"/proc/{pid}/statm").split())
    return Usage(
        started=int(fields[19]),
        cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND,
        memory_bytes=resident * _PAGE_BYTES,
        private_bytes=(resident - shared) * _PAGE_BYTES,
    )


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class _Sum:
    """The figures of all processes of one name."""

    cpu_percent: float = 0.0
    memory_bytes: int = 0
    private_bytes: int = 0


class HostCollector(Collector):
    """Reads processor, memory and disk of the host, and of each process that ``run.json`` names."""

    name = "host"
    is_of_servers = False

    def __init__(self, document: CollectorsDocument) -> None:
        """Begin to count processor time."""
        super().__init__(document)
        self._record = document.run_folder / "run.json"
        self._record_changed_ns = 0
        self._names: dict[int, str] = {}
        self._before: dict[int, tuple[float, Usage]] = {}
        """By process: when its usage was last read, on the monotonic clock, and what it was."""
        psutil.cpu_percent()

    def sample(self) -> Iterable[Sample]:
        """Return the host's figures and, for each process, its own; a server's include its children's."""
        disk = psutil.disk_io_counters()
        values = {
            "cpu_percent": psutil.cpu_percent(),
            "memory_used_bytes": psutil.virtual_memory().used,
            "disk_read_bytes": disk.read_bytes if disk else None,
            "disk_written_bytes": disk.write_bytes if disk else None,
            "load1": os.getloadavg()[0],
        }
        samples = list(samples_of("host", "host", values))
        self._read_names()
        usage = self._add_up()
        for name, total in sorted(usage.items()):
            figures = {
                "cpu_percent": round(total.cpu_percent, 2),
                "memory_bytes": total.memory_bytes,
                "private_bytes": total.private_bytes,
            }
            samples += samples_of("host", f"process:{name}", figures)
        for server in self.document.servers:
            if server.name in usage:
                samples += samples_of(server.name, "server", {"cpu_percent": round(usage[server.name].cpu_percent, 2)})
        return samples

    def _read_names(self) -> None:
        try:
            changed_ns = self._record.stat().st_mtime_ns
            if changed_ns != self._record_changed_ns:
                # Only two keys, each time that the file changes: the whole model would cost more than the sample itself.
                record = json.loads(self._record.read_text())
                self._names = {entry["pid"]: entry["name"] for entry in record["processes"] if entry["end_ns"] is None}
                self._record_changed_ns = changed_ns
        except FileNotFoundError:
            self._names = {}

    def _add_up(self) -> dict[str, _Sum]:
        """Sum processor share, resident memory and private memory, by the name of the process or of its parent.

        The resident set of each process of a server includes the shared memory that the process has used, so the sum counts shared memory
        several times.
        """
        sums: dict[str, _Sum] = {}
        alive: dict[int, tuple[float, Usage]] = {}
        for pid, name in self._own_pids():
            now_s = time.monotonic()
            try:
                usage = read_usage(pid)
            except OSError:
                continue
            total = sums.setdefault(name, _Sum())
            total.memory_bytes += usage.memory_bytes
            total.private_bytes += usage.private_bytes
            before_s, before = self._before.get(pid, (now_s, usage))
            if before.started == usage.started and before_s < now_s:
                total.cpu_percent += 100 * (usage.cpu_s - before.cpu_s) / (now_s - before_s)
            alive[pid] = (now_s, usage)
        self._before = alive
        return sums

    def _own_pids(self) -> Iterable[tuple[int, str]]:
        for pid, name in self._names.items():
            yield pid, name
            children = Path(f"/proc/{pid}/task/{pid}/children")
            try:
                for child in children.read_text().split():
                    if int(child) not in self._names:
                        yield int(child), name
            except OSError:
                continue
