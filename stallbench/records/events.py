"""The job log: one line for each move of a job, in the kernel's hands before the next move is made.

A process that is killed with SIGKILL loses none of the moves that it made: each record is one ``write`` to a file opened
for appending. A torn last line is possible only when the machine itself stops; readers count it and leave it out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Self

EVENT_COLUMNS = (
    "t_ns",
    "mono_ns",
    "process",
    "event",
    "job_id",
    "attempt",
    "intended_ns",
    "duration_ns",
    "detail",
)
"""Columns of ``events/<process>.csv``, in order; the files have no header.

``t_ns``: wall clock, nanoseconds since 1970 (UTC), when the move had been made. ``mono_ns``: the process's monotonic clock at
the same moment. ``process``: name of the process, like ``worker-3``. ``event``: see `Event`. ``job_id``: the queue's own
id, empty if the move concerns no job. ``attempt``: 1 for the first execution, empty if the queue does not tell.
``intended_ns``: wall clock at which the open-loop schedule wanted the job enqueued; only on ``enqueued``,
``refused`` and an ``error`` of enqueue.
``duration_ns``: how long the call took. ``detail``: free text without line breaks; for ``error`` its kind first; for
``enqueued`` what the job waits for, if it does: ``fifo:<its queue>``, ``due:<t_ns>``, ``after:<job_id>``.
"""


class Event(StrEnum):
    """The moves that are recorded."""

    ENQUEUED = "enqueued"
    """The queue has confirmed the job."""
    CLAIMED = "claimed"
    """A worker owns the job; ``duration_ns`` is the claim time."""
    WORKED = "worked"
    """The job's work is done and its completion is about to be asked for. It tells a worker that died before the work from
    one that died between completion and its record."""
    COMPLETED = "completed"
    """The queue has confirmed the completion."""
    FAILED = "failed"
    """The work failed and the queue has been told."""
    RELEASED = "released"
    """The job was given back unworked."""
    EXPIRED = "expired"
    """A reservation ran out while the job was being worked."""
    LOST_RACE = "lost_race"
    """The queue offered a job that turned out to be taken or gone (Que's re-check after locking)."""
    EMPTY = "empty"
    """A claim found nothing to do."""
    RETRIED = "retried"
    """A call inside a move raised, and the queue's own policy tries again; ``detail`` as for an error. The move goes on."""
    ERROR = "error"
    """A call raised; ``detail`` starts with the kind of the error (the driver's class or SQLSTATE)."""
    REFUSED = "refused"
    """The queue is full and did not take the job, which so has no id. It is not lost, for it never got in."""


_UNSAFE = str.maketrans({",": ";", "\n": " ", "\r": " ", '"': "'"})
_DETAIL_LIMIT = 500


class EventLog:
    """Appends events of one process to its own file."""

    def __init__(self, path: Path, process: str, observe: Callable[[Event, int | None, str], None] | None = None) -> None:
        """Open ``path`` for appending, creating it; the folder must exist. ``observe`` is told of each record when it is written."""
        self._process = process
        self._observe = observe
        self._path = path
        self._fd: int | None = None
        self.open()

    def open(self) -> None:
        """Open the file again after `close`: the one that its path leads to now."""
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(
        self,
        event: Event,
        *,
        job_id: int | None = None,
        attempt: int | None = None,
        intended_ns: int | None = None,
        duration_ns: int | None = None,
        detail: str = "",
    ) -> None:
        """Record one event now.

        Raises `OSError` when the record could not be written whole (disk full): the caller must stop, for a move that
        is not recorded must not be followed by another.
        """
        if detail:
            detail = detail[:_DETAIL_LIMIT].translate(_UNSAFE)
        line = (
            f"{time.time_ns()},{time.monotonic_ns()},{self._process},{event},"
            f"{'' if job_id is None else job_id},{'' if attempt is None else attempt},"
            f"{'' if intended_ns is None else intended_ns},{'' if duration_ns is None else duration_ns},{detail}\n"
        ).encode()
        self._append(line)
        if self._observe is not None:
            self._observe(event, duration_ns, detail)

    def write_enqueued(
        self, job_ids: Iterable[int], preconditions: Mapping[int, object], *, intended_ns: int, duration_ns: int
    ) -> None:
        """Record that one call has enqueued many jobs, by one ``write``; raises as `write` does.

        ``preconditions``: by id, what jobs wait for, if they do.
        """
        opening = f"{time.time_ns()},{time.monotonic_ns()},{self._process},{Event.ENQUEUED},"
        middle = f",,{intended_ns},{duration_ns},"
        lines = [f"{opening}{job_id}{middle}{preconditions.get(job_id, '')}\n" for job_id in job_ids]
        self._append("".join(lines).encode())
        if self._observe is not None:
            for _ in lines:
                self._observe(Event.ENQUEUED, duration_ns, "")

    def _append(self, lines: bytes) -> None:
        assert self._fd is not None, "the log is closed"
        written = os.write(self._fd, lines)
        if written != len(lines):
            raise OSError(f"only {written} of {len(lines)} bytes of events were written; is the disk full?")

    def close(self) -> None:
        """Close the file; nothing can be written until it is opened again. Done again, it does nothing."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
