"""Waits for the end of a phase: after its duration, or earlier when the queue is drained, or the workers have caught up or fallen behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from stallbench.queues import Queue
from stallbench.run.backlog import CAUGHT_UP_FOR_S, FALLEN_BEHIND_S, BacklogPoll
from stallbench.scenario.sections import Phase

_POLL_EVERY_S = 0.25
_POLL_DRAINED_EVERY_S = 0.05
_POLL_BACKLOG_EVERY_S = 0.5
_LAST_RECORD_S = 0.02
"""Time that the worker needs to record the completion of the last job."""


def watch_phase(
    phase: Phase,
    poll: Callable[[float], float | None],
    opened_queue: Callable[[], AbstractContextManager[Queue[Any]]],
    note: Callable[[str], None],
    *,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Return when ``phase`` is over, or ``is_over`` says so.

    ``poll``: performs the actions that are due during the phase. It takes the seconds left, and returns the seconds until it must be called
    again, or None. ``opened_queue``: opens the queue, to read its backlog. ``note``: takes a sentence for the report, if the phase reached
    its duration before the event of its ``until``; expectations decide whether that matters.
    """
    end_s = time.monotonic() + phase.duration_s
    if phase.until == "duration":
        _poll_until(end_s, poll, every_s=_POLL_EVERY_S, is_over=is_over)
        return
    with BacklogPoll(opened_queue) as backlog:
        if phase.until == "drained":
            _poll_until(end_s, poll, every_s=_POLL_DRAINED_EVERY_S, is_over=lambda: is_over() or backlog.is_drained())
            time.sleep(_LAST_RECORD_S)
            missed = "the queue was not drained by then"
        elif phase.until == "fallen_behind":
            _poll_until(end_s, poll, every_s=_POLL_BACKLOG_EVERY_S, is_over=lambda: is_over() or backlog.is_fallen_behind())
            missed = f"by then no ready job had waited for {FALLEN_BEHIND_S:.0f} s"
        else:
            _poll_until(end_s, poll, every_s=_POLL_BACKLOG_EVERY_S, is_over=lambda: is_over() or backlog.is_caught_up())
            missed = f"by then the workers had not been caught up for {CAUGHT_UP_FOR_S:.0f} s"
    if time.monotonic() >= end_s:
        note(f"Phase {phase.name} ended after {phase.duration_s:.0f} s; {missed}.")


def _poll_until(end_s: float, poll: Callable[[float], float | None], *, every_s: float, is_over: Callable[[], bool]) -> None:
    while (now_s := time.monotonic()) < end_s and not is_over():
        next_due_s = poll(end_s - now_s)
        pause_s = min(every_s, end_s - time.monotonic(), *([] if next_due_s is None else [next_due_s]))
        time.sleep(max(0.0, pause_s))
