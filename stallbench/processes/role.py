"""The start and end of every process of the bench (producer, worker, longrunner, collectors).

A role reads one JSON document, from the file that its argument names or from standard input. It sends the message
``{"ready": {...}}`` on standard output when its work begins. At SIGTERM or SIGINT it finishes its current operation and ends.
The same command runs under the bench, in a container, or by hand on another host.
"""

from __future__ import annotations

import json
import math
import signal
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from stallbench.errors import EXIT_BAD_INPUT, EXIT_NOT_CARRIED_OUT
from stallbench.visible_text import make_visible

EXIT_BAD_DOCUMENT = EXIT_BAD_INPUT
EXIT_CANNOT_CONTINUE = EXIT_NOT_CARRIED_OUT
_POLL_STOP_EVERY_S = 0.2

DocumentT = TypeVar("DocumentT", bound=BaseModel)


class CannotContinueError(Exception):
    """The role cannot do its work any more (the server is gone, the disk is full); the message says why."""


def read_document(model: type[DocumentT], source: str) -> DocumentT:
    """Read the role's document from the path ``source`` or, if it is ``-``, from standard input.

    Ends the process with code 2 and one line for each issue if the document is not valid.
    """
    name = "standard input" if source == "-" else source
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text()
        return model.model_validate_json(text)
    except (OSError, UnicodeDecodeError) as error:
        _end(f"{name}: cannot be read: {error}")
    except ValidationError as error:
        issues = [
            f"{name}: {'.'.join(str(part) for part in issue['loc']) or 'document'}: {issue['msg']}"
            for issue in error.errors(include_input=False, include_url=False)
        ]
        _end("\n".join(issues))


def _end(message: str) -> NoReturn:
    print(make_visible(message), file=sys.stderr)
    sys.exit(EXIT_BAD_DOCUMENT)


def send_message(**message: object) -> None:
    """Send the bench a message: one JSON object on one line of standard output."""
    print(json.dumps(message), flush=True)


class SignalEvent(threading.Event):
    """An event that the handler of a signal may set at any moment, even while the main thread waits for it or changes it.

    The handler runs in the main thread, which may hold the lock of the event: with the lock of `threading.Event` it would wait for itself for ever.
    """

    def __init__(self) -> None:
        """Begin unset."""
        super().__init__()
        self._cond = threading.Condition(threading.RLock())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait as `threading.Event` does, and look at the flag from time to time: it may be set just before the wait, which nobody then ends."""
        end_s = math.inf if timeout is None else time.monotonic() + timeout
        while not self.is_set() and (left_s := end_s - time.monotonic()) > 0:
            super().wait(min(left_s, _POLL_STOP_EVERY_S))
        return self.is_set()


class Stop:
    """Whether the role has been asked to end, by SIGTERM or SIGINT. `Suspension` sets it, too, for a while."""

    def __init__(self, *, by: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> None:
        """Handle the signals ``by``, in the main thread; none if another library handles them."""
        self._event = SignalEvent()
        self._for_good = SignalEvent()
        for signum in by:
            signal.signal(signum, self._ask)

    @property
    def event(self) -> threading.Event:
        """The event that is set when it is time to end, for libraries that wait on one."""
        return self._event

    @property
    def for_good(self) -> threading.Event:
        """The same, but not set by a suspension. What must finish before a suspension, like a reconnection, waits on this."""
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
        """Pause for ``timeout_s`` (without limit if none) or until asked to end; returns `asked`."""
        return self._event.wait(timeout_s)


class Suspension:
    """Whether the role is to suspend its work: from SIGUSR2, after its current operation, until SIGUSR1.

    A suspended role has claimed no job and has no file open, so that its records can be moved to another folder. The process and
    its connection stay: a soak observes both over many cycles.
    """

    def __init__(self, stop: Stop) -> None:
        """Handle both signals, in the main thread. SIGUSR2 also sets ``stop``, so that loops that check it end."""
        self._stop = stop
        self._asked = SignalEvent()
        self._over = SignalEvent()
        signal.signal(signal.SIGUSR2, self._begin)
        signal.signal(signal.SIGUSR1, self._end)

    @property
    def asked(self) -> bool:
        """Whether it is time to suspend, and not to end."""
        return self._asked.is_set() and not self._stop.for_good.is_set()

    def wait_for_resume(self) -> bool:
        """Report to the bench that the role is suspended, and wait; returns whether to resume (true) or to end (false)."""
        send_message(suspended=True)
        while not self._stop.for_good.is_set() and not self._over.wait(_POLL_STOP_EVERY_S):
            pass
        self._asked.clear()
        if not self._stop.for_good.is_set():
            self._stop.event.clear()
        if self._stop.for_good.is_set():  # asked to end between the two lines above
            self._stop.event.set()
        return not self._stop.for_good.is_set()

    def wait_for_go(self) -> None:
        """Return at SIGUSR1, so that processes that became ready one by one begin at the same moment; also when asked to stop."""
        while not self._stop.asked and not self._over.wait(_POLL_STOP_EVERY_S):
            pass

    def _begin(self, signum: int, frame: FrameType | None) -> None:
        self._over.clear()
        self._asked.set()
        self._stop.event.set()

    def _end(self, signum: int, frame: FrameType | None) -> None:
        self._over.set()
