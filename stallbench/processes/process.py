"""One process of a run: what it has said, how it is asked to stop, how it ended."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from stallbench.errors import NotCarriedOutError
from stallbench.processes.record import Intended, ProcessRecord, is_orderly_end

_LOG_TAIL_LINES = 8
_LOOK_EVERY_S = 0.02


class Process:
    """One process of the run; made by `Supervisor.start`."""

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
        self.is_ready = False
        """Whether it has said that it is."""
        self.may_be_killed_by: set[str] = set()
        """Names of faults that may be the death of it: killed (SIGKILL) while there is one, it has not ended uninvited."""
        self.metrics_port: int | None = None
        """Where it answers Prometheus, once it has said so."""
        self._popen = popen
        self._stop_signal = stop_signal
        self._orderly = orderly
        self._messages: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
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

    def require_ready(self, deadline_s: float) -> None:
        """Wait until it has said, now or before, that it is ready: an earlier signal would end it. Raises as `wait_ready` does, but for its end."""
        until_s = time.monotonic() + deadline_s
        while not self.is_ready and self.poll() is None and time.monotonic() < until_s:
            time.sleep(_LOOK_EVERY_S)
        if not self.is_ready and self.poll() is None:
            raise NotCarriedOutError(f"{self.name} was not ready within {deadline_s:.0f} s{self.tail_log()}")

    def wait_suspended(self, deadline_s: float) -> None:
        """Wait until it says that it rests, as it was asked to; raises as `wait_ready` does."""
        self._wait_for("suspended", deadline_s, "suspended")

    def _wait_for(self, key: str, deadline_s: float, state: str) -> Any:
        until_s = time.monotonic() + deadline_s
        while (left_s := until_s - time.monotonic()) > 0:
            try:
                message = self._messages.get(timeout=min(left_s, 0.1))
            except queue.Empty:
                if self.poll() is not None and self._messages.empty():
                    raise NotCarriedOutError(
                        f"{self.name} {self.describe_end()} before it was {state}{self.tail_log()}"
                    ) from None
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

    def exited_unexpectedly(self) -> bool:
        """Whether it has ended although it was meant to run, or otherwise than it was asked to."""
        code = self.poll()
        if code is None or (self.may_be_killed_by and code == -signal.SIGKILL):
            return False
        return self.intended == "running" or (self.intended == "stopped" and not is_orderly_end(self.role, code, self._orderly))

    def describe_end(self) -> str:
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

    def record(self) -> ProcessRecord:
        """Return its part of ``run.json``."""
        self.poll()
        return ProcessRecord(
            name=self.name,
            role=self.role,
            pid=self.pid,
            start_ns=self.start_ns,
            end_ns=self.end_ns,
            intended=self.intended,
            exit_code=self.exit_code,
            orderly_exit_codes=self._orderly,
        )

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
                        self.is_ready = True
                        self.metrics_port = ready.get("metrics_port")
                    self._messages.put(message)
                else:
                    log.write(line)
                    log.flush()
