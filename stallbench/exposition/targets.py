"""Where Prometheus finds the processes of a run: a file of its file discovery, replaced whole whenever something changes.

The labels of a target say what all its series have in common: scenario, variant, queue, engine, and the phase that the run is in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench.whole_file import replace_file

TARGETS_FOLDER = "targets"


class Targets:
    """One run's file."""

    def __init__(self, folder: Path, labels: Mapping[str, str]) -> None:
        """Make ``folder``; ``labels`` stay the same for the whole run."""
        folder.mkdir(exist_ok=True)
        self._path = folder / "stallbench.json"
        self._labels = dict(labels)
        self._phase = ""
        self._processes: dict[str, str] = {}
        self._write()

    def say_phase(self, name: str) -> None:
        """Say which phase the run is in; empty between them."""
        if name != self._phase:
            self._phase = name
            self._write()

    def say_processes(self, addresses: Mapping[str, str]) -> None:
        """Say who answers where: ``host:port`` by the process's name."""
        if dict(addresses) != self._processes:
            self._processes = dict(addresses)
            self._write()

    def end(self) -> None:
        """Say that nobody answers any more."""
        self._processes = {}
        self._write()

    def _write(self) -> None:
        content: Sequence[Mapping[str, object]] = [
            {"targets": [address], "labels": {**self._labels, "phase": self._phase, "process": name}}
            for name, address in sorted(self._processes.items())
        ]
        replace_file(self._path, json.dumps(content, indent=1))
        # Prometheus may be another user.
        self._path.chmod(0o644)
