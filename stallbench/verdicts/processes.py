"""Did every process end as it was meant to?"""

from __future__ import annotations

import signal
from typing import Any

from stallbench.processes.record import is_orderly_end
from stallbench.verdicts.check import Check, Finding, RunTables


class ProcessEnds(Check):
    """Names the processes that died uninvited. Longrunners are judged by what they held."""

    name = "processes"
    place = 6

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding."""
        died = [
            f"{process['name']} ({_describe(process['exit_code'])})"
            for process in run.record["processes"]
            if process["role"] not in ("longrunner", "observer") and _exited_unexpectedly(process, run.record["status"])
        ]
        reason = f"ended uninvited: {', '.join(died)}" if died else "every process ended as it was asked to"
        return [
            Finding(
                check=self.name,
                subject="processes end as intended",
                result="fail" if died else "pass",
                reason=reason,
                found=reason,
            )
        ]


def _exited_unexpectedly(process: dict[str, Any], status: str) -> bool:
    if process["end_ns"] is None:
        # Of the bench's own processes one without an end is at its end with the bench; of others' it was killed, or lost its folder.
        return status != "completed" or process.get("external", False)
    return process["intended"] == "running" or (
        process["intended"] == "stopped"
        and not is_orderly_end(process["role"], process["exit_code"], tuple(process.get("orderly_exit_codes", (0,))))
    )


def _describe(code: object) -> str:
    if not isinstance(code, int):
        return "its end was not seen"
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
