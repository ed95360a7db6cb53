"""The record of a process in ``run.json``."""

from __future__ import annotations

import signal
from typing import Literal

from pydantic import BaseModel, ConfigDict

Intended = Literal["running", "stopped", "killed", "restarted"]
"""``restarted``: it could not start, and another was started in its place, as a supervisor does."""


class ClockOffset(BaseModel, frozen=True, extra="forbid"):
    """What has to be added to a clock to get the primary's, and the greatest possible error of that; both in ns."""

    offset_ns: int
    error_ns: int


class ProcessRecord(BaseModel):
    """One process: started by the bench, or, if it is ``external``, by someone else."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    role: str
    """``producer``, ``worker``, ``longrunner``, ``collectors``, ``scheduler``, ``maintenance``, ``server``, ``disk``,
    ``toxiproxy`` or ``observer``.
    """
    pid: int
    start_ns: int
    end_ns: int | None = None
    intended: Intended = "running"
    exit_code: int | None = None
    """None while it runs; negative for the signal that ended it."""
    orderly_exit_codes: tuple[int, ...] = (0,)
    outlived_s: float | None = None
    """How long it was waited for after it was asked to stop, before it was killed because it had not; none if it was not."""
    external: bool = False
    host: str | None = None
    """Only of an external process, as are the fields below."""
    metrics_port: int | None = None
    """Where it answers Prometheus, on every address of its host."""
    clock: ClockOffset | None = None
    """How far its clock is from the primary's."""
    bench_clock: ClockOffset | None = None
    """How far the bench's clock was from the primary's when the run let it join."""

    @property
    def ended_orderly(self) -> bool:
        """Whether it ended in the way of a process that was asked to stop."""
        return is_orderly_end(self.role, self.exit_code, self.orderly_exit_codes)


def is_orderly_end(role: str, exit_code: int | None, orderly_exit_codes: tuple[int, ...] = (0,)) -> bool:
    """Whether a process of ``role`` that was asked to stop ended as expected: with an orderly exit code or, if it is a server, by the signal.

    Beanstalkd, for example, has no other way to stop than the signal itself.
    """
    return exit_code in orderly_exit_codes or (role == "server" and exit_code == -signal.SIGTERM)
