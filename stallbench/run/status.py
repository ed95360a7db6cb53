"""Records in ``run.json`` how a run ends: completed, interrupted or failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stallbench.engines import describe_error, loaded_errors
from stallbench.errors import NotCarriedOutError, StallbenchError
from stallbench.run.record import RunStatus
from stallbench.run.recorder import RunRecorder


@contextmanager
def ending_recorded(recorder: RunRecorder, take_down: Callable[[], None], *, also_if_completed: bool) -> Iterator[None]:
    """Call ``take_down`` when the block ends, then record the status. A completed block calls it only if ``also_if_completed``.

    An error of the bench or the database is recorded as ``failed`` and raised again as `NotCarriedOutError` with the reason. An interrupt is
    recorded as ``aborted`` and raised again unchanged.
    """
    status: RunStatus = "failed"
    reason = "unexpected error in the bench"
    try:
        yield
        status, reason = "completed", ""
    except KeyboardInterrupt:
        status, reason = "aborted", "interrupted"
        raise
    except Exception as error:
        if not isinstance(error, (StallbenchError, OSError, *loaded_errors())):
            raise
        reason = describe_error(error)
        raise NotCarriedOutError(reason) from error
    finally:
        try:
            if also_if_completed or status != "completed":
                take_down()
        finally:
            recorder.end(status, reason)
