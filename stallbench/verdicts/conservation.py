"""Is every job accounted for, by its id?"""

from __future__ import annotations

from stallbench.verdicts.check import Check, Finding, RunTables

_NAMED = 5
"""Ids that stand in the sentence itself; the finding has more of them beside it."""


class Conservation(Check):
    """No job is lost, none stays after its completion, none appears that nobody enqueued, and of each it is known what became of it.

    If the scenario says by an expectation on ``lost`` how many may be lost, losses are told and not failed here.
    """

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
            (count("lost"), f"LOST ({_name(run.state_examples('lost'), count('lost'))})"),
            (count("held_after_completion"), "STILL IN THE QUEUE after their completion was confirmed"),
            (count("unexpected"), "never enqueued on record"),
            (count("enqueue_unrecorded"), "enqueued by a process that died, or whose call raised, before it could record it"),
            (count("unknown"), "of which nobody looked what became"),
        ]
        refused = count("refused")
        left_over = f" and {count('left_over'):,} left over from before" if count("left_over") else ""
        turned_away = f"; {refused:,} more refused by a full queue" if refused else ""
        found = ", ".join(f"{jobs:,} {what}" for jobs, what in told if jobs) + turned_away
        # How many may be lost the scenario may say itself; then that expectation is the judge, and the ids are told all the same.
        is_judged = any(one["metric"].partition(".")[0] == "lost" for one in run.record["scenario"]["expect"])
        bad = [
            state
            for state in ("lost", "held_after_completion", "unexpected")
            if count(state) and not (state == "lost" and is_judged)
        ]
        unknown = not bad and count("unknown")
        return [
            Finding(
                check=self.name,
                subject="every job is accounted for",
                result="fail" if bad else "unknown" if unknown else "pass",
                reason=f"of {count('enqueued'):,} jobs enqueued{left_over}: {found}",
                expected="0 held after completion, 0 unexpected, 0 unknown; an expectation says how many lost"
                if is_judged
                else "0 lost, 0 held after completion, 0 unexpected, 0 unknown",
                found=found,
                examples=tuple(
                    job
                    for state in ("lost", "held_after_completion", "unexpected", "unknown")
                    for job in run.state_examples(state)
                ),
            )
        ]


def _name(jobs: tuple[str, ...], count: int) -> str:
    return ", ".join([f"id {job}" for job in jobs[:_NAMED]] + (["..."] if count > _NAMED else []))
