"""Starts, stops and kills the processes of a run, and keeps the intended and the actual state of each.

No process outlives the bench. The kernel kills each child when the bench dies (parent-death signal). Each child leads its own process group and
carries the run's token in its environment, by which `stallbench.processes.reaper` finds the remaining processes; so it does by the list of those
that were started, in the run's temporary folder.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stallbench.errors import NotCarriedOutError
from stallbench.processes.identity import record_start
from stallbench.processes.parent_death import die_with_parent
from stallbench.processes.process import Process
from stallbench.processes.reaper import TOKEN_VARIABLE
from stallbench.processes.record import ProcessRecord

_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "JAVA_HOME", "PYTHONPATH", "LD_LIBRARY_PATH", "TMPDIR")


class Supervisor:
    """All processes of a run. Use it from the main thread: the parent-death signal follows the thread that started a child."""

    def __init__(self, token: str, expose: Mapping[str, object] | None = None, *, scratch: Path | None = None) -> None:
        """Start nothing yet. ``token`` marks every process. ``expose``: where the bench's processes answer Prometheus, as their
        documents say it; none if they do not. ``scratch``: the run's temporary folder, where each start is recorded for the reaper.
        """
        self._token = token
        self._scratch = scratch
        self._expose = expose
        self._all: list[Process] = []
        self._reported_ends: set[str] = set()

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
        orderly_exit_codes: tuple[int, ...] = (0,),
    ) -> Process:
        """Start ``argv`` with ``document`` as JSON on its standard input.

        ``user``: run as that user, from ``/`` (for servers that refuse root). ``stop_signal``: asks it to stop; SIGKILL
        if it has no orderly way to stop. ``death_signal``: sent by the kernel when the bench dies. ``ready``: read its
        standard output as messages, see `Process.wait_ready`. ``orderly_exit_codes``: those of a process that stopped as asked.

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
                    preexec_fn=die_with_parent(death_signal),  # noqa: PLW1509 - only a system call, and before any thread matters
                    **_as_user(user),
                )
            except OSError as error:
                raise NotCarriedOutError(f"{name} could not be started: {argv[0]}: {error.strerror}") from error
        if self._scratch is not None:
            record_start(self._scratch, popen.pid)
        process = Process(name, role, popen, log, stop_signal, ready, orderly_exit_codes)
        self._all.append(process)
        if document is not None:
            _write_document(popen, document)
        return process

    @contextmanager
    def marking(self) -> Iterator[None]:
        """Mark also what is started without this object while the block lasts, such as a library's command that creates its tables."""
        os.environ[TOKEN_VARIABLE] = self._token
        try:
            yield
        finally:
            del os.environ[TOKEN_VARIABLE]

    def run_to_end(
        self, name: str, argv: Sequence[str], *, document: Mapping[str, object], log: Path, within_s: float
    ) -> int | None:
        """Start a longrunner that ends by itself and wait for it; returns its exit code. After ``within_s`` it is killed."""
        process = self.start(name, "longrunner", argv, log=log, document=document)
        process.intended = "stopped"
        process.wait_end(within_s)
        return process.exit_code

    def of_role(self, role: str) -> list[Process]:
        """Return the processes of a role, in the order in which they were started."""
        return [process for process in self._all if process.role == role]

    def exposed(self) -> dict[str, int]:
        """Return the ports on which the running processes answer Prometheus, by name of the process."""
        return {
            process.name: process.metrics_port
            for process in self._all
            if process.metrics_port is not None and process.exit_code is None
        }

    def stop(self, processes: Iterable[Process], grace_s: float) -> None:
        """Ask all of ``processes`` to stop at the same time and wait for each; kill those that take longer than ``grace_s``."""
        running = [process for process in processes if process.poll() is None]
        for process in running:
            process.ask_to_stop()
        asked_s = time.monotonic()
        for process in running:
            process.wait_end(grace_s, passed_s=time.monotonic() - asked_s)

    def stop_all(self, grace_s: float = 10.0) -> None:
        """Stop everything, the last started role first, so that clients stop before their servers. A second call does nothing."""
        by_role: dict[str, list[Process]] = {}
        for process in reversed(self._all):
            by_role.setdefault(process.role, []).append(process)
        for processes in by_role.values():
            self.stop(processes, grace_s)

    def exited_unexpectedly(self) -> list[Process]:
        """Return the processes that ended although they were meant to run, or not as they were asked to."""
        return [process for process in self._all if process.exited_unexpectedly()]

    def take_hard_ends(self) -> list[str]:
        """Return a sentence for each process that, since the last call, had to be killed although it was asked to stop, or left processes behind."""
        ends = [end for process in self._all for end in process.describe_hard_end()]
        new = [end for end in ends if end not in self._reported_ends]
        self._reported_ends.update(new)
        return new

    def forget_ended(self) -> None:
        """Forget the processes whose end was seen: a soak starts thousands, and would look at each of them several times a second."""
        self._all = [process for process in self._all if process.end_ns is None]

    def records(self) -> list[ProcessRecord]:
        """Return the records of all processes for ``run.json``."""
        return [process.record() for process in self._all]


def _as_user(user: str | None) -> dict[str, Any]:
    if user is None:
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": [], "cwd": "/"}


def _write_document(popen: subprocess.Popen[bytes], document: Mapping[str, object]) -> None:
    assert popen.stdin is not None
    try:
        with popen.stdin as stdin:
            stdin.write(json.dumps(document).encode())
    except BrokenPipeError:
        # It ended before it read the document; `Process.wait_ready` reports why.
        return
