"""Maintenance as an injection: a process that repeats a task on a server, during the whole load or one phase, and what it reports."""

from __future__ import annotations

from stallbench.injection.choices import MaintenanceChoice
from stallbench.injection.context import InjectionContext
from stallbench.injection.injection import Injection
from stallbench.injection.maintenance import find_maintenance_kinds
from stallbench.processes.process import ROLE_READY_S, ROLE_STOP_S, Process
from stallbench.python_command import python_command
from stallbench.records.injections import Evidence, InjectionLogEntry, InjectionRecord


class MaintenanceInjection(Injection):
    """One process of ``stallbench.injection.maintenance``."""

    def __init__(
        self, name: str, choice: MaintenanceChoice, *, context: InjectionContext, phase_planned_start_s: float = 0.0
    ) -> None:
        """Plan the maintenance that a scenario chooses. ``phase_planned_start_s``: of its phase, if it runs in one phase only."""
        super().__init__(
            InjectionRecord(
                name=name,
                category="maintenance",
                kind=choice.kind,
                on=choice.on,
                phase=choice.phase,
                options=choice.options,
                planned_start_s=phase_planned_start_s + choice.after_s,
                iterations=0,
                busy_s=0.0,
            ),
            after_s=choice.after_s,
        )
        self._context = context
        self._process: Process | None = None

    def describe_effect(self) -> str:
        """Return the summary of its kind."""
        return find_maintenance_kinds()[self.record.kind].summary

    def begin(self) -> None:
        """Start the process."""
        self._process = self._context.processes.start(
            self.record.name,
            "maintenance",
            python_command("stallbench.injection.maintenance"),
            document={
                "name": self.record.name,
                "kind": self.record.kind,
                "endpoint": self._context.cluster.server(self.record.on).direct.with_password(),
                "options": self.record.options,
                "tables": self._context.queue.tables,
                "queue": self._context.queue.kind,
                "queue_options": self._context.queue.options,
            },
            log=self._context.logs / f"{self.record.name}.log",
            ready=True,
        )

    def verify(self) -> Evidence:
        """Wait until the process is connected to its server."""
        assert self._process is not None
        self._process.wait_ready(ROLE_READY_S)
        return {"pid": self._process.pid}

    def tick(self) -> None:
        """Read what it has reported."""
        self._read_reports()

    def why_inactive(self) -> str | None:
        """Check whether the process still runs."""
        assert self._process is not None
        return None if self._process.poll() is None else f"its process {self._process.describe_end()}"

    def end(self) -> None:
        """Let it finish its iteration. If that takes too long, kill it; the server then cancels its statement."""
        if self._process is not None:
            self._process.stop(ROLE_STOP_S)

    def verify_gone(self) -> Evidence:
        """Read the last reports; the process has ended."""
        self._read_reports()
        return {} if self._process is None else {"exit_code": self._process.exit_code}

    def _read_reports(self) -> None:
        if self._process is None:
            return
        for message in self._process.messages():
            if report := message.get("iteration"):
                assert self.record.iterations is not None
                assert self.record.busy_s is not None
                t_ns, error = report["t_ns"], report["error"]
                self.update(
                    iterations=self.record.iterations + 1,
                    busy_s=round(self.record.busy_s + report["busy_s"], 3),
                    actions=(*self.record.actions, *(InjectionLogEntry(t_ns=t_ns, what=what) for what in report["actions"])),
                    errors=(*self.record.errors, *([InjectionLogEntry(t_ns=t_ns, what=error)] if error else [])),
                )
