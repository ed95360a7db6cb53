"""Was every deadlock that the server broke reported to the client that was rolled back?"""

from __future__ import annotations

from stallbench.engines import ENGINES
from stallbench.engines.error_kinds import DEADLOCK_CODES
from stallbench.verdicts.check import Check, Finding, RunTables

_SUBJECT = "deadlocks are reported"
_FEW = 20
"""Below this number of reported deadlocks, the server's count may be behind: PostgreSQL's sessions hand their counters over with a delay."""


class Deadlocks(Check):
    """Compares the server's count of deadlocks with the errors that clients recorded for them.

    Both cover the whole record, also the time before and after the phases. The server rolls one transaction back for each deadlock. A queue
    that ignores the error treats work as done that was rolled back. One unreported deadlock is allowed for each injection and for each process
    that died: the server may have rolled back their transactions, and they may not be able to record it. A fault whose own statements were ended
    says how often (``ended_by_deadlock`` in its evidence).

    A server that counts less than half of what clients reported does not count all deadlocks, as MySQL 8.0.15: then nothing is known.
    """

    name = "deadlocks"
    position = 5

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding; unknown without samples, info on an engine that counts no deadlocks."""
        record = run.record
        engine = ENGINES[record.scenario.database.engine]
        if not engine.counts_deadlocks:
            return [self.not_applicable(_SUBJECT, f"{engine.title} does not count deadlocks")]
        grown = run["windows"]["deadlocks_count"].dropna()
        if grown.empty:
            return [self.unknown(_SUBJECT, f"{engine.title} counts deadlocks, but there are no samples of its count")]
        broken = int(grown.sum())
        errors = run["errors"]
        reported = int(errors.loc[errors["kind"].isin(DEADLOCK_CODES), "count"].sum())
        died = sum(process.exit_code not in (None, 0) for process in record.processes)
        own = sum(int(fault.evidence.get("ended_by_deadlock", 0)) for fault in record.faults)
        allowed = len([*record.faults, *record.longrunners]) + died + own
        found = f"the server broke {broken:,} deadlocks; clients recorded {reported:,} errors for them"
        if reported >= _FEW and broken < reported / 2:
            return [self.unknown(_SUBJECT, f"{found}: its count is not complete")]
        return [
            self.finding(
                "fail" if broken - reported > allowed else "pass",
                _SUBJECT,
                found if broken or reported else "the server broke no deadlock",
                expected=f"at most {allowed} that no client recorded",
            )
        ]
