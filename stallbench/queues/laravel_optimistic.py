"""Laravel's queue with optimistic locking: read some available jobs without a lock, choose one, and reserve it if no other worker was faster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from stallbench.queues.laravel_table import LaravelOptions, LaravelTableQueue
from stallbench.queues.queue import LARGEST_WINDOW, Claim, LostRaceError, OptionRole

_SHARES = {"N/2": 0.5, "N": 1.0, "2N": 2.0}
_EXPONENTIAL_STOP = 3
"""Each job of the window in order is chosen with probability 1/3; if none is, the first one."""


def _require_window(value: object) -> object:
    if isinstance(value, str) and value in _SHARES:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_WINDOW:
        return value
    raise ValueError(f'expected a whole number from 1 to {LARGEST_WINDOW}, "N/2", "N" or "2N"')


Window = Annotated[int | Literal["N/2", "N", "2N"], BeforeValidator(_require_window)]


class LaravelOptimisticOptions(LaravelOptions):
    """Options of the choice."""

    window: Annotated[Window, OptionRole.WINDOW] = Field(
        default="N",
        description="number of available jobs from which a worker chooses: a number, or a multiple of N, the number of workers",
    )
    pick: Literal["first", "uniform", "exponential"] = Field(
        default="uniform", description="which of them the worker tries to reserve"
    )


class LaravelOptimistic(LaravelTableQueue[LaravelOptimisticOptions]):
    """Holds no transaction and no row lock: the ``version`` column decides which worker was first."""

    kind = "laravel_optimistic"
    summary = "reads a window of available rows, picks one, and reserves it if its version is still the same"
    source = "the author's laravel-queue-database-ph4, as described in 'Laravel queueing optimization' (2017)"
    options_type = LaravelOptimisticOptions
    ordered = False
    extra_column = "add_version"

    def __init__(self, connection: Any, options: LaravelOptimisticOptions) -> None:
        """Serve ``connection``. A window relative to the number of workers has been resolved before; else it counts for one worker."""
        super().__init__(connection, options)
        self._window = options.window if isinstance(options.window, int) else _window_of(options.window, 1)
        self.statements["next_jobs"] = (
            self.statements["next_jobs"].replace("LIMIT 1", f"LIMIT {self._window}").removesuffix(self.session.row_lock).strip()
        )

    @classmethod
    def resolve_options(cls, options: LaravelOptimisticOptions, *, workers: int) -> LaravelOptimisticOptions:
        """Resolve the window to a number of jobs."""
        if isinstance(options.window, int):
            return options
        return options.model_copy(update={"window": _window_of(options.window, workers)})

    def claim(self) -> Sequence[Claim]:
        """Reserve one job of the window; raises `LostRaceError` if another worker was faster."""
        rows = self.session.run(self.statements["next_jobs"], *self._when()).rows
        if not rows:
            return []
        job_id, _, payload, attempts, *_, version = rows[self._pick(len(rows))]
        reserved = self.session.run(self.statements["reserve_version"], self.now_s(), int(job_id), int(version))
        if reserved.affected == 0:
            raise LostRaceError(int(job_id))
        return [Claim(job_id=int(job_id), attempt=int(attempts) + 1, payload=payload)]

    def complete(self, claim: Claim) -> None:
        """Delete the job. A busy database is an error; the worker retries with its next operation."""
        self.session.run(self.statements["delete"], claim.job_id)

    def _pick(self, count: int) -> int:
        if self.options.pick == "uniform":
            return self.random.randrange(count)
        if self.options.pick == "exponential":
            return next((place for place in range(count) if self.random.randrange(_EXPONENTIAL_STOP) == 0), 0)
        return 0


def _window_of(share: str, workers: int) -> int:
    return max(1, math.ceil(_SHARES[share] * workers))
