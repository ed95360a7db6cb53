"""One process of a run: receives its messages, asks it to stop, and reports how it ended."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stallbench.errors import NotCarriedOutError
from stallbench.processes.record import Intended, ProcessRecord, is_orderly_end
from stallbench.waiting import wait_until

if TYPE_CHECKING:
    import psutil

ROLE_READY_S = 30.0
"""Within which a process of a role is ready: it has loaded its libraries and is connected."""
ROLE_STOP_S = 15.0
"""How long it may take to end after it was asked to; then it is killed."""
_OF_WORKERS: Mapping[str, type] = {"ready": dict, "met": str, "suspended": bool}
"""What a worker sends: an object with one of these keys, and no other. A library may log objects, too."""
_LOG_TAIL_LINES = 8
_POLL_EVERY_S = 0.01


class Process:
    """One process of the run, created by `Supervisor.start`."""

    def __init__(
        self,
        name: str,
        role: str,
        popen: subprocess.Popen[bytes],
        log: Path,
        stop_signal: signal.Signals,
        ready: bool,
        orderly_exit_codes: tuple[int, ...] = (0,),
    ) -> None:
        """Supervise ``popen``. With ``ready``, its standard output is read as messages."""
        self.name = name
        self.role = role
        self.log = log
        self.pid = popen.pid
        self.start_ns = time.time_ns()
        self.end_ns: int | None = None
        self.intended: Intended = "running"
        self.is_ready = False
        """Whether it has reported that it is ready."""
        self.may_be_killed_by: set[str] = set()
        """Names of the active faults that may kill it. While there is one, an end by SIGKILL is not unexpected."""
        self.may_fail_to_start = False
        """Whether a fault starts another one if it ends before it is ready. That end is then not unexpected."""
        self.metrics_port: int | None = None
        """Where it answers Prometheus, once it has reported that."""
        self._was_starting = False
        """Whether it was not ready yet when it was asked to stop."""
        self._outlived_s: float | None = None
        self._left_processes = False
        self._popen = popen
        self._stop_signal = stop_signal
        self._orderly_exit_codes = orderly_exit_codes
        self._messages: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read_messages, name=f"read {name}", daemon=True) if ready else None
        if self._reader:
            self._reader.start()

    @property
    def exit_code(self) -> int | None:
        """Its exit code; none while it runs, negative for the signal that ended it."""
        return self._popen.returncode

    def poll(self) -> int | None:
        """Check whether it has ended; returns its exit code if so."""
        code = self._popen.poll()
        if code is not None and self.end_ns is None:
            self.end_ns = time.time_ns()
            if self.intended == "stopped" and self._was_starting and code in (-self._stop_signal, *self._orderly_exit_codes):
                # It has recorded nothing, and perhaps could not handle the signal yet.
                self.intended = "killed"
            self._left_processes = self._end_group() and code != -signal.SIGKILL
        return code

    def wait_ready(self, within_s: float) -> dict[str, Any]:
        """Wait for its message ``{"ready": {...}}`` and return the content.

        Raises `NotCarriedOutError` with the end of its log if it ends first, or is not ready within ``within_s``.
        """
        ready = self._wait_for("ready", within_s, "ready")
        return ready if isinstance(ready, dict) else {}

    def require_ready(self, within_s: float) -> None:
        """Wait until it has reported, now or earlier, that it is ready, or has ended; an earlier SIGUSR2 would end it.

        Raises `NotCarriedOutError` with the end of its log if it still runs and is not ready within ``within_s``.
        """
        if not wait_until(lambda: self.is_ready or self.poll() is not None, within_s=within_s, every_s=_POLL_EVERY_S):
            raise NotCarriedOutError(f"{self.name} was not ready within {within_s:.0f} s{self.tail_log()}")

    def wait_suspended(self, within_s: float) -> None:
        """Wait until it reports that it is suspended, as it was asked to be; raises as `wait_ready` does."""
        self._wait_for("suspended", within_s, "suspended")

    def wait_dropped(self, within_s: float) -> dict[str, Any]:
        """Wait until it reports what it has dropped, as it was asked to, and return the report; raises as `wait_ready` does."""
        dropped = self._wait_for("dropped", within_s, "without its unsynced data")
        return dropped if isinstance(dropped, dict) else {}

    def _wait_for(self, key: str, within_s: float, state: str) -> Any:
        found: list[dict[str, Any]] = []

        def has_message_or_ended() -> bool:
            has_ended = self.poll() is not None
            if has_ended and self._reader:
                self._reader.join(timeout=1)  # what it sent last is still to be read
            found.extend(self._take_message_with(key))
            return bool(found) or has_ended

        in_time = wait_until(has_message_or_ended, within_s=within_s, every_s=_POLL_EVERY_S)
        if found:
            return found[0][key]
        if in_time:
            raise NotCarriedOutError(f"{self.name} {self.describe_end()} before it was {state}{self.tail_log()}")
        raise NotCarriedOutError(f"{self.name} was not {state} within {within_s:.0f} s{self.tail_log()}")

    def _take_message_with(self, key: str) -> list[dict[str, Any]]:
        """Take messages up to the first with ``key`` and return that one; empty if there is none."""
        while not self._messages.empty():
            if key in (message := self._messages.get()):
                return [message]
        return []

    def messages(self) -> list[dict[str, Any]]:
        """Take the messages that it has sent since the last call."""
        if self.poll() is not None and self._reader:
            self._reader.join(timeout=1)
        taken = []
        while not self._messages.empty():
            taken.append(self._messages.get())
        return taken

    def ask_to_stop(self) -> None:
        """Send its stop signal and return at once."""
        self.intended = "killed" if self._stop_signal is signal.SIGKILL else "stopped"
        self._was_starting = self._reader is not None and not self.is_ready
        self.signal(self._stop_signal)
        self.signal(signal.SIGCONT)

    def stop(self, grace_s: float) -> None:
        """Ask it to stop, wait for ``grace_s``, then kill it."""
        if self.poll() is None:
            self.ask_to_stop()
            self.wait_end(grace_s)

    def wait_end(self, grace_s: float, *, passed_s: float = 0.0) -> None:
        """Wait until it has ended. ``grace_s`` after it was asked to stop, of which ``passed_s`` are over, it is killed, and its record says so."""
        try:
            self._popen.wait(max(0.0, grace_s - passed_s))
        except subprocess.TimeoutExpired:
            self._outlived_s = grace_s
            self.kill()
        self.poll()

    def kill(self) -> None:
        """Kill it and everything in its process group."""
        self.intended = "killed"
        self.signal(signal.SIGKILL)
        self._popen.wait()
        self.poll()

    def _end_group(self) -> bool:
        """Kill what is left of its process group; returns whether anything was. A child that lives on would still claim jobs."""
        import psutil

        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        left = any(_is_running_in(self.pid, process) for process in psutil.process_iter(["status"]))
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        return left

    def signal(self, signum: signal.Signals) -> None:
        """Send it a signal. SIGKILL, SIGSTOP and SIGCONT go to its whole process group. If it has ended, its number may be another process's by now."""
        if self.poll() is not None:
            return
        try:
            if signum in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT):
                os.killpg(self.pid, signum)
            else:
                os.kill(self.pid, signum)
        except ProcessLookupError:
            self.poll()

    def is_paused(self) -> bool:
        """Whether the kernel reports it as stopped; a process that has ended is not."""
        import psutil

        try:
            return self.poll() is None and psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return False

    def exited_unexpectedly(self) -> bool:
        """Whether it has ended although it was meant to run, or has ended in another way than it was asked to."""
        code = self.poll()
        if code is None or (self.may_be_killed_by and code == -signal.SIGKILL) or (self.may_fail_to_start and not self.is_ready):
            return False
        is_orderly = is_orderly_end(self.role, code, self._orderly_exit_codes)
        return self.intended == "running" or (self.intended == "stopped" and not is_orderly)

    def describe_end(self) -> str:
        """Return how it ended, to follow its name in a message."""
        code = self.exit_code
        if code is None:
            return "is still running"
        return f"was ended by {self.exit_cause}" if code < 0 else f"ended with {self.exit_cause}"

    def describe_hard_end(self) -> Iterator[str]:
        """Yield a sentence if it was killed because it did not stop, and one if it left processes behind."""
        if self._outlived_s is not None:
            yield f"{self.name} did not end within {round(self._outlived_s, 1):g} s when it was asked to stop; it was ended by SIGKILL"
        if self._left_processes:
            yield f"{self.name} left processes behind when it ended; they were ended by SIGKILL"

    @property
    def exit_cause(self) -> str:
        """The signal that ended it (``SIGKILL``), else ``exit code <n>``."""
        code = self.exit_code
        return signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"

    def tail_log(self) -> str:
        """Return the end of its log, to follow a message; says so if it printed nothing."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        tail = "\n  ".join(line for line in lines[-_LOG_TAIL_LINES:] if line.strip())
        return f"; it printed last:\n  {tail}" if tail else "; it printed nothing"

    def record(self) -> ProcessRecord:
        """Return its record for ``run.json``."""
        self.poll()
        return ProcessRecord(
            name=self.name,
            role=self.role,
            pid=self.pid,
            start_ns=self.start_ns,
            end_ns=self.end_ns,
            intended=self.intended,
            exit_code=self.exit_code,
            orderly_exit_codes=self._orderly_exit_codes,
            outlived_s=self._outlived_s,
        )

    def _read_messages(self) -> None:
        """Read its standard output: JSON objects are messages, those of a worker only if it sends such ones; everything else goes to its log."""
        assert self._popen.stdout is not None
        with self.log.open("ab") as log, self._popen.stdout as stdout:
            for line in stdout:
                try:
                    message = json.loads(line)
                except (ValueError, RecursionError):
                    message = None
                if isinstance(message, dict) and (self.role != "worker" or _is_of_worker(message)):
                    if isinstance(ready := message.get("ready"), dict):
                        self.is_ready = True
                        self.metrics_port = ready.get("metrics_port")
                    self._messages.put(message)
                else:
                    log.write(line)
                    log.flush()


def _is_of_worker(message: dict[str, Any]) -> bool:
    return len(message) == 1 and all(isinstance(value, _OF_WORKERS.get(key, ())) for key, value in message.items())


def _is_running_in(group: int, process: psutil.Process) -> bool:
    import psutil

    try:
        return os.getpgid(process.pid) == group and process.info["status"] != psutil.STATUS_ZOMBIE
    except ProcessLookupError:
        return False
