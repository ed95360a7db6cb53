"""Did every process end as intended?"""

from __future__ import annotations

import signal

from stallbench.processes.record import ProcessRecord
from stallbench.run.record import RunRecord
from stallbench.verdicts.check import Check, Finding, RunTables

_SUBJECT = "processes end as intended"
_NOT_JUDGED = ("longrunner", "observer")
"""Longrunners are judged as injections; observers take no part in the run."""
OF_THE_QUEUE = ("worker", "scheduler")
"""Roles whose processes the outcome has."""


class ProcessEnds(Check):
    """Fails if a process exited unexpectedly."""

    name = "processes"
    position = 8

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding; a requirement judges whether workers and schedulers that exited came back."""
        exited = [
            process
            for process in run.record.processes
            if process.role not in _NOT_JUDGED and exited_unexpectedly(process, run.record)
        ]
        described = ", ".join(f"{process.name} ({_describe_end(process.exit_code)})" for process in exited)
        is_required = "workers" in run.record.scenario.required
        if exited and is_required and all(process.role in OF_THE_QUEUE for process in exited):
            return [self.not_applicable(_SUBJECT, f"judged as required; exited unexpectedly: {described}")]
        if exited:
            return [self.finding("fail", _SUBJECT, f"exited unexpectedly: {described}")]
        return [self.finding("pass", _SUBJECT, "every process ended as intended")]


def exited_unexpectedly(process: ProcessRecord, record: RunRecord) -> bool:
    """Whether a process ended although nobody asked it to, or not as one that was asked to."""
    if process.end_ns is None:
        return record.has_unrecorded_end(process)
    return process.intended == "running" or (process.intended == "stopped" and not process.ended_orderly)


def _describe_end(code: object) -> str:
    if not isinstance(code, int):
        return "its end was not seen"
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
