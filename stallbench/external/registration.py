"""How a process that the bench did not start joins a run, and how the run asks it to stop.

They communicate by files in ``external/`` of the run's folder, which must be accessible from the container or host of the process. ``join.json``
describes the load and the servers. Each process that joins writes its record, ``<name>.json``, and replaces it when it ends. ``stop-<role>``
asks all processes of a role to stop. The files contain no password; it comes from the environment, as for the bench itself.
"""

from __future__ import annotations

import json
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

from stallbench.processes.clock_offset import ClockOffset, measure_clock_offset
from stallbench.processes.record import ProcessRecord
from stallbench.processes.role import EXIT_CANNOT_CONTINUE, CannotContinueError, Stop
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint
from stallbench.storage.atomic_file import replace_file

FOLDER = "external"
INSTRUCTIONS_FILE = "join.json"
_POLL_EVERY_S = 0.2
_MOST_PROCESSES = 1000

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
    password_file: Path | None = None
    """File with the password of the bench's own servers, for processes of the same user on the same host."""
    queue: str
    queue_options: dict[str, object]
    worker: WorkerLoad
    producer: ProducerLoad
    bench_clock: ClockOffset | None = None
    """How far the bench's clock is from the primary's."""
    expose: bool = False
    """Whether the process is to answer Prometheus."""


def stop_file(folder: Path, role: str) -> Path:
    """Return the file whose presence asks all processes of ``role`` to stop. ``folder``: ``external/`` of the run."""
    return folder / f"stop-{role}"


@contextmanager
def join_run(model: type[DocumentT], role: str, path: Path, stop: Stop, **own_fields: object) -> Iterator[DocumentT | None]:
    """Wait for a run that can be joined, join it as a process of ``role``, and record the end when the block is left.

    ``path``: a run's folder, or the folder of all runs, where the newest is joined. The block is given the process's document, a ``model``,
    which includes ``own_fields``; none if the process was asked to stop before there was a run. Raises `CannotContinueError` if the
    instructions cannot be read.
    """
    folder = wait_for_run(path, stop)
    if folder is None:
        yield None
        return
    with join_run_folder(model, role, folder, stop, **own_fields) as document:
        yield document


@contextmanager
def join_run_folder(model: type[DocumentT], role: str, folder: Path, stop: Stop, **own_fields: object) -> Iterator[DocumentT]:
    """Join, as `join_run` does, the run whose instructions are in ``folder``."""
    instructions = read_join_instructions(folder)
    record, path = _register(folder, role, _find_free_port() if instructions.expose else None)
    print(f"{record.name} takes part in {folder.parent.name}", file=sys.stderr, flush=True)
    watch_for_stop(role, folder, stop)
    exit_code = EXIT_CANNOT_CONTINUE
    try:
        document = _make_document(model, instructions, record, folder.parent, own_fields)
        primary = instructions.endpoints["primary"].model_copy(update={"password": SecretStr(_read_password(instructions))})
        clock = measure_clock_offset(primary, record.name)
        record = record.model_copy(update={"clock": clock, "bench_clock": instructions.bench_clock})
        replace_file(path, record.model_dump_json())
        yield document
        exit_code = 0
    finally:
        replace_file(path, record.model_copy(update={"end_ns": time.time_ns(), "exit_code": exit_code}).model_dump_json())


def read_join_instructions(folder: Path) -> JoinInstructions:
    """Return the instructions in ``folder``; raises `CannotContinueError` if they cannot be read."""
    try:
        return JoinInstructions.model_validate_json((folder / INSTRUCTIONS_FILE).read_text())
    except (OSError, ValidationError) as error:
        raise CannotContinueError(f"{folder / INSTRUCTIONS_FILE} cannot be read: {error}") from error


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
            folder = run.resolve() / FOLDER
            if (folder / INSTRUCTIONS_FILE).exists() and not any(folder.glob("stop-*")):
                return folder
        if not has_printed:
            has_printed = True
            message = f"waiting for a run in {path} that accepts external processes (--set external_processes=true)"
            print(message, file=sys.stderr, flush=True)
        stop.wait(_POLL_EVERY_S)
    return None


def _find_free_port() -> int:
    with socket.create_server(("", 0)) as listening:
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


def _read_password(instructions: JoinInstructions) -> str:
    password = os.environ.get(PASSWORD_VARIABLE)
    if password is None and instructions.password_file is not None:
        try:
            password = instructions.password_file.read_text()
        except OSError as error:
            raise CannotContinueError(
                f"the password is in {instructions.password_file}: {error.strerror}; or set {PASSWORD_VARIABLE}"
            ) from error
    return password or ""


def _make_document(
    model: type[DocumentT], instructions: JoinInstructions, record: ProcessRecord, run: Path, own_fields: Mapping[str, object]
) -> DocumentT:
    """Return the document of a process that has joined. Of the scenario's load it has what the ``model`` asks for: Locust's users have a rate of their own."""
    password = _read_password(instructions)
    endpoints = {name: {**endpoint.with_password(), "password": password} for name, endpoint in instructions.endpoints.items()}
    if record.metrics_port is not None:
        own_fields = {**own_fields, "expose": {"host": "0.0.0.0", "port": record.metrics_port}}  # noqa: S104 - as asked
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


def read_registrations(folder: Path) -> list[ProcessRecord]:
    """Return the records of all processes that have joined; a file that is being written is left out."""
    records = []
    for path in sorted(folder.glob("*.json")):
        if path.name == INSTRUCTIONS_FILE or path.name.startswith("."):
            continue
        try:
            records.append(ProcessRecord.model_validate(json.loads(path.read_text())))
        except (OSError, ValueError):
            continue
    return sorted(records, key=lambda record: record.start_ns)
