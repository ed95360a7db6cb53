"""The event log: one line for each operation on a job, which reaches the kernel before the next operation begins.

A process that is killed with SIGKILL loses no record: each is one ``write`` to a file opened for appending. A torn last line is possible
only when the machine itself stops; readers count it and leave it out.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Self, get_type_hints

from stallbench.base.storage.private import UntrustedError, require_own_file
from stallbench.records.lines import REPLACED_IN_VALUES
from stallbench.visible_text import make_visible


class Event(StrEnum):
    """What is recorded: the operations on jobs, and what became of them."""

    ENQUEUED = "enqueued"
    """The queue has confirmed the job."""
    CLAIMED = "claimed"
    """A worker owns the job; ``duration_ns`` is the claim time."""
    WORKED = "worked"
    """The job's work is done and the worker is about to complete it. It distinguishes a worker that died before the work from one that died
    between completion and its record."""
    COMPLETED = "completed"
    """The queue has confirmed the completion."""
    FAILED = "failed"
    """The work failed and the queue has confirmed that."""
    EXPIRED = "expired"
    """The claim expired while the job was being worked."""
    LOST_RACE = "lost_race"
    """The queue offered a job that turned out to be taken or gone (Que's re-check after locking)."""
    EMPTY = "empty"
    """A claim found nothing to do."""
    RETRIED = "retried"
    """A call failed with an error, and the queue's own policy tries it again; ``detail`` as for an error. The operation continues."""
    ERROR = "error"
    """A call failed with an error; ``detail`` begins with its code and the operation (`format_error`)."""
    REFUSED = "refused"
    """The queue is full and did not take the job, or its producer had no connection to send it. The job has no id, and is not lost, because it was
    never in the queue."""
    FIRED = "fired"
    """A worker executes a periodic job, which the scheduler of a library has inserted. The bench has not numbered such a job."""
    QUERY_ANSWERED = "query_answered"
    """The server has answered a query of the bystander, which is of no job; ``intended_ns`` is when it was due."""
    QUERY_UNANSWERED = "query_unanswered"
    """It had not when the load ended, so that the query's time is at least from when it was due until now."""
    QUERY_FAILED = "query_failed"
    """An attempt to connect for a query, or to send it, ended with an error; ``detail`` as for an error. It is sent again until it is answered."""


class EventRecord(NamedTuple):
    """One line of ``events/<process>.csv``. Its fields are the columns, in their order; the files have no header."""

    t_ns: int
    """Wall clock when the operation had ended, nanoseconds since 1970 (UTC)."""
    mono_ns: int
    """The process's monotonic clock at the same moment."""
    process: str
    """Name of the process, like ``worker-3``."""
    event: Event
    job_id: int | None
    """The queue's own id; none if the operation concerns no job. An ``error`` of an enqueue has it only if the job had its id before it was sent.
    For ``fired``: the number of the job's period, from 1970 on, whose length is the library's option ``periodic``."""
    attempt: int | None
    """1 for the first execution; none if the queue does not say."""
    intended_ns: int | None
    """Wall clock at which the open-loop schedule wanted the job enqueued, or the query sent; only on ``enqueued``, ``refused``, an ``error`` of
    enqueue, ``query_answered`` and ``query_unanswered``."""
    duration_ns: int | None
    """How long the call took."""
    detail: str
    """Free text without line breaks. For ``enqueued``: what the job waits for, if it does: ``fifo:<its queue>``, ``due:<t_ns>``,
    ``after:<job_id>``, ``alone:<the key of its limit>``; or what distinguishes it: ``queue:<its queue>`` if that is not the default one, ``key:<its key>``.
    For ``error`` and ``retried``: see `format_error`. For ``fired``: the library's own id of the job."""


EVENT_COLUMNS = EventRecord._fields
EVENT_NUMBERS = tuple(name for name, kind in get_type_hints(EventRecord).items() if kind in (int, int | None))
"""Columns that are a whole number, or empty."""

ENQUEUE = "enqueue"
"""The operation of a producer's errors that concern jobs."""

ERROR_PATTERN = r"^([^\s:]*)(?: in (\w+))?"
"""What an error's detail begins with: its code, and the operation (``claim``, ``complete``, ``enqueue``, ``recover``, ``connect``) if it names
one. Java reads the pattern as Python does."""


_ERROR = re.compile(ERROR_PATTERN)


def format_error(code: str, operation: str, description: str) -> str:
    """Return the detail of an error: ``code`` is an SQLSTATE, an error number or the driver's class, see `Driver.code`."""
    return f"{code} in {operation}: {description}"


def parse_error(detail: str) -> tuple[str, str]:
    """Return the code and the operation that the detail of an error begins with; each is empty if the detail does not name one."""
    code, operation = match.groups() if (match := _ERROR.match(detail)) else ("", "")
    return code, operation or ""


_DETAIL_LIMIT = 500
_CLOSED = -1
"""A file descriptor that the kernel refuses."""


def _not_whole() -> OSError:
    return OSError("an event was not written whole; is the disk full?")


class EventLog:
    """Appends events of one process to its own file."""

    def __init__(self, path: Path, process: str, observe: Callable[[Event, int | None, str], None] | None = None) -> None:
        """Open ``path`` for appending, creating it; the folder must exist. ``observe`` is called for each record when it is written."""
        self._process = process
        self._observe = observe
        self._path = path
        self._fd = _CLOSED
        self.open()

    def open(self) -> None:
        """Open the file again after `close`: the one that its path leads to now.

        Raises `OSError`, also for a link and for the file of another user: where a group shares the folder, any member can make one.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(self._path, flags, 0o644)
        try:
            if not stat.S_ISCHR(os.fstat(fd).st_mode):  # like /dev/null, which only root makes
                require_own_file(fd, self._path)
        except UntrustedError as error:
            os.close(fd)
            raise OSError(str(error)) from error
        self._fd = fd

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

        Raises `OSError` when the record could not be written whole (disk full). The caller must then stop: no operation may follow one
        that is not recorded.
        """
        if detail:
            detail = make_visible(detail[:_DETAIL_LIMIT].translate(REPLACED_IN_VALUES), in_one_line=True)
        line = (
            f"{time.time_ns()},{time.monotonic_ns()},{self._process},{event},"
            f"{'' if job_id is None else job_id},{'' if attempt is None else attempt},"
            f"{'' if intended_ns is None else intended_ns},{'' if duration_ns is None else duration_ns},{detail}\n"
        ).encode()
        if os.write(self._fd, line) != len(line):
            raise _not_whole()
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
        content = "".join(lines).encode()
        if os.write(self._fd, content) != len(content):
            raise _not_whole()
        if self._observe is not None:
            for _ in lines:
                self._observe(Event.ENQUEUED, duration_ns, "")

    def close(self) -> None:
        """Close the file; nothing can be written until it is opened again. A second call does nothing."""
        if self._fd != _CLOSED:
            os.close(self._fd)
            self._fd = _CLOSED

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
