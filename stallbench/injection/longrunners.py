"""Longrunners under the run's control: started, proven to hold what they should, watched, ended, and proven to be gone.

A longrunner that says that it holds the horizon is not believed: its phase counts only after the server itself has named it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stallbench.engines import driver_of
from stallbench.errors import NotCarriedOutError
from stallbench.injection.longrunner_verification import find_on_innodb, find_on_postgres
from stallbench.processes.process import Process
from stallbench.processes.supervisor import Supervisor
from stallbench.run.folder import RunFolder
from stallbench.scenario.model import LongrunnerChoice
from stallbench.servers.cluster import Cluster

PROOF_S = 15.0
"""How long a longrunner may take until the server names it as a holder; a replica's feedback needs a few seconds."""
RELEASE_S = 10.0


@dataclass(slots=True, kw_only=True)
class Longrunner:
    """One longrunner of one phase, and what is known of it; the fields are those of ``run.json``."""

    name: str
    choice: LongrunnerChoice
    phase: str
    process: Process
    document: Mapping[str, object] = field(repr=False)
    start_ns: int
    verified_ns: int | None = None
    end_ns: int | None = None
    verified_gone_ns: int | None = None
    evidence: dict[str, Any] | None = None
    held: bool | None = None
    why_ended: str = ""

    def record(self) -> dict[str, Any]:
        """Return its part of ``run.json``."""
        return {
            "name": self.name,
            "kind": self.choice.kind,
            "on": self.choice.on,
            "phase": self.phase,
            "options": self.choice.options,
            "may_be_ended": self.choice.may_be_ended,
            "start_ns": self.start_ns,
            "verified_ns": self.verified_ns,
            "end_ns": self.end_ns,
            "verified_gone_ns": self.verified_gone_ns,
            "evidence": self.evidence,
            "held": self.held,
            "why_ended": self.why_ended,
        }


class Longrunners:
    """All longrunners of a run."""

    def __init__(self, cluster: Cluster, processes: Supervisor, folder: RunFolder) -> None:
        """Prepare for the servers of ``cluster``; nothing is started."""
        self._cluster = cluster
        self._processes = processes
        self._folder = folder
        self._all: list[Longrunner] = []

    def records(self) -> list[dict[str, Any]]:
        """Return all of them for ``run.json``."""
        return [longrunner.record() for longrunner in self._all]

    def may_be_ended(self, name: str) -> bool:
        """Whether there is a longrunner of that name that its server may end."""
        return any(longrunner.choice.may_be_ended for longrunner in self._all if longrunner.name == name)

    def start(self, phase: str, choices: tuple[LongrunnerChoice, ...]) -> None:
        """Start those of a phase and wait until the servers name each as a holder.

        Raises `NotCarriedOutError` if one does not start or is not seen within `PROOF_S`.
        """
        fresh = [self._start_one(phase, choice) for choice in choices]
        for longrunner in fresh:
            self._prove(longrunner)

    def end(self, phase: str) -> None:
        """Check that those of the phase held to its end, end them, and wait until the servers name them no more."""
        for longrunner in self._of(phase):
            longrunner.held = longrunner.process.poll() is None and self._find(longrunner) is not None
            longrunner.end_ns = time.time_ns()
            longrunner.why_ended = next((str(m["lost"]) for m in longrunner.process.messages() if "lost" in m), "")
            longrunner.process.stop(RELEASE_S)
            self._release(longrunner)

    def release_all(self) -> None:
        """After a run that broke off: remove what dead longrunners left on the servers, as far as these answer."""
        for longrunner in self._all:
            if longrunner.verified_gone_ns is None and longrunner.process.poll() is not None:
                try:
                    self._release(longrunner)
                except NotCarriedOutError as error:
                    longrunner.why_ended = f"could not be released: {error}"

    def _of(self, phase: str) -> list[Longrunner]:
        return [longrunner for longrunner in self._all if longrunner.phase == phase and longrunner.end_ns is None]

    def _start_one(self, phase: str, choice: LongrunnerChoice) -> Longrunner:
        number = 1 + sum(other.choice.kind == choice.kind for other in self._all)
        name = f"{choice.kind}-{number}"
        server = self._cluster.server(choice.on)
        document = {
            "name": name,
            "kind": choice.kind,
            "on": choice.on,
            "endpoint": server.proxied.with_password(),
            "options": choice.options,
        }
        process = self._processes.start(
            name,
            "longrunner",
            [sys.executable, "-m", "longrunners"],
            document=document,
            log=self._folder.logs / f"{name}.log",
            ready=True,
        )
        longrunner = Longrunner(
            name=name, choice=choice, phase=phase, process=process, document=document, start_ns=time.time_ns()
        )
        self._all.append(longrunner)
        return longrunner

    def _prove(self, longrunner: Longrunner) -> None:
        ready = longrunner.process.wait_ready(PROOF_S)
        longrunner.evidence = dict(ready.get("holder", {}))
        deadline_s = time.monotonic() + PROOF_S
        while time.monotonic() < deadline_s:
            found = self._find(longrunner)
            if found is not None:
                longrunner.evidence |= found
                longrunner.verified_ns = time.time_ns()
                return
            if longrunner.process.poll() is not None:
                break
            time.sleep(0.1)
        raise NotCarriedOutError(
            f"longrunner {longrunner.name} on {longrunner.choice.on} said that it holds {longrunner.evidence}, but the "
            f"server did not name it within {PROOF_S:.0f} s: phase {longrunner.phase!r} would show nothing; "
            f"see {longrunner.process.log}"
        )

    def _find(self, longrunner: Longrunner) -> dict[str, Any] | None:
        """Ask the servers for the longrunner; returns what they say of it, or nothing if they do not know it."""
        server = self._cluster.server(longrunner.choice.on)
        driver = driver_of(server.direct.engine)
        find = find_on_postgres if server.direct.engine == "postgres" else find_on_innodb
        try:
            return find(self._cluster.running_by_role, longrunner.choice.on, longrunner.name, longrunner.evidence or {})
        except driver.errors as error:
            raise NotCarriedOutError(
                f"the servers could not be asked for longrunner {longrunner.name}: {driver.describe(error)}"
            ) from error

    def _release(self, longrunner: Longrunner) -> None:
        if longrunner.process.exit_code != 0:
            self._processes.run_to_end(
                f"{longrunner.name}-release",
                [sys.executable, "-m", "longrunners"],
                document={**longrunner.document, "release": True},
                log=self._folder.logs / f"{longrunner.name}.log",
                deadline_s=RELEASE_S,
            )
        deadline_s = time.monotonic() + RELEASE_S
        while self._find(longrunner) is not None:
            if time.monotonic() > deadline_s:
                raise NotCarriedOutError(
                    f"longrunner {longrunner.name} was ended, but its server still names it {RELEASE_S:.0f} s later"
                )
            time.sleep(0.1)
        longrunner.verified_gone_ns = time.time_ns()
