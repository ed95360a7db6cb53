"""``python -m stallbench.injection.maintenance [document.json]``: one maintenance task, repeated until SIGTERM.

It prints ``{"iteration": {...}}`` after each iteration, with the actions it took and the error it met, if any.
"""

from __future__ import annotations

import time
from typing import Any

from stallbench.engines import driver_of
from stallbench.engines.reconnection import reconnect
from stallbench.engines.role_errors import run_role
from stallbench.errors import NotCarriedOutError
from stallbench.injection.maintenance import TaskDocument, find_maintenance_kinds
from stallbench.processes.role import Stop, read_document, send_message
from stallbench.processes.role_arguments import role_parser


def main() -> None:
    """Repeat the task until asked to stop; an error is reported, and the next iteration uses a new connection."""
    does = "Repeat one maintenance task on a server."
    document = read_document(
        TaskDocument, role_parser("stallbench.injection.maintenance", does, TaskDocument).parse_args().document
    )
    kind = find_maintenance_kinds()[document.kind]
    options = kind.options_type.model_validate(document.options)
    task = kind(document, options)
    driver = driver_of(document.endpoint.engine)
    stop = Stop()
    task.wait = stop.wait

    def open_connection() -> Any:
        return driver.connect(document.endpoint, f"maintenance:{document.name}")

    connection = open_connection()
    send_message(ready={})
    while not stop.asked:
        began_s, began_ns = time.monotonic(), time.time_ns()
        actions: list[str] = []
        error_text = ""
        try:
            actions.extend(task.iterate(connection))
        except driver.errors as error:
            error_text = f"{driver.code(error)}: {driver.describe(error)}"
            driver.close(connection)
            connection = reconnect(open_connection, stop)
        except NotCarriedOutError as error:
            error_text = str(error)
        busy_s = round(time.monotonic() - began_s, 3)
        send_message(iteration={"t_ns": began_ns, "busy_s": busy_s, "actions": actions, "error": error_text})
        stop.wait(options.every_s)
    driver.close(connection)


if __name__ == "__main__":
    run_role(main)
