"""A run's folder made up from a story, for tests of what reads such folders: the pipeline, verdicts, the report.

    run = SyntheticRun(tmp_path / "run", phases={"baseline": 10, "longtx": 10})
    run.enqueue(1, at_s=0.5)
    run.execute(1, at_s=1.0, by="worker-1")
    run.sample("backlog", "queue", at_s=1.5, depth=3)
    run.write(final snapshot={2: "queued"})

Times are seconds since the first phase began (`START_NS`); they may be negative. An operation is recorded when it has ended: ``took_ms`` lies
before ``at_s``. Each method adds one record, or the few of one life; nothing is checked, so that a story may also be an impossible one.
`write` puts the files where docs/run-folder.md says, and can be called again after more was added.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from stallbench.records.events import EVENT_COLUMNS, Event
from stallbench.records.samples import SAMPLE_COLUMNS

START_NS = 1_800_000_000_000_000_000
PRODUCER = "producer-1"
WORKER = "worker-1"


def at_ns(at_s: float) -> int:
    """Return the wall clock at a second of the story, exact to the microsecond."""
    return START_NS + round(at_s * 1e6) * 1_000


class SyntheticRun:
    """The records of one made-up run."""

    def __init__(
        self,
        folder: Path,
        *,
        phases: Mapping[str, float] | None = None,
        promise: str = "at_least_once",
        status: str = "completed",
        warm_up: Sequence[str] = (),
    ) -> None:
        """Begin a run with ``phases`` (name: seconds) one after the other, those of ``warm_up`` not measured.

        There are a producer and a worker that ended as they should; `process` changes that and adds others.
        """
        phases = phases or {"baseline": 10.0}
        self.folder = folder
        self._events: dict[str, list[str]] = {}
        self._samples: dict[str, list[str]] = {}
        self._garbled: list[tuple[str, bytes]] = []
        self._processes: dict[str, dict[str, Any]] = {}
        self.record: dict[str, Any] = {
            "format": 2,
            "id": folder.name,
            "status": status,
            "reason": "",
            "bench": {"version": "0", "pid": 1, "process_started_s": 0.0},
            "seed": 1,
            "scenario": {
                "name": "made-up",
                "variant": None,
                "file": "scenarios/made-up.toml",
                "summary": "A run that was made up.",
                "changes": [],
                "producers": {"count": 1, "rate": 500.0, "payload_bytes": 256, "max_batch": 1},
                "workers": {"count": 1, "work_s": 0.001, "poll_s": 0.02},
                "queue": {"kind": "que"},
                "phases": [{"name": name, "duration_s": duration_s} for name, duration_s in phases.items()],
            },
            "queue": {
                "kind": "que",
                "options": {},
                "promise": promise,
                "ordered": True,
                "tables": ["que_jobs"],
                "indexes": ["que_jobs_pkey"],
                "summary": "",
                "source": "",
            },
            "host": {"cpus": 2, "cpu_model": "cpu", "memory_bytes": 2**30, "kernel": "6", "os": "Debian"}
            | {"disk_free_bytes": 2**40, "boot_id": "boot"},
            "phases": _plan_phases(phases, warm_up),
            "injections": [],
            "notes": [],
        }
        self.process(PRODUCER)
        self.process(WORKER)

    def process(
        self,
        name: str,
        *,
        exit_code: int | None = 0,
        end_s: float | None = 20.0,
        intended: str = "stopped",
        external: bool = False,
    ) -> Self:
        """Set how a process ended: -9 is a kill; no ``end_s``: its end was not recorded. Its role is the name up to the number."""
        self._processes[name] = {
            "name": name,
            "role": name.rpartition("-")[0] or name,
            "pid": 1000 + len(self._processes),
            "start_ns": at_ns(-1),
            "end_ns": None if end_s is None else at_ns(end_s),
            "intended": intended,
            "exit_code": exit_code,
            "external": external,
        }
        return self

    def longrunner(self, name: str, *, phase: str, from_s: float, to_s: float | None, on: str = "primary", **more: Any) -> Self:
        """Add a longrunner that is verified to hold at ``from_s`` and gone at ``to_s``; ``more`` replaces any key of its record."""
        self.record["injections"].append(
            {
                "name": name,
                "category": "longrunner",
                "kind": name.rpartition("-")[0],
                "on": on,
                "phase": phase,
                "options": {},
                "start_ns": at_ns(from_s - 0.5),
                "verified_ns": at_ns(from_s),
                "end_ns": None if to_s is None else at_ns(to_s),
                "verified_gone_ns": None if to_s is None else at_ns(to_s),
                "evidence": {},
                "active_to_end": to_s is not None,
                **more,
            }
        )
        return self

    def event(
        self,
        event: Event,
        *,
        at_s: float,
        by: str,
        job: int | None = None,
        took_ms: float = 1.0,
        intended_s: float | None = None,
        attempt: int = 1,
        detail: str = "",
    ) -> Self:
        """Add one event; the other methods are shorthands. ``attempt``: of those events that have one."""
        values = {
            "t_ns": at_ns(at_s),
            "mono_ns": at_ns(at_s) - START_NS + 10**12,
            "process": by,
            "event": event,
            "job_id": job,
            "attempt": attempt if event in (Event.CLAIMED, Event.WORKED, Event.COMPLETED) else None,
            "intended_ns": None if intended_s is None else at_ns(intended_s),
            "duration_ns": round(took_ms * 1e6),
            "detail": detail,
        }
        self._events.setdefault(by, []).append(_line(values, EVENT_COLUMNS))
        return self

    def enqueue(
        self, job: int, *, at_s: float, by: str = PRODUCER, took_ms: float = 1.0, intended_s: float | None = None
    ) -> Self:
        """Enqueue a job; its intended time is when the call began, unless given."""
        intended = at_s - took_ms / 1e3 if intended_s is None else intended_s
        return self.event(Event.ENQUEUED, at_s=at_s, by=by, job=job, took_ms=took_ms, intended_s=intended)

    def claim(self, job: int, *, at_s: float, by: str = WORKER, took_ms: float = 1.0, attempt: int = 1) -> Self:
        """Let a worker have a job."""
        return self.event(Event.CLAIMED, at_s=at_s, by=by, job=job, took_ms=took_ms, attempt=attempt)

    def work(self, job: int, *, at_s: float, by: str = WORKER, took_ms: float = 1.0) -> Self:
        """Let a worker have done a job's work."""
        return self.event(Event.WORKED, at_s=at_s, by=by, job=job, took_ms=took_ms)

    def complete(self, job: int, *, at_s: float, by: str = WORKER, took_ms: float = 1.0) -> Self:
        """Let the queue confirm a completion."""
        return self.event(Event.COMPLETED, at_s=at_s, by=by, job=job, took_ms=took_ms)

    def execute(self, job: int, *, at_s: float, by: str = WORKER) -> Self:
        """Claim at ``at_s``, and work and complete in the next 20 ms."""
        return self.claim(job, at_s=at_s, by=by).work(job, at_s=at_s + 0.01, by=by).complete(job, at_s=at_s + 0.02, by=by)

    def live(self, job: int, *, at_s: float, by: str = WORKER) -> Self:
        """Give a job a life without trouble: enqueued at ``at_s``, executed 50 ms later."""
        return self.enqueue(job, at_s=at_s).execute(job, at_s=at_s + 0.05, by=by)

    def raise_error(self, detail: str, *, at_s: float, by: str = WORKER, job: int | None = None) -> Self:
        """Let a call raise; ``detail`` begins with the kind of the error."""
        return self.event(Event.ERROR, at_s=at_s, by=by, job=job, detail=detail)

    def sample(self, collector: str, subject: str, *, at_s: float, source: str = "primary", **values: float | str) -> Self:
        """Add samples of one subject at one moment: ``metric=value``."""
        for metric, value in values.items():
            sample = {"t_ns": at_ns(at_s), "source": source, "subject": subject, "metric": metric, "value": value}
            self._samples.setdefault(collector, []).append(_line(sample, SAMPLE_COLUMNS))
        return self

    def sample_horizon(self, *, at_s: float, holders: Mapping[str, Mapping[str, float | str]]) -> Self:
        """Add what the collector of the horizon found: ``holders`` (``kind:key``: metrics), the oldest first."""
        for rank, (key, metrics) in enumerate(holders.items()):
            kind = key.partition(":")[0]
            known: dict[str, Any] = {"rank": rank, "kind": kind, "application": "", "state": "", "age_xids": 0, "via": ""}
            values = {**known, "catalog_only": 0, **metrics}
            source = str(values.pop("source", "primary"))
            self.sample("horizon", f"holder:{key}", at_s=at_s, source=source, **values)
        return self.sample("horizon", "server", at_s=at_s, holders=len(holders))

    def garble(self, file: str, tail: bytes) -> Self:
        """Add ``tail`` to a file (``events/worker-1.csv``) as it is, whatever it is."""
        self._garbled.append((file, tail))
        return self

    def write(self, *, final_snapshot: Mapping[int, str] | None = None, snapshot_text: str | None = None) -> Path:
        """Write all files and return the folder.

        ``final_snapshot``: job and state of what the queue still held; none if no final snapshot was taken. ``snapshot_text`` is written as it is.
        """
        files = {f"events/{process}.csv": "".join(lines).encode() for process, lines in self._events.items()}
        files |= {f"samples/{collector}.csv": "".join(lines).encode() for collector, lines in self._samples.items()}
        if final_snapshot is not None:
            jobs = "".join(f"{job},{state}\n" for job, state in final_snapshot.items())
            snapshot_text = f"{jobs}end,{len(final_snapshot)}\n"
        if snapshot_text is not None:
            files["final_snapshot.csv"] = snapshot_text.encode()
        for file, tail in self._garbled:
            files[file] = files.get(file, b"") + tail
        self.record["processes"] = list(self._processes.values())
        files["run.json"] = json.dumps(self.record, indent=1).encode()
        for file, content in files.items():
            path = self.folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return self.folder


def _plan_phases(phases: Mapping[str, float], warm_up: Sequence[str]) -> list[dict[str, Any]]:
    planned = []
    start_s = 0.0
    for name, duration_s in phases.items():
        planned.append(
            {
                "name": name,
                "measured": name not in warm_up,
                "planned_start_s": start_s,
                "planned_duration_s": duration_s,
                "start_ns": at_ns(start_s),
                "end_ns": at_ns(start_s + duration_s),
            }
        )
        start_s += duration_s
    return planned


def _line(values: Mapping[str, Any], columns: Sequence[str]) -> str:
    return ",".join("" if values[name] is None else str(values[name]) for name in columns) + "\n"
