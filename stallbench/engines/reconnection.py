"""Reconnects a process after it has lost its server, with the same pauses and time limit for every role."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from stallbench.engines import loaded_errors
from stallbench.processes.role import CannotContinueError, Stop

if TYPE_CHECKING:
    from tenacity import RetryCallState

RECONNECT_S = 60.0
"""How long a process tries to reach its server before it ends."""
LONGEST_PAUSE_S = 2.0
"""Longest pause between two attempts."""

ConnectedT = TypeVar("ConnectedT")


def _ignore(error: Exception) -> None:
    """Do nothing."""


def reconnect(
    open_connection: Callable[[], ConnectedT], stop: Stop, on_refusal: Callable[[Exception], None] = _ignore
) -> ConnectedT:
    """Call ``open_connection`` until it succeeds, with growing, jittered pauses of at most `LONGEST_PAUSE_S`.

    ``on_refusal`` is called with the error of each failed attempt. Raises `CannotContinueError` after `RECONNECT_S`, or when the
    process is asked to end meanwhile.
    """
    from tenacity import (
        RetryError,
        Retrying,
        retry_if_exception_type,
        sleep_using_event,
        stop_after_delay,
        stop_when_event_set,
        wait_random_exponential,
    )

    def describe(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, Exception):
            on_refusal(error)

    retrying = Retrying(
        retry=retry_if_exception_type(loaded_errors()),
        wait=wait_random_exponential(multiplier=0.05, max=LONGEST_PAUSE_S),
        stop=stop_after_delay(RECONNECT_S) | stop_when_event_set(stop.for_good),
        sleep=sleep_using_event(stop.for_good),
        after=describe,
    )
    try:
        return retrying(open_connection)
    except RetryError as error:
        cause = error.last_attempt.exception()
        raise CannotContinueError(f"the server could not be reached again: {cause}") from cause
