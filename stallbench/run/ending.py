"""How a run ends, in its ``run.json``: whole, interrupted, or not carried out, and in the last two with nothing left running."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stallbench.engines import loaded_errors
from stallbench.errors import NotCarriedOutError, StallbenchError
from stallbench.run.record import RunStatus
from stallbench.run.recorder import RunRecorder


@contextmanager
def ending_recorded(recorder: RunRecorder, take_down: Callable[[], None], *, also_if_whole: bool) -> Iterator[None]:
    """Record how the block ends, after ``take_down``, which is called unless it came to its end and ``also_if_whole`` is off.

    What the bench or the database raised inside comes out as `NotCarriedOutError` with the reason, and is recorded as ``failed``; an
    interrupt is recorded as ``aborted`` and comes out as it is.
    """
    status: RunStatus = "failed"
    reason = "the bench itself broke off"
    try:
        yield
        status, reason = "completed", ""
    except KeyboardInterrupt:
        status, reason = "aborted", "interrupted"
        raise
    except Exception as error:
        if not isinstance(error, (StallbenchError, OSError, *loaded_errors())):
            raise
        reason = str(error).strip() or type(error).__name__
        raise NotCarriedOutError(reason) from error
    finally:
        try:
            if also_if_whole or status != "completed":
                take_down()
        finally:
            recorder.end(status, reason)
