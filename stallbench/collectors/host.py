"""Is the machine itself the bottleneck, and which process uses it up?"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import psutil

from stallbench.collectors.collector import Collector, samples_of
from stallbench.collectors.document import CollectorsDocument
from stallbench.records.samples import Sample


class HostCollector(Collector):
    """Reads processor, memory and disk of the host, and of each process that ``run.json`` names."""

    name = "host"

    def __init__(self, document: CollectorsDocument) -> None:
        """Begin to count processor time."""
        super().__init__(document)
        self._record = document.run_folder / "run.json"
        self._record_changed_ns = 0
        self._names: dict[int, str] = {}
        self._processes: dict[int, psutil.Process] = {}
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
        for name, (cpu_percent, memory_bytes, private_bytes) in sorted(usage.items()):
            figures = {"cpu_percent": round(cpu_percent, 2), "memory_bytes": memory_bytes, "private_bytes": private_bytes}
            samples += samples_of("host", f"process:{name}", figures)
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

    def _add_up(self) -> dict[str, tuple[float, int, int]]:
        """Sum processor share, memory (resident), and what of that is not shared, by the name of the process or of its parent.

        The resident sets of a server's processes hold its shared memory again and again, as far as each has touched it.
        """
        usage: dict[str, tuple[float, int, int]] = {}
        alive: dict[int, psutil.Process] = {}
        for pid, name in self._own_pids():
            try:
                process = self._processes.get(pid) or psutil.Process(pid)
                cpu_percent = process.cpu_percent()
                memory = process.memory_info()
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            alive[pid] = process
            cpu_before, memory_before, private_before = usage.get(name, (0.0, 0, 0))
            private_bytes = memory.rss - memory.shared
            usage[name] = (cpu_before + cpu_percent, memory_before + memory.rss, private_before + private_bytes)
        self._processes = alive
        return usage

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
