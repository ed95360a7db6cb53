"""Runs the verbs of an adapter that the bench waits for: ``install``, ``prune``, and ``produce``, which answers each batch.

The verb ``work`` is a worker process of the run: `stallbench.run.load` starts it with the command of `stallbench.queues.library_queue`.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, Any

from stallbench.engines.error_kinds import NO_ANSWER_CODE
from stallbench.errors import NotCarriedOutError
from stallbench.libraries.definition import Library
from stallbench.libraries.installation import command_of, environment_of
from stallbench.processes.parent_death import die_with_parent
from stallbench.visible_text import make_visible

_INSTALL_S = 60.0
_ANSWER_S = 60.0
_END_S = 5.0
_READ_BYTES = 65_536
_LAST_BYTES = 4096
_LAST_LINES = 8
_ENDED_CODE = "ProducerEnded"
_UNNAMED_CODE = "Error"
_PARTS_CODE = re.compile(r"[\s:,]+")
"""What a code cannot contain in an event log, where it is followed by its operation: ``PG::ConnectionBad``."""


class AdapterError(Exception):
    """The adapter answered with an error, or did not answer."""

    def __init__(self, message: str, code: str) -> None:
        """Keep the error's code: an SQLSTATE, the adapter's own code, `_ENDED_CODE`, or `NO_ANSWER_CODE`."""
        super().__init__(message)
        self.code = code


class JobsRefusedError(Exception):
    """The adapter answered that the queue takes none of the batch's jobs."""


def install_tables(library: Library, document: bytes, environment: Mapping[str, str]) -> None:
    """Let the library create its tables. If it fails, raises `NotCarriedOutError` with its output.

    ``environment``: variables besides those of its language.
    """
    _carry_out("install", "create its tables", library, document, environment, within_s=_INSTALL_S)


def prune_jobs(library: Library, document: bytes, environment: Mapping[str, str]) -> None:
    """Let the library's command delete old completed jobs, however long that takes; parameters and errors as `install_tables`."""
    _carry_out("prune", "delete completed jobs", library, document, environment, within_s=None)


def start_verb(library: Library, verb: str, environment: Mapping[str, str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the process of a verb, in a process group of its own, which ends with the bench. It reads the document from its standard input.

    ``output``: file of what it prints. ``environment``: variables besides those of its language.
    """
    return subprocess.Popen(
        command_of(library, verb),
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment_of(library), **environment},
        start_new_session=True,
        preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 - only a system call
    )


def _carry_out(
    verb: str, what: str, library: Library, document: bytes, environment: Mapping[str, str], *, within_s: float | None
) -> None:
    with tempfile.TemporaryFile() as output:
        process = start_verb(library, verb, environment, output)
        try:
            process.communicate(document, timeout=within_s)
        except subprocess.TimeoutExpired:
            raise NotCarriedOutError(f"{library.title} did not {what} within {within_s:.0f} s{_tail(output)}") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it has started as well
            process.wait()
        if process.returncode != 0:
            raise NotCarriedOutError(f"{library.title} could not {what} (exit code {process.returncode}){_tail(output)}")


class AdapterProducer:
    """The process of the verb ``produce``. It belongs to the process group of the bench's producer, and ends with it."""

    def __init__(self, library: Library, document: bytes, environment: Mapping[str, str]) -> None:
        """Start it and wait until it is ready; raises `AdapterError` if it does not become ready.

        ``environment``: variables besides those of its language.
        """
        self._title = library.title
        self._received = b""
        self._process = subprocess.Popen(
            command_of(library, "produce"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment_of(library), **environment},
            preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 - only a system call
        )
        atexit.register(self.end)
        self._send(document)
        self._read(lambda message: "ready" in message)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended or stopped answering."""
        return self._process.poll() is not None

    def enqueue(self, jobs: list[dict[str, object]]) -> None:
        """Send a batch and wait for the answer; raises `JobsRefusedError` or `AdapterError` unless the answer is `ok`."""
        self._send(json.dumps({"jobs": jobs}).encode() + b"\n")
        answer = self._read(_is_answer)
        if "refused" in answer:
            raise JobsRefusedError(str(answer["refused"]))
        if not answer.get("ok"):
            raise AdapterError(str(answer["message"]), _PARTS_CODE.sub(".", str(answer["error"])) or _UNNAMED_CODE)

    def end(self) -> None:
        """Close its input, so that it ends; kill it (SIGKILL) if it has not ended a few seconds later. A second call does nothing."""
        atexit.unregister(self.end)
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._await_end()

    def _await_end(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self._kill()

    def _kill(self) -> None:
        """Kill it, if it runs, and what it has started: it may be a wrapper of the library's program."""
        import psutil

        atexit.unregister(self.end)
        started: list[psutil.Process] = []
        if self._process.poll() is None:
            with suppress(psutil.NoSuchProcess):
                started = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        for each in started:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self._process.wait()

    def _send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError:
            self._await_end()
            raise AdapterError(self._describe_end(), _ENDED_CODE) from None

    def _read(self, is_awaited: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the next message that the bench waits for. All other lines are the library's own output, which goes to the log."""
        assert self._process.stdout is not None
        until_s = time.monotonic() + _ANSWER_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while True:
                while b"\n" in self._received:
                    line, _, self._received = self._received.partition(b"\n")
                    message = _parse(line)
                    if message is not None and is_awaited(message):
                        return message
                    print(make_visible(line.decode(errors="replace")), file=sys.stderr, flush=True)
                left_s = until_s - time.monotonic()
                if left_s <= 0 or not selector.select(left_s):
                    self._kill()
                    raise AdapterError(f"the producer of {self._title} did not answer within {_ANSWER_S:.0f} s", NO_ANSWER_CODE)
                received = os.read(self._process.stdout.fileno(), _READ_BYTES)
                if not received:
                    self._await_end()
                    raise AdapterError(self._describe_end(), _ENDED_CODE)
                self._received += received

    def _describe_end(self) -> str:
        code = self._process.returncode
        return f"the producer of {self._title} has ended" + ("" if code == -signal.SIGKILL else f" with exit code {code}")


def _is_answer(message: dict[str, Any]) -> bool:
    """Whether it is an answer to a batch; a library may print JSON objects, too."""
    return message == {"ok": True} or set(message) in ({"refused"}, {"error", "message"})


def _parse(line: bytes) -> dict[str, Any] | None:
    """Return the message in a line; none if the line is other output of the library."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _tail(output: IO[bytes]) -> str:
    """Return the last lines of an output, to follow a message."""
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _LAST_BYTES))
    lines = [f"  {line}" for line in output.read().decode(errors="replace").splitlines()[-_LAST_LINES:] if line.strip()]
    return "\n".join(["; it printed last:", *lines]) if lines else "; it printed nothing"
