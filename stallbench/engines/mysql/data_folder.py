"""Creates a data folder of MySQL: a copy of one that ``mysqld --initialize-insecure`` has created before on this machine.

The result depends only on the program and the user: settings are given
when the server starts, which also sets the password. The keys for TLS are in the template, readable for its owner only; servers listen on loopback.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from stallbench.engines.data_folder_templates import hash_program, keep_as_template, unpack_template
from stallbench.setup.components import CACHE

_IDENTITY = "auto.cnf"
"""The file with the server's UUID. A server that has none makes one; the members of a replication must not have the same."""


def create_data_folder(program: Path, data: Path, initialise: Callable[[], None]) -> None:
    """Fill the folder ``data`` for the server ``program``: with a copy, or else by ``initialise``, whose result is kept.

    ``data``: does not exist yet. Raises what ``initialise`` raises.
    """
    template = CACHE / "mysql-data" / f"{hash_program(program, os.geteuid())}.tar"
    data.parent.mkdir(parents=True, exist_ok=True)
    if unpack_template(template, data):
        return
    data.mkdir()
    initialise()
    keep_as_template(data, template, without=[_IDENTITY])
