"""``python -m stallbench.pipeline.service SOCKET``: one Spark that makes the tables of runs for several commands, until SIGTERM.

A command uses it if `SERVICE_VARIABLE` names the socket. For a small run, most of the time for its tables is the start of Spark. The service saves
this time if many runs follow each other, for example in CI and in the tests. It makes the tables of one run at a time.

Without the service, or if the service cannot make the tables, the command makes them in a separate process, as it does without the variable.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stallbench.errors import EXIT_BAD_INPUT

if TYPE_CHECKING:
    from stallbench.pipeline.process import PipelineProcess

SERVICE_VARIABLE = "STALLBENCH_PIPELINE"
"""Environment variable with the path of the socket of a running service."""

_MADE = "made\n"
_NOT_MADE = "not made\n"
_REQUEST_S = 10.0
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group, as Linux gives them."""


def ask_service(folder: Path, within_s: float) -> bool:
    """Whether the service that `SERVICE_VARIABLE` names, if any, has made the tables of the run in ``folder``."""
    path = os.environ.get(SERVICE_VARIABLE)
    if not path:
        return False
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(within_s)
        try:
            connection.connect(path)
            if not _is_of_this_user(connection):
                print(f"{SERVICE_VARIABLE}: {path} is served by another user; the tables are made without it", file=sys.stderr)
                return False
            with connection.makefile("rw") as stream:
                stream.write(f"{folder.absolute()}\n")
                stream.flush()
                return stream.readline() == _MADE
        except OSError:
            return False


def serve(path: Path) -> None:
    """Listen on a socket at ``path`` and make tables, until SIGTERM or SIGINT; Spark starts with the first run.

    Only the user who started the service can reach the socket. Raises `OSError` if there can be no socket at ``path``.
    """
    from stallbench.pipeline.process import PipelineProcess  # which asks this module for a service

    with socket.socket(socket.AF_UNIX) as listening:
        earlier = os.umask(0o177)
        try:
            listening.bind(str(path))
        finally:
            os.umask(earlier)
        try:
            listening.listen()
            with PipelineProcess() as pipeline:
                while True:
                    connection, _ = listening.accept()
                    with connection, suppress(OSError):  # the command that asked may have ended
                        connection.settimeout(_REQUEST_S)
                        if _is_of_this_user(connection):
                            _answer(connection, pipeline)
        finally:
            path.unlink(missing_ok=True)


def _is_of_this_user(connection: socket.socket) -> bool:
    """Whether the process at the other end is this user's, as the kernel says: a socket's path and its mode may have been another's."""
    _, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return bool(uid == os.geteuid())


def _answer(connection: socket.socket, pipeline: PipelineProcess) -> None:
    with connection.makefile("rw") as stream:
        folder = stream.readline().rstrip("\n")
        if folder:
            stream.write(_MADE if pipeline.offer(Path(folder)) else _NOT_MADE)


def main() -> None:
    """Serve on the socket that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m stallbench.pipeline.service",
        description=f"Make the tables of runs for every command that has the socket's path in {SERVICE_VARIABLE}, until SIGTERM.",
    )
    parser.add_argument("socket", metavar="SOCKET", type=Path, help="path of a socket that does not exist yet")
    path: Path = parser.parse_args().socket
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # In the background of a script it would be ignored, here and in the pipeline, which is interrupted by it and then removes its files.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        serve(path)
    except KeyboardInterrupt:
        sys.exit(0)
    except OSError as error:
        print(f"{path}: {error.strerror or error}; expected the path of a socket that does not exist yet", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)


if __name__ == "__main__":
    main()
