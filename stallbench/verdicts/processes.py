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
_OF_THE_LOAD = ("producer", *OF_THE_QUEUE)


class ProcessEnds(Check):
    """Fails if a process exited unexpectedly, or if one of the load had to be killed because it did not stop when it was asked to, although no job took
    so long.
    """

    name = "processes"
    position = 8

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding; unknown if no process of the load was recorded. A requirement judges whether workers and schedulers that exited came back."""
        record = run.record
        judged = [process for process in record.processes if process.role not in _NOT_JUDGED]
        if not any(process.role in _OF_THE_LOAD for process in judged):
            return [self.unknown(_SUBJECT, "no producer, worker or scheduler was recorded")]
        exited = [process for process in judged if exited_unexpectedly(process, record)]
        described = ", ".join(f"{each.name} ({_describe_end(each.exit_code)})" for each in exited)
        longest_s = max([record.scenario.workers.work_s, *(fault.longest_job_s or 0.0 for fault in record.faults)])
        killed = [
            f"{each.name} (within {each.outlived_s:g} s)"
            for each in judged
            if each.role in _OF_THE_LOAD and each.outlived_s is not None and each.outlived_s > longest_s
        ]
        is_required = "workers" in record.scenario.required
        if exited and not killed and is_required and all(process.role in OF_THE_QUEUE for process in exited):
            return [self.not_applicable(_SUBJECT, f"judged as required; exited unexpectedly: {described}")]
        wrong = [
            *([f"exited unexpectedly: {described}"] if exited else []),
            *([f"did not stop when asked to, and were killed: {', '.join(killed)}"] if killed else []),
        ]
        return [self.finding("fail" if wrong else "pass", _SUBJECT, "; ".join(wrong) or "every process ended as intended")]


def exited_unexpectedly(process: ProcessRecord, record: RunRecord) -> bool:
    """Whether a process ended although nobody asked it to, or not as one that was asked to."""
    if process.end_ns is None:
        return record.has_unrecorded_end(process)
    return process.intended == "running" or (process.intended == "stopped" and not process.ended_orderly)


def _describe_end(code: object) -> str:
    if not isinstance(code, int):
        return "its end was not seen"
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
