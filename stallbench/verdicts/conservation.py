"""Is every job accounted for, by its id?"""

from __future__ import annotations

from stallbench.verdicts.check import Check, Finding, RunTables


class Conservation(Check):
    """No job is lost, none stays after its completion, none appears that nobody enqueued, and of each it is known what became of it."""

    name = "conservation"
    place = 1

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding."""
        if run["conservation"].empty:
            return [Finding.unknown(self.name, "no job was recorded, so none can be accounted for")]
        count = run.state_count
        told = [
            (count("completed"), "completed"),
            (count("completed_unrecorded"), "completed by a process that died before it could record it"),
            (count("queued"), "still queued"),
            (count("claimed"), "still claimed"),
            (count("lost"), "LOST"),
            (count("held_after_completion"), "STILL IN THE QUEUE after their completion was confirmed"),
            (count("unexpected"), "never enqueued on record"),
            (count("enqueue_unrecorded"), "enqueued by a process that died, or whose call raised, before it could record it"),
            (count("unknown"), "of which nobody looked what became"),
        ]
        found = ", ".join(f"{jobs:,} {what}" for jobs, what in told if jobs)
        bad = [state for state in ("lost", "held_after_completion", "unexpected") if count(state)]
        unknown = not bad and count("unknown")
        return [
            Finding(
                check=self.name,
                subject="every job is accounted for",
                result="fail" if bad else "unknown" if unknown else "pass",
                reason=f"of {count('enqueued'):,} jobs enqueued: {found}",
                expected="0 lost, 0 held after completion, 0 unexpected, 0 unknown",
                found=found,
                examples=tuple(job for state in (*bad, "unknown") for job in run.state_examples(state)),
            )
        ]
