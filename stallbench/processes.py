"""Starts, stops and kills the processes of a run, and knows of each both what is intended and what is.

Nothing that is started here outlives the bench: each child is killed by the kernel when the bench dies (parent-death
signal), leads a process group of its own, and carries the run's token in its environment, by which `stallbench.reaper` finds
whatever is left.
"""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from stallbench.errors import NotCarriedOutError

TOKEN_VARIABLE = "STALLBENCH_RUN"  # noqa: S105 - a name, not a secret
"""Environment variable that marks every process of a run with the run's token."""

_PR_SET_PDEATHSIG = 1
_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "JAVA_HOME", "PYTHONPATH", "LD_LIBRARY_PATH", "TMPDIR")
_LOG_TAIL_LINES = 8
_LIBC = ctypes.CDLL(None, use_errno=True)

Intended = Literal["running", "stopped", "killed"]


class Process:
    """One process of the run; made by `Processes.start`."""

    def __init__(
        self,
        name: str,
        role: str,
        popen: subprocess.Popen[bytes],
        log: Path,
        stop_signal: signal.Signals,
        ready: bool,
        orderly: tuple[int, ...] = (0,),
    ) -> None:
        """Watch over ``popen``; with ``ready``, its standard output is read as messages."""
        self.name = name
        self.role = role
        self.log = log
        self.pid = popen.pid
        self.start_ns = time.time_ns()
        self.end_ns: int | None = None
        self.intended: Intended = "running"
        self.said_ready = False
        """Whether it has said that it is."""
        self.metrics_port: int | None = None
        """Where it answers Prometheus, once it has said so."""
        self._popen = popen
        self._stop_signal = stop_signal
        self._orderly = orderly
        self._messages: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._said_ready = threading.Event()
        self._reader = threading.Thread(target=self._read_messages, name=f"read {name}", daemon=True) if ready else None
        if self._reader:
            self._reader.start()

    @property
    def exit_code(self) -> int | None:
        """How it ended: none while it runs, negative for the signal that ended it."""
        return self._popen.returncode

    def poll(self) -> int | None:
        """Look whether it has ended, and how."""
        code = self._popen.poll()
        if code is not None and self.end_ns is None:
            self.end_ns = time.time_ns()
        return code

    def wait_ready(self, deadline_s: float) -> dict[str, Any]:
        """Wait for its ``{"ready": {...}}`` and return what it says there.

        Raises `NotCarriedOutError` with the end of its log when it ends first or is not ready within ``deadline_s``.
        """
        ready = self._wait_for("ready", deadline_s, "ready")
        return ready if isinstance(ready, dict) else {}

    def wait_listening(self, deadline_s: float) -> None:
        """Wait until it has said, now or before, that it is ready: an earlier signal would end it. Raises as `wait_ready` does, but for its end."""
        if not self._said_ready.wait(deadline_s) and self.poll() is None:
            raise NotCarriedOutError(f"{self.name} was not ready within {deadline_s:.0f} s{self.tail_log()}")

    def wait_rest(self, deadline_s: float) -> None:
        """Wait until it says that it rests, as it was asked to; raises as `wait_ready` does."""
        self._wait_for("resting", deadline_s, "at rest")

    def _wait_for(self, key: str, deadline_s: float, state: str) -> Any:
        until_s = time.monotonic() + deadline_s
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                message = self._messages.get(timeout=min(left_s, 0.1))
            except queue.Empty:
                if self.poll() is not None and self._messages.empty():
                    raise NotCarriedOutError(f"{self.name} {self.tell_end()} before it was {state}{self.tail_log()}") from None
                continue
            if key in message:
                return message[key]
        raise NotCarriedOutError(f"{self.name} was not {state} within {deadline_s:.0f} s{self.tail_log()}")

    def messages(self) -> list[dict[str, Any]]:
        """Take what it has said since it was last asked."""
        if self.poll() is not None and self._reader:
            self._reader.join(timeout=1)
        taken = []
        while not self._messages.empty():
            taken.append(self._messages.get())
        return taken

    def ask_to_stop(self) -> None:
        """Send its stop signal and return at once."""
        self.intended = "killed" if self._stop_signal is signal.SIGKILL else "stopped"
        self.signal(self._stop_signal)
        self.signal(signal.SIGCONT)

    def stop(self, grace_s: float) -> None:
        """Ask it to stop, wait for ``grace_s``, then kill it."""
        if self.poll() is None:
            self.ask_to_stop()
            self.wait_end(grace_s)

    def wait_end(self, grace_s: float) -> None:
        """Wait until it has ended; after ``grace_s`` it is killed, and that is what its record will say."""
        try:
            self._popen.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self.poll()

    def kill(self) -> None:
        """Kill it and everything in its process group."""
        self.intended = "killed"
        self.signal(signal.SIGKILL)
        self._popen.wait()
        self.poll()

    def signal(self, signum: signal.Signals) -> None:
        """Send a signal to it: to its process group for SIGKILL, SIGSTOP and SIGCONT, else to itself alone."""
        try:
            if signum in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT):
                os.killpg(self.pid, signum)
            elif self.poll() is None:
                os.kill(self.pid, signum)
        except ProcessLookupError:
            self.poll()

    def ended_uninvited(self) -> bool:
        """Whether it has ended although it was meant to run, or otherwise than it was asked to."""
        code = self.poll()
        if code is None:
            return False
        return self.intended == "running" or (self.intended == "stopped" and not is_orderly(self.role, code, self._orderly))

    def tell_end(self) -> str:
        """Say how it ended, to go behind its name."""
        code = self.exit_code
        if code is None:
            return "is still running"
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"

    def tail_log(self) -> str:
        """Return the end of its log, to go behind a message; empty if it printed nothing."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        tail = "\n  ".join(line for line in lines[-_LOG_TAIL_LINES:] if line.strip())
        return f"; it printed last:\n  {tail}" if tail else "; it printed nothing"

    def record(self) -> dict[str, Any]:
        """Return its part of ``run.json``."""
        self.poll()
        return {
            "name": self.name,
            "role": self.role,
            "pid": self.pid,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "intended": self.intended,
            "exit_code": self.exit_code,
            **({"orderly": list(self._orderly)} if self._orderly != (0,) else {}),
        }

    def _read_messages(self) -> None:
        assert self._popen.stdout is not None
        with self.log.open("ab") as log, self._popen.stdout as stdout:
            for line in stdout:
                try:
                    message = json.loads(line)
                except ValueError:
                    message = None
                if isinstance(message, dict):
                    if isinstance(ready := message.get("ready"), dict):
                        self.said_ready = True
                        self.metrics_port = ready.get("metrics_port")
                        self._said_ready.set()
                    self._messages.put(message)
                else:
                    log.write(line)
                    log.flush()


class Processes:
    """All processes of a run. Use it from the main thread: the parent-death signal follows the thread that started a child."""

    def __init__(self, token: str, expose: Mapping[str, object] | None = None) -> None:
        """Mark every process with ``token``. ``expose``: where those of the bench answer Prometheus, for their documents; nowhere if none."""
        self._token = token
        self._expose = expose
        self._all: list[Process] = []

    def start(
        self,
        name: str,
        role: str,
        argv: Sequence[str | os.PathLike[str]],
        *,
        log: Path,
        document: Mapping[str, object] | None = None,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
        death_signal: signal.Signals = signal.SIGKILL,
        ready: bool = False,
        orderly: tuple[int, ...] = (0,),
    ) -> Process:
        """Start ``argv`` with ``document`` as JSON on its standard input.

        ``user``: run as that user, from ``/`` (for servers that refuse root). ``stop_signal``: asks it to end; SIGKILL
        for one that knows no better end. ``death_signal``: sent by the kernel when the bench dies. ``ready``: read its standard output
        as messages, see `Process.wait_ready`. ``orderly``: exit codes of a process that did what it was asked to.

        Raises `NotCarriedOutError` when the program cannot be started.
        """
        if self._expose and document is not None and ready:
            document = {**document, "expose": self._expose}
        kept = {key: os.environ[key] for key in _KEPT_VARIABLES if key in os.environ}
        with log.open("ab") as log_file:
            try:
                popen = subprocess.Popen(
                    argv,
                    stdin=subprocess.PIPE if document is not None else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if ready else log_file,
                    stderr=log_file,
                    env={**kept, **(environment or {}), TOKEN_VARIABLE: self._token},
                    start_new_session=True,
                    preexec_fn=_die_with_parent(death_signal),  # noqa: PLW1509 - only a system call, and before any thread matters
                    **_as_user(user),
                )
            except OSError as error:
                raise NotCarriedOutError(f"{name} could not be started: {argv[0]}: {error.strerror}") from error
        process = Process(name, role, popen, log, stop_signal, ready, orderly)
        self._all.append(process)
        if document is not None:
            _write_document(popen, document)
        return process

    def run_to_end(
        self, name: str, argv: Sequence[str], *, document: Mapping[str, object], log: Path, deadline_s: float
    ) -> int | None:
        """Start a process that ends by itself and wait for it; returns its exit code."""
        process = self.start(name, "longrunner", argv, log=log, document=document)
        process.intended = "stopped"
        process.wait_end(deadline_s)
        return process.exit_code

    def of_role(self, role: str) -> list[Process]:
        """Return the processes of a role, in the order in which they were started."""
        return [process for process in self._all if process.role == role]

    def exposed(self) -> dict[str, int]:
        """Return the ports on which those that run answer Prometheus, by name."""
        return {
            process.name: process.metrics_port
            for process in self._all
            if process.metrics_port is not None and process.exit_code is None
        }

    def stop(self, processes: Iterable[Process], grace_s: float) -> None:
        """Ask all of ``processes`` to stop at the same time and wait for each; those that take longer than
        ``grace_s`` are killed.
        """
        running = [process for process in processes if process.poll() is None]
        for process in running:
            process.ask_to_stop()
        until_s = time.monotonic() + grace_s
        for process in running:
            process.wait_end(max(0.0, until_s - time.monotonic()))

    def stop_all(self, grace_s: float = 10.0) -> None:
        """Stop everything, the last started first, so that clients go before their servers; done again, it does nothing."""
        by_role: dict[str, list[Process]] = {}
        for process in reversed(self._all):
            by_role.setdefault(process.role, []).append(process)
        for processes in by_role.values():
            self.stop(processes, grace_s)

    def ended_uninvited(self) -> list[Process]:
        """Return the processes that ended although they were meant to run, or otherwise than asked."""
        return [process for process in self._all if process.ended_uninvited()]

    def records(self) -> list[dict[str, Any]]:
        """Return all of them for ``run.json``."""
        return [process.record() for process in self._all]


def is_orderly(role: str, code: int | None, codes: Collection[int] = (0,)) -> bool:
    """Whether a process of ``role`` that was asked to stop has ended in an orderly way, which is one of ``codes``.

    A server may be one, like Beanstalkd, that knows no other end than the signal itself.
    """
    return code in codes or (role == "server" and code == -signal.SIGTERM)


def unprivileged_user() -> str | None:
    """Return whom servers that refuse root run as: ``postgres`` or else ``nobody``; none if the bench itself is not root."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return "nobody"


def _as_user(user: str | None) -> dict[str, Any]:
    if user is None:
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": [], "cwd": "/"}


def _die_with_parent(death_signal: signal.Signals) -> Callable[[], None]:
    parent = os.getpid()

    def set_death_signal() -> None:
        # After fork, and after the change of user, which would clear it. The parent may have died before the call.
        if _LIBC.prctl(_PR_SET_PDEATHSIG, int(death_signal)) != 0 or os.getppid() != parent:
            os._exit(127)

    return set_death_signal


def _write_document(popen: subprocess.Popen[bytes], document: Mapping[str, object]) -> None:
    assert popen.stdin is not None
    try:
        with popen.stdin as stdin:
            stdin.write(json.dumps(document).encode())
    except BrokenPipeError:
        # It ended before it read; whoever waits for it to be ready says why.
        return
