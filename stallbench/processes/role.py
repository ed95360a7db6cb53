"""What every process of the bench (producer, worker, longrunner, collectors) does at its start and end.

A role reads one JSON document, from the file that it is given or from standard input, says ``{"ready": {...}}`` on standard
output when its work begins, and ends when it is sent SIGTERM or SIGINT, after the move that it is making. The same command
runs under the bench, in a container, or by hand on another host.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from stallbench.engines import loaded_errors

EXIT_BAD_DOCUMENT = 2
EXIT_CANNOT_GO_ON = 3
_LOOK_FOR_STOP_S = 0.2

DocumentT = TypeVar("DocumentT", bound=BaseModel)


class CannotGoOnError(Exception):
    """The role cannot do its work any more (the server is gone, the disk is full); the message says why."""


def read_document(model: type[DocumentT], argv: list[str]) -> DocumentT:
    """Read the role's document from the path in ``argv`` or, if it is empty or ``-``, from standard input.

    Ends the process with code 2 and one line for each fault if the document is not one.
    """
    where = argv[0] if argv and argv[0] != "-" else None
    name = where or "standard input"
    try:
        text = Path(where).read_text() if where else sys.stdin.read()
        return model.model_validate_json(text)
    except (OSError, UnicodeDecodeError) as error:
        _end(f"{name}: cannot be read: {error}")
    except ValidationError as error:
        faults = [
            f"{name}: {'.'.join(str(part) for part in fault['loc']) or 'document'}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        ]
        _end("\n".join(faults))


def _end(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(EXIT_BAD_DOCUMENT)


def send_message(**message: object) -> None:
    """Tell the bench something: one JSON object on one line of standard output."""
    print(json.dumps(message), flush=True)


class Stop:
    """Whether the role has been asked to end; set by SIGTERM and SIGINT. Also by `Suspension`, for a while."""

    def __init__(self, *, by: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> None:
        """Take over the signals ``by`` which it is asked, for the main thread; none if somebody else takes them."""
        self._event = threading.Event()
        self._for_good = threading.Event()
        for signum in by:
            signal.signal(signum, self._ask)

    @property
    def event(self) -> threading.Event:
        """The event that is set when it is time to end, for libraries that wait on one."""
        return self._event

    @property
    def for_good(self) -> threading.Event:
        """The same, but not set for a rest: what has to come to its end before one, like a reconnection, waits on this."""
        return self._for_good

    def ask(self) -> None:
        """Ask the role to end."""
        self._for_good.set()
        self._event.set()

    def _ask(self, signum: int, frame: FrameType | None) -> None:
        self.ask()

    @property
    def asked(self) -> bool:
        """Whether it is time to end."""
        return self._event.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Pause for ``timeout_s`` (for ever if none) or until asked to end; returns `asked`."""
        return self._event.wait(timeout_s)


class Suspension:
    """Whether the role is to pause: from SIGUSR2, after the move that it is making, to SIGUSR1.

    In a rest it has no job in hand and no file open, so that its records can be moved on to another folder; the process and its
    connection live on, which is what a soak looks at.
    """

    def __init__(self, stop: Stop) -> None:
        """Take over both signals, for the main thread; whoever looks at ``stop`` sees a rest as a time to end."""
        self._stop = stop
        self._asked = threading.Event()
        self._over = threading.Event()
        signal.signal(signal.SIGUSR2, self._begin)
        signal.signal(signal.SIGUSR1, self._end)

    @property
    def asked(self) -> bool:
        """Whether it is time to suspend, and not to end."""
        return self._asked.is_set() and not self._stop.for_good.is_set()

    def wait_for_resume(self) -> bool:
        """Tell the bench, and rest until it is over; returns whether the role goes on then, and is not to end."""
        send_message(suspended=True)
        while not self._stop.for_good.is_set() and not self._over.wait(_LOOK_FOR_STOP_S):
            pass
        self._asked.clear()
        if not self._stop.for_good.is_set():
            self._stop.event.clear()
        if self._stop.for_good.is_set():  # asked to end between the two lines above
            self._stop.event.set()
        return not self._stop.for_good.is_set()

    def wait_for_go(self) -> None:
        """Return at SIGUSR1, by which processes that were made ready one by one begin at the same moment, or when it is time to end or rest."""
        while not self._stop.asked and not self._over.wait(_LOOK_FOR_STOP_S):
            pass

    def _begin(self, signum: int, frame: FrameType | None) -> None:
        self._over.clear()
        self._asked.set()
        self._stop.event.set()

    def _end(self, signum: int, frame: FrameType | None) -> None:
        self._over.set()


def is_expected(error: BaseException) -> bool:
    """Whether an error is one that the role's server or disk can cause, and that the user is told in one line."""
    return isinstance(error, (CannotGoOnError, OSError, *loaded_errors()))


def run_role(main: Callable[[], None]) -> None:
    """Run ``main``; when its server or its disk fails it, say why in one line and end with `EXIT_CANNOT_GO_ON`."""
    try:
        main()
    except Exception as error:
        if not is_expected(error):
            raise
        print(f"cannot go on: {error}", file=sys.stderr)
        sys.exit(EXIT_CANNOT_GO_ON)
