"""How a process that the bench did not start joins a run, and how the run asks it to stop.

They communicate by files in ``external/`` of the run's folder, which must be accessible from the container or host of the process. ``join.json``
describes the load and the servers. Each process that joins writes its record, ``<name>.json``, and replaces it when it ends. ``stop-<role>``
asks all processes of a role to stop. The password of external servers comes from the environment, as for the bench itself; that of the bench's own
servers is in a file beside the instructions while the run lasts.

A process does what the instructions say, and loads the queue that they name. So both must belong to its own user or root or, if it was told a group,
to a member of that group, and nobody else may be able to change them.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from stallbench.base.storage.atomic_file import replace_file
from stallbench.base.storage.password_file import EXTERNAL_FOLDER, PASSWORD_FILE
from stallbench.base.storage.private import OWN_OR_ROOT, Trust, UntrustedError, find_group, read_trusted, require_trusted
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.engines.clock_offset import measure_clock_offset
from stallbench.processes.record import ClockOffset, ProcessRecord
from stallbench.processes.role import EXIT_CANNOT_CONTINUE, CannotContinueError, Stop
from stallbench.queues.user_queue import is_user_queue
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint

INSTRUCTIONS_FILE = "join.json"
_POLL_EVERY_S = 0.2
_MOST_PROCESSES = 1000
_HOW_TO_SHARE = (
    "; start the process as the user of the run, or give both the run and the process --group NAME, a group of both users"
)

DocumentT = TypeVar("DocumentT", bound=BaseModel)


class WorkerLoad(BaseModel):
    """What the scenario asks of a worker."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    work_s: float
    poll_s: float
    max_poll_s: float | None = None
    seed: int


class ProducerLoad(BaseModel):
    """What the scenario asks of one producer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rate: float
    payload_bytes: int
    payload_content: Literal["random", "text"] = "random"
    max_batch: int
    seed: int


class JoinInstructions(BaseModel):
    """What a process must know to join a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoints: dict[str, Endpoint]
    """By name of the server, as clients reach it, without passwords."""
    queue: str
    queue_options: dict[str, object]
    worker: WorkerLoad
    producer: ProducerLoad
    bench_clock: ClockOffset | None = None
    """How far the bench's clock is from the primary's."""
    expose: str | None = None
    """The address on which the process is to answer Prometheus, as the run itself does; none if it is not."""


def stop_file(folder: Path, role: str) -> Path:
    """Return the file whose presence asks all processes of ``role`` to stop. ``folder``: ``external/`` of the run."""
    return folder / f"stop-{role}"


@contextmanager
def join_run(
    model: type[DocumentT], role: str, path: Path, stop: Stop, trust: Trust = OWN_OR_ROOT, **own_fields: object
) -> Iterator[DocumentT | None]:
    """Wait for a run that can be joined, join it as a process of ``role``, and record the end when the block is left.

    ``path``: a run's folder, or the folder of all runs, where the newest is joined. The block is given the process's document, a ``model``,
    which includes ``own_fields``; none if the process was asked to stop before there was a run. ``trust``: whose run it may be, see `read_trust`.
    Raises `CannotContinueError` if the instructions cannot be read, or are not trusted.
    """
    folder = wait_for_run(path, stop)
    if folder is None:
        yield None
        return
    with join_run_folder(model, role, folder, stop, trust, **own_fields) as document:
        yield document


@contextmanager
def join_run_folder(
    model: type[DocumentT], role: str, folder: Path, stop: Stop, trust: Trust = OWN_OR_ROOT, **own_fields: object
) -> Iterator[DocumentT]:
    """Join, as `join_run` does, the run whose instructions are in ``folder``."""
    instructions = read_join_instructions(folder, trust)
    _require_trusted_queue(instructions.queue, trust)
    password = _read_password(folder, trust)
    record, path = _register(folder, role, _find_free_port(instructions.expose) if instructions.expose else None)
    print(f"{record.name} takes part in {folder.parent.name}", file=sys.stderr, flush=True)
    watch_for_stop(role, folder, stop)
    exit_code = EXIT_CANNOT_CONTINUE
    try:
        document = _make_document(model, instructions, password, record, folder.parent, own_fields)
        primary = instructions.endpoints["primary"].model_copy(update={"password": SecretStr(password)})
        clock = measure_clock_offset(primary, record.name)
        record = record.model_copy(update={"clock": clock, "bench_clock": instructions.bench_clock})
        replace_file(path, record.model_dump_json())
        yield document
        exit_code = 0
    finally:
        replace_file(path, record.model_copy(update={"end_ns": time.time_ns(), "exit_code": exit_code}).model_dump_json())


def read_trust(group: str | None) -> Trust:
    """Return whose runs a process joins: of its user and root and, with ``group``, of the members of that group.

    Raises `CannotContinueError` if there is no such group.
    """
    try:
        return OWN_OR_ROOT if group is None else Trust(root=True, group=find_group(group))
    except KeyError:
        raise CannotContinueError(f"--group {group}: there is no such group on this machine") from None


def read_join_instructions(folder: Path, trust: Trust = OWN_OR_ROOT) -> JoinInstructions:
    """Return the instructions in ``folder``; raises `CannotContinueError` if they cannot be read, or are not trusted."""
    path = folder / INSTRUCTIONS_FILE
    try:
        return JoinInstructions.model_validate_json(read_trusted(path, trust) or b"")
    except UntrustedError as error:
        raise CannotContinueError(f"this run is not joined: {error}{_HOW_TO_SHARE}") from error
    except ValidationError as error:
        issue = error.errors(include_input=False, include_url=False)[0]
        raise CannotContinueError(f"{path} cannot be read: {'.'.join(map(str, issue['loc']))}: {issue['msg']}") from error
    except OSError as error:
        raise CannotContinueError(f"{path} cannot be read: {error}") from error


def watch_for_stop(role: str, folder: Path, stop: Stop) -> None:
    """Ask this process to stop as soon as the run asks all processes of ``role`` to stop."""

    def watch() -> None:
        while not stop.wait(_POLL_EVERY_S):
            if stop_file(folder, role).exists():
                stop.ask()

    threading.Thread(target=watch, daemon=True).start()


def wait_for_run(path: Path, stop: Stop) -> Path | None:
    """Return the folder with the instructions of the run in ``path``, or of the newest run there; none if asked to stop first."""
    has_printed = False
    while not stop.asked:
        for run in (path, path / "latest"):
            folder = run.resolve() / EXTERNAL_FOLDER
            try:
                if (folder / INSTRUCTIONS_FILE).exists() and not any(folder.glob("stop-*")):
                    return folder
            except PermissionError as error:
                raise CannotContinueError(f"{folder}: only the user of this run can enter it{_HOW_TO_SHARE}") from error
        if not has_printed:
            has_printed = True
            message = f"waiting for a run in {path} that accepts external processes (--set external_processes=true)"
            print(message, file=sys.stderr, flush=True)
        stop.wait(_POLL_EVERY_S)
    return None


def _find_free_port(host: str) -> int:
    with socket.create_server((host, 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def _register(folder: Path, role: str, metrics_port: int | None) -> tuple[ProcessRecord, Path]:
    """Write this process's record under the first free name; returns the record and its file."""
    host = socket.gethostname()
    base = f"{role}-" + "".join(letter if letter.isalnum() else "-" for letter in host.lower())[:20]
    for name in (base, *(f"{base}-{number}" for number in range(2, _MOST_PROCESSES))):
        record = ProcessRecord(
            name=name,
            role=role,
            pid=os.getpid(),
            start_ns=time.time_ns(),
            external=True,
            host=host,
            metrics_port=metrics_port,
        )
        path = folder / f"{name}.json"
        try:
            with path.open("x") as file:
                file.write(record.model_dump_json())
        except FileExistsError:
            continue
        except OSError as error:
            raise CannotContinueError(f"{path}: cannot be written: {error.strerror}") from error
        return record, path
    raise CannotContinueError(f"{folder}: {_MOST_PROCESSES} processes of host {host} have already joined")


def _read_password(folder: Path, trust: Trust) -> str:
    """Return the password, from the environment or from the file beside the instructions, and from no other file."""
    if (password := os.environ.get(PASSWORD_VARIABLE)) is not None:
        return password
    try:
        return (read_trusted(folder / PASSWORD_FILE, trust) or b"").decode()
    except UntrustedError as error:
        raise CannotContinueError(f"the password is not used: {error}; or set {PASSWORD_VARIABLE}") from error
    except OSError as error:
        raise CannotContinueError(
            f"the password is in {folder / PASSWORD_FILE}: {error.strerror}; or set {PASSWORD_VARIABLE}"
        ) from error


def _require_trusted_queue(kind: str, trust: Trust) -> None:
    """Raise `CannotContinueError` if the code of a user's queue or library could have been written by somebody else."""
    library = kind.removeprefix(LIBRARY_PREFIX)
    if kind.startswith(LIBRARY_PREFIX):
        named = [Path(library)] if "/" in library else []
    else:
        file = Path(kind.rpartition(":")[0]).absolute()
        named = [file, file.parent] if is_user_queue(kind) else []
    try:
        for path in named:
            require_trusted(path, trust)
    except UntrustedError as error:
        raise CannotContinueError(f"the queue {kind} is not loaded: {error}") from error
    except OSError as error:
        raise CannotContinueError(f"the queue {kind} cannot be loaded: {error.strerror}") from error


def _make_document(
    model: type[DocumentT],
    instructions: JoinInstructions,
    password: str,
    record: ProcessRecord,
    run: Path,
    own_fields: Mapping[str, object],
) -> DocumentT:
    """Return the document of a process that has joined. Of the scenario's load it has what the ``model`` asks for: Locust's users have a rate of their own."""
    endpoints = {name: {**endpoint.with_password(), "password": password} for name, endpoint in instructions.endpoints.items()}
    if record.metrics_port is not None:
        own_fields = {**own_fields, "expose": {"host": instructions.expose, "port": record.metrics_port}}
    if record.role == "longrunner":
        on = str(own_fields.get("on", "primary"))
        if on not in endpoints:
            raise CannotContinueError(f"there is no server {on!r}; there are {', '.join(endpoints)}")
        return model.model_validate({"name": record.name, "endpoint": endpoints[on], **own_fields})
    load = instructions.worker if record.role == "worker" else instructions.producer
    return model.model_validate(
        {
            "name": record.name,
            "endpoint": endpoints["primary"],
            "queue": instructions.queue,
            "queue_options": instructions.queue_options,
            "events": str(run / "events" / f"{record.name}.csv"),
            **load.model_dump(include=set(model.model_fields)),
            **own_fields,
        }
    )


def read_registrations(folder: Path, trust: Trust = OWN_OR_ROOT) -> list[ProcessRecord]:
    """Return the records of all processes that have joined; a file that is being written, or is not trusted, is left out."""
    records = []
    for path in sorted(folder.glob("*.json")):
        if path.name == INSTRUCTIONS_FILE or path.name.startswith("."):
            continue
        try:
            records.append(ProcessRecord.model_validate_json(read_trusted(path, trust) or b""))
        except (OSError, ValueError, UntrustedError):
            continue
    return sorted(records, key=lambda record: record.start_ns)
