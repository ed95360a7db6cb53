"""Writes the addresses of a run's processes to a file for Prometheus' file discovery. Each change replaces the file atomically.

The files of all runs are in one folder, ``targets/``, because Prometheus accepts patterns of files but not of folders.

The labels of a target are those that all its series share: scenario, variant, queue, engine, and the current phase.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench.base.storage.targets_file import name_targets, open_targets, remove_targets

_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - compared with, not bound


class Targets:
    """One run's file."""

    def __init__(self, run: Path, labels: Mapping[str, str], host: str) -> None:
        """Create the file for the run in the folder ``run``.

        ``labels`` stay the same for the whole run. ``host``: the address that its own processes listen on. Raises `UntrustedError` if the folder of the
        files is another user's.
        """
        self._host = socket.gethostname() if host == _ALL_ADDRESSES else host
        self._run = run
        path = name_targets(run)
        self._name = path.name
        if not os.path.lexists(path.parent):
            path.parent.mkdir(mode=0o755)
        self._labels = dict(labels)
        self._phase = ""
        self._processes: dict[str, str] = {}
        self._write()

    def say_phase(self, name: str) -> None:
        """Set the current phase; empty between phases."""
        if name != self._phase:
            self._phase = name
            self._write()

    def say_processes(self, ports: Mapping[str, int], others: Mapping[str, str]) -> None:
        """Set the addresses by process name: ``ports`` of the run's own processes, ``host:port`` of ``others``."""
        addresses = {name: f"{self._host}:{port}" for name, port in ports.items()} | dict(others)
        if addresses != self._processes:
            self._processes = addresses
            self._write()

    def end(self) -> None:
        """Remove the file, because no process answers any more."""
        remove_targets(self._run)

    def _write(self) -> None:
        content: Sequence[Mapping[str, object]] = [
            {"targets": [address], "labels": {**self._labels, "phase": self._phase, "process": name}}
            for name, address in sorted(self._processes.items())
        ]
        with open_targets(self._run) as folder:
            folder.replace(self._name, json.dumps(content, indent=1), mode=0o644)  # Prometheus may be another user
