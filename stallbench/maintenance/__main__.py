"""``python -m stallbench.maintenance [document.json]``: one kind of maintenance, a turn every so often until SIGTERM.

It says ``{"turn": {...}}`` after each turn, with what it did, or the error that it met.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from stallbench.engines import driver_of
from stallbench.maintenance import TaskDocument, find_maintenance_kinds
from stallbench.processes.reconnection import reconnect
from stallbench.processes.role import Stop, read_document, run_role, send_message


def main() -> None:
    """Take turns until asked to stop; an error is said, and the next turn is on a new connection."""
    document = read_document(TaskDocument, sys.argv[1:])
    kind = find_maintenance_kinds()[document.kind]
    options = kind.options_type.model_validate(document.options)
    task = kind(document, options)
    driver = driver_of(document.endpoint.engine)
    stop = Stop()

    def open_connection() -> Any:
        return driver.connect(document.endpoint, f"maintenance:{document.name}")

    connection = open_connection()
    send_message(ready={})
    while not stop.asked:
        began_s, began_ns = time.monotonic(), time.time_ns()
        did: list[str] = []
        error_told = ""
        try:
            did.extend(task.turn(connection))
        except driver.errors as error:
            error_told = f"{driver.code(error)}: {driver.describe(error)}"
            driver.close(connection)
            connection = reconnect(open_connection, stop)
        send_message(turn={"t_ns": began_ns, "took_s": round(time.monotonic() - began_s, 3), "did": did, "error": error_told})
        stop.wait(options.every_s)
    driver.close(connection)


if __name__ == "__main__":
    run_role(main)
