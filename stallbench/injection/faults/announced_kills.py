"""Processes that kill themselves because a job fault says so: distinguishes their ends from unexpected ones, and replaces them."""

from __future__ import annotations

import time

from stallbench.errors import NotCarriedOutError
from stallbench.injection.context import InjectionContext
from stallbench.injection.job_faults import has_announced, read_announced_job, remove_announcement
from stallbench.processes.process import Process
from stallbench.waiting import wait_until

_KILL_WITHIN_S = 5.0
"""How long a process may take from announcing its kill until it has ended."""
_POLL_S = 0.005


class AnnouncedKills:
    """The kills by one fault. A process announces its kill in a file before it sends itself SIGKILL."""

    def __init__(self, context: InjectionContext, name: str, on: str, replace_after_s: float) -> None:
        """Expect kills by the fault ``name`` of the processes that ``on`` refers to, now and later."""
        self._context = context
        self._name = name
        self._on = on
        self._replace_after_s = replace_after_s
        self._to_replace: list[tuple[float, Process]] = []
        self._exposed: list[Process] = []
        self.killed: list[str] = []
        """Names of the processes that the fault has killed."""
        self.jobs: list[int | None] = []
        """The job that each of them had announced, if it had one."""
        self._expose()

    def tick(self) -> None:
        """Record which processes the fault has killed, and start the replacements that are due."""
        folder, now_s = self._context.job_faults, time.monotonic()
        for process in [process for process in self._exposed if process.poll() is not None]:
            if self._is_announced(process) and process.intended == "running":
                process.intended = "killed"
                self.jobs.append(read_announced_job(folder, self._name, process.name, "kill"))
                self.killed.append(process.name)
                remove_announcement(folder, self._name, process.name)
                self._to_replace.append((now_s + self._replace_after_s, process))
            self._unexpose(process)  # so that the run reports an end that had another cause
        self._expose()
        for item in [item for item in self._to_replace if item[0] <= now_s]:
            self._to_replace.remove(item)
            # It may be killed before this is called again.
            self._expose_process(self._context.load.replace(item[1]))

    def end(self) -> None:
        """After the job fault has ended: record the last kills, and replace every process that was killed.

        Raises `NotCarriedOutError` if a process that has announced its kill does not end in time: its end would look unexpected.
        """
        self._wait_for_announced()
        self.tick()
        for _, process in self._to_replace:
            self._context.load.replace(process)
        self._to_replace = []
        for process in list(self._exposed):
            self._unexpose(process)

    def _expose(self) -> None:
        """Mark every process, also those started since, as one that the fault may kill: such an end is not unexpected."""
        for process in self._context.load.named(self._on):
            if process not in self._exposed:
                self._expose_process(process)

    def _expose_process(self, process: Process) -> None:
        self._exposed.append(process)
        process.may_be_killed_by.add(self._name)

    def _unexpose(self, process: Process) -> None:
        self._exposed.remove(process)
        process.may_be_killed_by.discard(self._name)

    def _is_announced(self, process: Process) -> bool:
        return has_announced(self._context.job_faults, self._name, process.name)

    def _wait_for_announced(self) -> None:
        """Wait for processes that read the job fault just before it was removed: the fault kills them, too. Raises `NotCarriedOutError`."""

        def list_late() -> list[str]:
            return [process.name for process in self._exposed if process.poll() is None and self._is_announced(process)]

        if not wait_until(lambda: not list_late(), within_s=_KILL_WITHIN_S, every_s=_POLL_S):
            late = ", ".join(list_late())
            raise NotCarriedOutError(
                f"{late} announced that it is killed by {self._name}, but did not end within {_KILL_WITHIN_S:g} s"
            )
