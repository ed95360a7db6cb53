"""The maintenance of a run: its processes, and what they say they did."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stallbench.processes.process import Process
from stallbench.processes.supervisor import Supervisor
from stallbench.run.folder import RunFolder
from stallbench.scenario.model import MaintenanceChoice
from stallbench.servers.cluster import Cluster

_READY_S = 30.0
_STOP_S = 15.0
_ROLE = "maintenance"


@dataclass(slots=True, kw_only=True)
class _Kept:
    """One of them, and what is known of it; the fields are those of ``run.json``."""

    name: str
    choice: MaintenanceChoice
    process: Process
    turns: int = 0
    took_s: float = 0.0
    did: list[dict[str, Any]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)

    def hear(self) -> None:
        """Take in what it has said."""
        for message in self.process.messages():
            turn = message.get("turn")
            if turn is not None:
                self.turns += 1
                self.took_s += turn["took_s"]
                self.did += [{"t_ns": turn["t_ns"], "what": what} for what in turn["did"]]
                if turn["error"]:
                    self.errors.append({"t_ns": turn["t_ns"], "what": turn["error"]})

    def record(self) -> dict[str, Any]:
        """Return its part of ``run.json``."""
        self.hear()
        return {
            "name": self.name,
            "kind": self.choice.kind,
            "on": self.choice.on,
            "options": self.choice.options,
            "start_ns": self.process.start_ns,
            "end_ns": self.process.end_ns,
            "turns": self.turns,
            "took_s": round(self.took_s, 3),
            "did": self.did,
            "errors": self.errors,
        }


class Upkeep:
    """All maintenance of a run; it goes on for as long as there is load."""

    def __init__(self, cluster: Cluster, queue: Mapping[str, Any], *, processes: Supervisor, folder: RunFolder) -> None:
        """Prepare; nothing is started. ``queue``: its part of ``run.json``."""
        self._cluster = cluster
        self._queue = queue
        self._processes = processes
        self._folder = folder
        self._all: list[_Kept] = []

    def records(self) -> list[dict[str, Any]]:
        """Return all of it for ``run.json``."""
        return [kept.record() for kept in self._all]

    def start(self, choices: tuple[MaintenanceChoice, ...]) -> None:
        """Start what a scenario asks for, and wait until each is connected."""
        for choice in choices:
            name = f"{choice.kind}-{1 + sum(kept.choice.kind == choice.kind for kept in self._all)}"
            process = self._processes.start(
                name,
                _ROLE,
                [sys.executable, "-m", "stallbench.maintenance"],
                document={
                    "name": name,
                    "kind": choice.kind,
                    "endpoint": self._cluster.server(choice.on).direct.with_password(),
                    "options": choice.options,
                    "tables": self._queue["tables"],
                },
                log=self._folder.logs / f"{name}.log",
                ready=True,
            )
            self._all.append(_Kept(name=name, choice=choice, process=process))
        for kept in self._all:
            kept.process.wait_ready(_READY_S)

    def stop(self) -> None:
        """Let each finish its turn; what takes longer than a moment is killed, and its server breaks it off."""
        self._processes.stop(self._processes.of_role(_ROLE), _STOP_S)
