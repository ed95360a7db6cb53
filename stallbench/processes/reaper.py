"""A small process that cleans up after a run if the bench is killed. It outlives the bench for a moment.

It holds the reading end of a pipe; only the bench has the writing end. When the bench ends for any reason, the pipe closes. The reaper then ends
every process of the run, cleans up external servers, removes the run's scratch folder, and corrects a ``run.json`` that still says ``running``.
If the reaper itself is killed, ``stallbench clean`` (`stallbench.leftovers`) does the same later.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from stallbench.base.storage.atomic_file import replace_file
from stallbench.base.storage.password_file import remove_password
from stallbench.base.storage.private import UntrustedError, open_trusted, read_trusted
from stallbench.base.storage.targets_file import remove_targets
from stallbench.processes.identity import ProcessIdentity, find_own_with, read_started
from stallbench.python_command import python_command
from stallbench.waiting import wait_until

TOKEN_VARIABLE = "STALLBENCH_RUN"  # noqa: S105 - a name, not a secret
"""Environment variable that marks every process of a run with the run's token."""
SCRATCH_PREFIX = "stallbench-"
OWNER_FILE = "owner.json"
CLEANUP_JOURNAL = "cleanup-journal.json"
"""File in the scratch folder, see `stallbench.servers.cleanup_journal`."""
_GRACE_S = 2.0
_LOOK_AGAIN_S = 0.3
_POLL_EVERY_S = 0.02
_GIVE_UP_S = 20.0
_CLEAN_UP_S = 60.0
_SHARED_MEMORY_LINE = 6
"""Line of ``postmaster.pid``, counted from 0, with the key and the id of the shared memory segment."""


@contextmanager
def start_reaper(token: str, *, record: Path, scratch: Path) -> Iterator[None]:
    """Start a reaper for the run with ``token``; it cleans up when the block ends or the bench dies.

    ``record``: the run's ``run.json``. ``scratch``: its temporary folder.
    """
    mark_owner(scratch, token)
    reading, writing = os.pipe()
    # Not in its arguments: every user of the machine can read those, and who knows the token can make a process that has it.
    os.write(writing, json.dumps({"token": token, "record": str(record.absolute()), "scratch": str(scratch)}).encode())
    reaper = subprocess.Popen(
        python_command("stallbench.processes.reaper"),
        stdin=reading,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    os.close(reading)
    try:
        yield
    finally:
        os.close(writing)
        reaper.wait()


def name_temporary(of: str) -> str:
    """Return how the name of a temporary folder of this process begins, so that `stallbench clean` finds it. ``of``: what it is for."""
    return f"{SCRATCH_PREFIX}{of}-{os.getpid()}-"


def mark_owner(scratch: Path, token: str) -> None:
    """Record in a temporary folder which process owns it, for `stallbench clean`; only this user can read it."""
    import psutil

    owner = {"token": token, "pid": os.getpid(), "process_started_s": psutil.Process().create_time()}
    replace_file(scratch / OWNER_FILE, json.dumps(owner), mode=0o600)


def reap(token: str, scratch: Path) -> None:
    """End every process of the run, gently first; returns when there is none left, or after `_GIVE_UP_S`."""
    began_s = time.monotonic()
    while (left := find_marked(token, scratch)) and time.monotonic() - began_s < _GIVE_UP_S:
        gently = time.monotonic() - began_s < _GRACE_S
        for process in left:
            process.send(signal.SIGCONT)
            # SIGQUIT is PostgreSQL's immediate shutdown, which also ends its backends.
            process.send(signal.SIGQUIT if gently else signal.SIGKILL)
        wait_until(partial(_have_ended, left), within_s=_LOOK_AGAIN_S, every_s=_POLL_EVERY_S)


def _have_ended(processes: Iterable[ProcessIdentity]) -> bool:
    return not any(process.is_alive() for process in processes)


def find_marked(token: str, scratch: Path) -> list[ProcessIdentity]:
    """Return the running processes of a run, without the calling process.

    They are listed in its ``scratch`` folder, or are this user's and have the secret ``token`` in their environment: what a listed process has
    started has it, too. Nothing that another user can choose, like a command line, makes a process one of the run.
    """
    try:
        with open_trusted(scratch) as folder:
            listed = list(read_started(folder))
    except (UntrustedError, OSError) as error:
        print(f"the processes that are listed in {scratch} are left as they are: {error}", file=sys.stderr)
        listed = []
    return list({*listed, *find_own_with(f"{TOKEN_VARIABLE}={token}".encode())})


def run_cleanup_journal(scratch: Path) -> tuple[list[str], list[str]]:
    """Undo what a dead run changed on external servers.

    Returns one sentence for each change that could not be undone, and one for each object in the database that is not known to be the bench's.

    Runs in a separate process, because it needs the engines' drivers and must not wait for their timeouts.
    """
    if not os.path.lexists(scratch / CLEANUP_JOURNAL):
        return [], []
    command = python_command("stallbench.servers.cleanup_journal", str(scratch))
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_CLEAN_UP_S, check=False)
    except subprocess.TimeoutExpired:
        return [f"the cleanup of external servers did not end within {_CLEAN_UP_S:.0f} s"], []
    remaining, others = ([line for line in text.splitlines() if line.strip()] for text in (ended.stderr, ended.stdout))
    return remaining, others


def remove_scratch(scratch: Path) -> None:
    """Remove a dead run's folder, and the shared memory of its killed servers, which their pid files name.

    A PostgreSQL that is killed leaves a small System V segment behind; the kernel has a limited number of them.
    """
    for pid_file in scratch.glob("*/postmaster.pid"):
        remove_shared_memory(pid_file)
    shutil.rmtree(scratch, ignore_errors=True)


def remove_shared_memory(pid_file: Path) -> None:
    """Remove the shared memory that the pid file of a killed PostgreSQL names."""
    try:
        with os.fdopen(os.open(pid_file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
            _, segment = file.read().splitlines()[_SHARED_MEMORY_LINE].split()
            # As its owner: in a container not even root may remove another user's segment.
            owner: dict[str, Any] = {"user": os.fstat(file.fileno()).st_uid} if os.geteuid() == 0 else {}
        subprocess.run(["ipcrm", "--shmem-id", segment], capture_output=True, check=False, **owner)
    except (OSError, ValueError, IndexError):
        return  # the server was killed before it had a segment, or it has removed the segment itself


def mark_aborted(record: Path, reason: str) -> bool:
    """Correct a ``run.json`` of a dead bench that still says ``running``; returns whether it did. Removes one that the bench had not finished."""
    # Two keys of raw JSON: it is also for comparisons, soaks and other formats, and must not fail over anything else in them.
    try:
        content: dict[str, Any] = json.loads(read_trusted(record) or b"")
    except (OSError, ValueError, RecursionError):
        return False
    except UntrustedError as error:
        print(f"{error}; the record is not corrected", file=sys.stderr)
        return False
    if isinstance(bench := content.get("bench"), dict):
        record.with_name(f".{record.name}.{bench.get('pid')}").unlink(missing_ok=True)  # as `replace_file` names it
    if content.get("status") != "running":
        return False
    content["status"], content["reason"] = "aborted", reason
    try:
        replace_file(record, json.dumps(content, indent=1))
    except OSError as error:
        # A full disk is a likely reason for the bench's end; a later `stallbench clean` tries again.
        print(f"{record}: cannot be corrected: {error.strerror}", file=sys.stderr)
        return False
    return True


def is_bench_alive(bench: dict[str, Any]) -> bool:
    """Whether the process with ``pid`` and ``process_started_s`` still runs; a recycled pid is not mistaken for it."""
    import psutil

    try:
        return abs(psutil.Process(int(bench["pid"])).create_time() - float(bench["process_started_s"])) < 1
    except (KeyError, ValueError, TypeError, psutil.Error):
        return False


def main() -> None:
    """Wait until the bench has ended, then clean up."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    told = json.loads(sys.stdin.read())  # it ends when the bench has ended
    record, scratch = Path(told["record"]), Path(told["scratch"])
    try:
        reap(told["token"], scratch)
    finally:
        _clean_up(record, scratch)


def _clean_up(record: Path, scratch: Path) -> None:
    """Undo and remove what the run has left, whatever became of its processes."""
    remaining, others = run_cleanup_journal(scratch)
    mark_aborted(record, "; ".join(["the bench was killed", *remaining, *others]))
    for remove in (remove_targets, remove_password):
        try:
            remove(record.parent)
        except (UntrustedError, OSError) as error:
            print(f"{error}; nothing is removed there", file=sys.stderr)
    if not remaining:
        remove_scratch(scratch)


if __name__ == "__main__":
    main()
