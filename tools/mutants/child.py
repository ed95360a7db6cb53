"""Calls a function in a child process: a mutant may loop for ever, end its process, or leave connections open."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class NoAnswerError(Exception):
    """The child process did not answer in time, or ended without an answer; the message says which."""


class NoTimeError(NoAnswerError):
    """It did not answer in time."""


def call_in_child(function: Callable[[], Any], within_s: float) -> Any:
    """Return what ``function`` returns, as JSON has it; raises `NoAnswerError`.

    The child process is a copy of this one, which has loaded everything, so that it starts at once. What it starts ends with it.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _answer(function, writing)
    os.close(writing)
    try:
        answer = _read(reading, within_s)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if answer is None:
        raise NoTimeError(f"it did not end within {within_s:g} s")
    if not answer:
        raise NoAnswerError("it ended its process")
    return json.loads(answer)


def _answer(function: Callable[[], Any], writing: int) -> None:
    """Write the answer and end this process, whatever happens: it must not go on with what its parent was about to do."""
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        with os.fdopen(writing, "w") as pipe:
            pipe.write(json.dumps(function()))
    finally:
        os._exit(0)


def _read(reading: int, within_s: float) -> bytes | None:
    """Return what is written until the other end is closed; none if that takes longer."""
    until_s, found = time.monotonic() + within_s, b""
    while (left_s := until_s - time.monotonic()) > 0:
        if not select.select([reading], [], [], left_s)[0]:
            break
        part = os.read(reading, 65_536)
        if not part:
            return found
        found += part
    return None
