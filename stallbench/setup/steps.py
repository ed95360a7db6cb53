"""Carries out the steps of set-up: lanes run at the same time, the steps of a lane one after the other.

Imports the standard library only: set-up runs before the virtual environment exists.
"""

from __future__ import annotations

import fcntl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from stallbench.setup.cache import describe_remedy
from stallbench.setup.components import CACHE, MissingComponentError
from stallbench.setup.packages import InstallError


@dataclass(frozen=True, kw_only=True)
class Step:
    """One component to install."""

    name: str
    is_installed: Callable[[], bool]
    install: Callable[[], object]
    """Raises `InstallError`."""
    command: str
    """The command that installs it by hand."""
    is_needed: bool = True
    """Whether every scenario needs it; if not, only some scenarios do."""
    lane: str = ""
    """Steps with the same lane are carried out in order; different lanes at the same time, after all steps without a lane."""


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Wait until no other set-up runs in this folder: two would write the same files."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "set-up.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("set-up: waiting for another set-up in this folder ...", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def carry_out_all(steps: Sequence[Step]) -> list[tuple[Step, str]]:
    """Carry out the steps whose component is missing; returns those that failed, each with the reason, in the order of ``steps``."""
    reasons: dict[str, str | None] = {}
    stop = threading.Event()

    def carry_out_in_order(lane: Sequence[Step]) -> None:
        for step in lane:
            if not stop.is_set():
                reasons[step.name] = carry_out(step)

    carry_out_in_order([step for step in steps if not step.lane])
    lanes = [[step for step in steps if step.lane == lane] for lane in dict.fromkeys(step.lane for step in steps if step.lane)]
    with ThreadPoolExecutor(max_workers=max(1, len(lanes))) as pool:
        running = [pool.submit(carry_out_in_order, lane) for lane in lanes]
        try:
            for lane in running:
                lane.result()
        finally:
            stop.set()  # after Ctrl-C no further step begins
    return [(step, reason) for step in steps if (reason := reasons[step.name]) is not None]


def carry_out(step: Step, output: TextIO | None = None) -> str | None:
    """Carry out a step if its component is missing, with a line to ``output`` (by default standard output) at its start and end.

    Returns why it failed, if it did.
    """
    try:
        if step.is_installed():
            return None
        began_s = time.monotonic()
        print(f"set-up: {step.name} ...", file=output, flush=True)
        step.install()
        if not step.is_installed():
            return "installed, but not found afterwards; does an environment variable point elsewhere?"
    except (InstallError, MissingComponentError) as error:  # or it is there, and not to be used
        return str(error)
    except OSError as error:
        return f"{error.filename}: {error.strerror}{describe_remedy(error.filename)}"
    print(f"set-up: {step.name}: installed in {time.monotonic() - began_s:.0f} s", file=output, flush=True)
    return None
