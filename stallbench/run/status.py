"""Records in ``run.json`` how a run ends: completed, interrupted or failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stallbench.engines import describe_error, loaded_errors
from stallbench.errors import NotCarriedOutError, StallbenchError
from stallbench.queues.user_queue import describe_mistake
from stallbench.run.record import RunStatus
from stallbench.run.recorder import RunRecorder


@contextmanager
def ending_recorded(recorder: RunRecorder, take_down: Callable[[], None], *, also_if_completed: bool) -> Iterator[None]:
    """Call ``take_down`` when the block ends, then record the status. A completed block calls it only if ``also_if_completed``.

    An error of the bench or the database, or of a user's queue, is recorded as ``failed`` and raised again as `NotCarriedOutError` with the reason. So is
    `SystemExit`: a queue that calls ``sys.exit`` would otherwise end the bench with its exit code. An interrupt is recorded as ``aborted`` and raised again
    unchanged.
    """
    status: RunStatus = "failed"
    reason = "unexpected error in the bench"
    try:
        yield
        status, reason = "completed", ""
    except KeyboardInterrupt:
        status, reason = "aborted", "interrupted"
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, Exception) and isinstance(error, (StallbenchError, OSError, *loaded_errors())):
            reason = describe_error(error)
        elif (mistake := describe_mistake(error)) is not None:
            reason = mistake
        else:
            raise
        raise NotCarriedOutError(reason) from error
    finally:
        try:
            if also_if_completed or status != "completed":
                take_down()
        finally:
            recorder.end(status, reason)
