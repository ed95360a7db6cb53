"""How processes that somebody else starts take part in a run: what the bench leaves for them in the run's folder, and how they answer.

Everything goes by files in ``external/`` of the run's folder, which a container, or another host by a shared folder, sees as the bench
does: ``instructions.json`` says what the load is and where the servers are; each process that comes writes ``<name>.json``, and corrects it
when it ends; ``stop-<role>`` asks all of a role to end. No password stands there: it comes by the environment, as for the bench itself.
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
from typing import Any

from pydantic import BaseModel, SecretStr, ValidationError

from stallbench.atomic_file import replace_file
from stallbench.processes.clock_offset import ClockOffset, measure_clock_offset
from stallbench.processes.role import CannotGoOnError, Stop
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint

FOLDER = "external"
INSTRUCTIONS_FILE = "join.json"
_LOOK_EVERY_S = 0.2
_EXIT_CANNOT_GO_ON = 3


class JoinInstructions(BaseModel):
    """What a process must know to take part."""

    endpoints: dict[str, Endpoint]
    """By name of the server, as clients reach it, without passwords."""
    password_file: Path | None = None
    """Where the password of the bench's own servers is, for processes of the same user on the same host."""
    queue: str
    queue_options: dict[str, object]
    worker: dict[str, object]
    """What the scenario asks of a worker."""
    producer: dict[str, object]
    """What the scenario asks of one producer."""
    bench_clock: ClockOffset | None = None
    """How far the bench's clock is from the primary's."""
    expose: bool = False
    """Whether it is to answer Prometheus."""


class Registration(BaseModel):
    """A process that takes part; its part of ``run.json``."""

    name: str
    role: str
    host: str
    pid: int
    start_ns: int
    metrics_port: int | None = None
    """Where it answers Prometheus, on every address of its host."""
    clock: ClockOffset | None = None
    """How far its clock is from the primary's."""
    bench_clock: ClockOffset | None = None
    """How far the bench's was, which invited it."""
    end_ns: int | None = None
    exit_code: int | None = None


@contextmanager
def join_run(role: str, place: Path, stop: Stop, **own_fields: object) -> Iterator[dict[str, Any] | None]:
    """Wait for a run that invites, take part in it as a process of ``role``, and report the end when the block is left.

    ``place``: a run's folder, or the folder of all runs, of which the newest that invites is taken. The block is given the process's
    document, with ``own_fields`` in it, or none if it was asked to stop before there was a run. Raises `CannotGoOnError` if the
    invitation cannot be read.
    """
    folder = wait_for_run(place, stop)
    if folder is None:
        yield None
        return
    with join_run_folder(role, folder, stop, **own_fields) as document:
        yield document


@contextmanager
def join_run_folder(role: str, folder: Path, stop: Stop, **own_fields: object) -> Iterator[dict[str, Any]]:
    """Take part, as `join_run` does, in the run whose invitation is in ``folder``."""
    instructions = read_join_instructions(folder)
    registration, path = _register(folder, role, _find_free_port() if instructions.expose else None)
    print(f"{registration.name} takes part in {folder.parent.name}", file=sys.stderr, flush=True)
    watch_for_stop(role, folder, stop)
    exit_code = _EXIT_CANNOT_GO_ON
    try:
        document = _document(instructions, registration, folder.parent, own_fields)
        primary = instructions.endpoints["primary"].model_copy(update={"password": SecretStr(_read_password(instructions))})
        clock = measure_clock_offset(primary, registration.name)
        registration = registration.model_copy(update={"clock": clock, "bench_clock": instructions.bench_clock})
        replace_file(path, registration.model_dump_json())
        yield document
        exit_code = 0
    finally:
        replace_file(path, registration.model_copy(update={"end_ns": time.time_ns(), "exit_code": exit_code}).model_dump_json())


def read_join_instructions(folder: Path) -> JoinInstructions:
    """Return the invitation in ``folder``; raises `CannotGoOnError` if it cannot be read."""
    try:
        return JoinInstructions.model_validate_json((folder / INSTRUCTIONS_FILE).read_text())
    except (OSError, ValidationError) as error:
        raise CannotGoOnError(f"{folder / INSTRUCTIONS_FILE} cannot be read: {error}") from error


def watch_for_stop(role: str, folder: Path, stop: Stop) -> None:
    """Ask this process to stop as soon as the run asks all of ``role`` to."""
    threading.Thread(target=_watch, args=(folder / f"stop-{role}", stop), daemon=True).start()


def wait_for_run(place: Path, stop: Stop) -> Path | None:
    """Return the folder with the invitation of the run in ``place``, or of the newest there, once it invites; none if asked to stop."""
    said = False
    while not stop.asked:
        for run in (place, place / "latest"):
            folder = run.resolve() / FOLDER
            if (folder / INSTRUCTIONS_FILE).exists() and not any(folder.glob("stop-*")):
                return folder
        if not said:
            said = True
            print(f"waiting for a run that invites, in {place} (--set external_processes=true)", file=sys.stderr, flush=True)
        stop.wait(_LOOK_EVERY_S)
    return None


def _find_free_port() -> int:
    with socket.create_server(("", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def _register(folder: Path, role: str, metrics_port: int | None) -> tuple[Registration, Path]:
    host = socket.gethostname()
    base = f"{role}-" + "".join(letter if letter.isalnum() else "-" for letter in host.lower())[:20]
    for name in (base, *(f"{base}-{number}" for number in range(2, 1000))):
        registration = Registration(
            name=name, role=role, host=host, pid=os.getpid(), start_ns=time.time_ns(), metrics_port=metrics_port
        )
        path = folder / f"{name}.json"
        try:
            with path.open("x") as file:
                file.write(registration.model_dump_json())
        except FileExistsError:
            continue
        except OSError as error:
            raise CannotGoOnError(f"{path}: cannot be written: {error.strerror}") from error
        return registration, path
    raise CannotGoOnError(f"{folder}: a thousand processes of host {host} take part already")


def _read_password(instructions: JoinInstructions) -> str:
    password = os.environ.get(PASSWORD_VARIABLE)
    if password is None and instructions.password_file is not None:
        try:
            password = instructions.password_file.read_text()
        except OSError as error:
            raise CannotGoOnError(
                f"the password is in {instructions.password_file}: {error.strerror}; or set {PASSWORD_VARIABLE}"
            ) from error
    return password or ""


def _document(
    instructions: JoinInstructions, registration: Registration, run: Path, own_fields: Mapping[str, object]
) -> dict[str, Any]:
    password = _read_password(instructions)
    endpoints = {name: {**endpoint.with_password(), "password": password} for name, endpoint in instructions.endpoints.items()}
    if registration.metrics_port is not None:
        own_fields = {**own_fields, "expose": {"host": "0.0.0.0", "port": registration.metrics_port}}  # noqa: S104 - as asked
    if registration.role == "longrunner":
        on = str(own_fields.get("on", "primary"))
        if on not in endpoints:
            raise CannotGoOnError(f"there is no server {on!r}; there are {', '.join(endpoints)}")
        return {"name": registration.name, "endpoint": endpoints[on], **own_fields}
    return {
        "name": registration.name,
        "endpoint": endpoints["primary"],
        "queue": instructions.queue,
        "queue_options": instructions.queue_options,
        "events": str(run / "events" / f"{registration.name}.csv"),
        **(instructions.worker if registration.role == "worker" else instructions.producer),
        **own_fields,
    }


def _watch(over: Path, stop: Stop) -> None:
    while not stop.wait(_LOOK_EVERY_S):
        if over.exists():
            stop.ask()


def read_registrations(folder: Path) -> list[Registration]:
    """Return who takes or took part; a file that is being written is left out."""
    registrations = []
    for path in sorted(folder.glob("*.json")):
        if path.name == INSTRUCTIONS_FILE or path.name.startswith("."):
            continue
        try:
            registrations.append(Registration.model_validate(json.loads(path.read_text())))
        except (OSError, ValueError):
            continue
    return sorted(registrations, key=lambda registration: registration.start_ns)
