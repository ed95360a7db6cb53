"""A web service that an application calls while it enqueues jobs, and that does not work."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def web_service(*, hangs_up: bool) -> Iterator[str]:
    """Yield the address of a web service that is not there, or that closes each connection without an answer (``hangs_up``)."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        if not hangs_up:
            listener.close()
            yield address
            return

        def hang_up() -> None:
            with suppress(OSError):
                while True:
                    with listener.accept()[0] as connection:
                        connection.recv(65_536)  # what is not read makes the end of the connection a reset, as of a database's

        threading.Thread(target=hang_up, daemon=True).start()
        yield address
        listener.shutdown(socket.SHUT_RDWR)
