"""The sample run with the records of a made-up one added, so that every table of it has rows.

The sample is a run without errors, faults and duplicates. What is added has its own processes and job ids, and lies in the same phases.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from stallbench.records.events import Event
from tests.synthetic_run import START_NS, SyntheticRun

SAMPLE = Path(__file__).resolve().parents[1] / "small_run"
MADE = ("tables", "verdict.json", "report.html", "junit.xml", "summary.md")
_TIME = re.compile(rb"\b18000000\d{11}\b")
_PRODUCER, _FIRST, _SECOND, _DEAD = "producer-9", "worker-7", "worker-8", "worker-9"
_FIRST_JOB = 1_000_000
_WINDOW = 4


def copy_with_trouble(folder: Path) -> None:
    """Copy the sample without what was made of it to ``folder``, and add the made-up records."""
    shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns(*MADE))
    record = json.loads((folder / "run.json").read_text())
    later_ns = record["phases"][0]["start_ns"] - START_NS
    story = SyntheticRun(folder / "made-up")
    held = _tell(story)
    story.write(final_snapshot=held)
    for file in story.folder.glob("*/*.csv"):
        with (folder / file.relative_to(story.folder)).open("ab") as target:
            target.write(_shift(file.read_bytes(), later_ns))
    snapshot = "".join(f"{job},{state}\n" for job, state in held.items())
    (folder / "final_snapshot.csv").write_text(f"{snapshot}end,{len(held)}\n")  # the sample's own one has no job
    for part in ("injections", "processes"):
        added = [entry for entry in story.record[part] if entry["name"] not in {known["name"] for known in record[part]}]
        record[part] += json.loads(_shift(json.dumps(added).encode(), later_ns))
    record["queue"]["window"] = _WINDOW
    record["scenario"]["producers"]["backlog"] = 100
    (folder / "run.json").write_text(json.dumps(record))
    shutil.rmtree(story.folder)


def _shift(text: bytes, later_ns: int) -> bytes:
    return _TIME.sub(lambda found: str(int(found[0]) + later_ns).encode(), text)


def _tell(run: SyntheticRun) -> dict[int, str]:
    """Add the records to ``run``; returns the jobs that the queue still holds."""
    run.process(_PRODUCER, end_s=23).process(_FIRST, end_s=23).process(_SECOND, end_s=23)
    run.process(_DEAD, exit_code=-9, end_s=9, intended="killed")
    jobs = iter(range(_FIRST_JOB, 2 * _FIRST_JOB))
    for number in range(60):
        job = next(jobs)
        run.enqueue(job, at_s=3 + number / 10, by=_PRODUCER).event(Event.LOST_RACE, at_s=3.02 + number / 10, by=_SECOND, job=job)
        run.execute(job, at_s=3.05 + (number ^ 3) / 10, by=_FIRST if number % 3 else _SECOND)
    _add_faults(run)
    twice, late, stuck, left, lost = (next(jobs) for _ in range(5))
    for number, job in enumerate((twice, late, stuck, left, lost)):
        run.enqueue(job, at_s=7.9 + number / 100, by=_PRODUCER)
    run.execute(twice, at_s=8, by=_FIRST).execute(twice, at_s=8.005, by=_SECOND)
    run.claim(late, at_s=8.8, by=_DEAD).execute(late, at_s=13, by=_SECOND)
    run.claim(stuck, at_s=8.85, by=_DEAD)
    run.claim(lost, at_s=8.3, by=_FIRST)
    run.raise_error("40P01 in claim: deadlock", at_s=8.5, by=_FIRST)
    run.raise_error("57P01 in complete: gone", at_s=11.1, by=_SECOND, job=twice)
    for kind, subject in (("fifo", "a"), ("fifo", "a"), ("due", START_NS + 9 * 10**9), ("after", twice), ("queue", "noisy")):
        _wait(run, next(jobs), f"{kind}:{subject}", 8.1)
    for key in (1, 5, 5, 10_000_000_000):
        _wait(run, next(jobs), f"key:{key}", 12.1 + key / 1e11)
    for second in range(8, 15):
        state: dict[str, Any] = {
            "pid": 4711,
            "application": "stallbench:longrunner:idle_writer-1",
            "state": "active",
            "stuck_s": second - 8,
        }
        run.sample("notifications", "client_write:4711:99", at_s=second, **state)
    run.garble(f"events/{_SECOND}.csv", b"torn\n")
    return {stuck: "claimed", left: "queued"}


def _add_faults(run: SyntheticRun) -> None:
    for name, from_s, to_s in (("kill-1", 9, 9), ("down-1", 11, 12), ("pause-1", 11.5, 12.5)):
        begun, ended = (START_NS + round(t_s * 1e9) for t_s in (from_s, to_s))
        times: dict[str, Any] = {"start_ns": begun, "verified_ns": begun, "end_ns": ended, "verified_gone_ns": ended}
        kind = name.rpartition("-")[0]
        run.record["injections"].append(
            {"name": name, "category": "fault", "kind": kind, "on": "workers", "phase": "longtx", "active_to_end": True, **times}
        )


def _wait(run: SyntheticRun, job: int, condition: str, at_s: float) -> None:
    """Enqueue a job with a condition, and let it be executed at once."""
    run.event(Event.ENQUEUED, at_s=at_s, by=_PRODUCER, job=job, intended_s=at_s, detail=condition)
    run.execute(job, at_s=at_s + 0.2, by=_FIRST)
